# pyright: basic
"""What a launcher tells its processes, for each way of dividing a run among them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

from rlcr.training.launches import launch_config

#: Our configurations, and variants of them: (the configuration, its part that is changed, the changes).
LAUNCHES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ddp": ("ddp", "", {}),
    "fsdp2": ("fsdp2", "", {}),
    "fsdp1": (
        "fsdp2",
        "fsdp_config",
        {"fsdp_version": 1, "fsdp_reshard_after_forward": "FULL_SHARD", "fsdp_use_orig_params": True},
    ),
    "zero2": ("zero2", "", {}),
    "zero2-offload": ("zero2", "", {}),
    "zero2-offload-replaced": ("zero2", "deepspeed_config", {"offload_optimizer_device": "cpu"}),
    "zero3": ("zero3", "", {}),
    "zero3-no-gather": ("zero3", "deepspeed_config", {"zero3_save_16bit_model": False}),
}

#: A configuration of DeepSpeed's own, which leaves the optimiser to the run.
OFFLOAD = Path(__file__).parent / "offload.json"


def environment(name: str) -> dict[str, str]:
    """The variables that `accelerate launch` sets for its processes, by its own code."""
    base, section, changes = LAUNCHES[name]
    config = yaml.safe_load(launch_config(base))
    if section:
        config[section] |= changes
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(yaml.safe_dump(config))
        file.flush()
        set_by_launcher = environment_of(Path(file.name))
    ours = {key: value for key, value in set_by_launcher.items() if key.startswith(("ACCELERATE_", "FSDP_"))}
    if name == "zero2-offload":
        ours["ACCELERATE_DEEPSPEED_CONFIG_FILE"] = str(OFFLOAD)
    return ours


def environment_of(path: Path) -> dict[str, str]:
    """All variables that `accelerate launch` gives its processes with the configuration in a file."""
    line = ["--config_file", str(path), "--num_processes", "2", "--main_process_port", "0"]
    line += ["-m", "rlcr", "train"]
    args: Any = launch_command_parser().parse_args(line)
    args, _, _ = _validate_launch_command(args)
    if args.use_deepspeed:
        args.deepspeed_fields_from_accelerate_config = ""
        return prepare_deepspeed_cmd_env(args)[1]
    return prepare_multi_gpu_env(args)
