# pyright: basic
"""How processes were started, asked before anything is loaded, and what cannot be done that way.

`accelerate launch` tells its processes by environment variables, from which accelerate makes its plugins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from accelerate.utils import DeepSpeedPlugin, str_to_bool
from packaging.version import Version

from rlcr.errors import RlcrError, need
from rlcr.training.recipes.settings import Recipe

#: The first release of DeepSpeed that was seen (`make cluster`) to add up passes where it offloads.
_ADDS_UP_OFFLOADED = Version("0.19.8")


@dataclass(frozen=True)
class Started:
    """How the weights are divided among processes, as far as it decides what can be done."""

    fsdp: int | None = None
    """Its version; None without FSDP."""
    zero_stage: int | None = None
    """None without DeepSpeed."""
    offloads_optimizer: bool = False
    replaces_optimizer: bool = False
    """Whether accelerate puts an optimiser of DeepSpeed's in place of the recipe's: if it is offloaded."""
    gathers_on_save: bool = True

    @property
    def sharded(self) -> bool:
        """Whether no process holds the whole weights."""
        return self.fsdp is not None or self.zero_stage == 3


def started() -> Started:
    """What the launcher said."""
    if _set("ACCELERATE_USE_FSDP"):
        return Started(fsdp=int(os.environ.get("FSDP_VERSION", "1")))  # as accelerate reads it
    if not _set("ACCELERATE_USE_DEEPSPEED"):
        return Started()
    config = DeepSpeedPlugin().deepspeed_config
    zero = config["zero_optimization"]
    offloads = str((zero.get("offload_optimizer") or {}).get("device") or "none") != "none"
    return Started(
        zero_stage=int(zero["stage"]),
        offloads_optimizer=offloads,
        replaces_optimizer=offloads and bool(config.get("zero_force_ds_cpu_optimizer", True)),
        gathers_on_save=bool(zero.get("stage3_gather_16bit_weights_on_model_save", False)),
    )


def check_launch(recipe: Recipe) -> None:
    """Raise where a run could not be made, or not be saved, as it was started."""
    launch = started()
    _check_fsdp(launch)
    _check_sharded(
        launch,
        {
            "sampler=rlcr (use sampler=vllm)": recipe.sampler == "rlcr",
            "eval_every (use eval_every=null)": recipe.eval_every is not None,
            "lora (use lora=null, or do not shard)": recipe.lora is not None,
        },
    )
    if recipe.optimizer == "adam8bit" and (launch.fsdp or launch.zero_stage is not None):
        raise RlcrError(
            "optimizer=adam8bit has only been tried where each process holds the whole weights: use"
            " optimizer=adam with DeepSpeed and FSDP, which divide its states among processes"
        )
    _check_deepspeed(launch)


def check_sft_launch(needs_whole: Mapping[str, bool]) -> None:
    """The same for supervised training: settings that need whole weights, and whether they are used."""
    launch = started()
    _check_fsdp(launch)
    _check_sharded(launch, needs_whole)
    _check_deepspeed(launch)


def _check_fsdp(launch: Started) -> None:
    """Raise for FSDP1, which transformers gives up, and which has not been seen to work."""
    if launch.fsdp == 1:
        raise RlcrError("FSDP1: set fsdp_version: 2, or take the configuration of `rlcr launch-config fsdp2`")


def _check_sharded(launch: Started, needs_whole: Mapping[str, bool]) -> None:
    """Raise where the weights are in parts and something that is used needs them whole."""
    used = [setting for setting, is_used in needs_whole.items() if is_used]
    if launch.sharded and used:
        raise RlcrError(f"the weights are sharded over processes, which does not go with {', '.join(used)}")


def _check_deepspeed(launch: Started) -> None:
    """Raise where DeepSpeed could not save the model, or might lose passes."""
    if launch.zero_stage == 3 and not launch.gathers_on_save:
        raise RlcrError(
            "ZeRO-3 without gathering of weights could not save the trained model: set"
            " zero3_save_16bit_model: true in the launch configuration (in one of DeepSpeed's own:"
            " stage3_gather_16bit_weights_on_model_save), or take that of `rlcr launch-config zero3`"
        )
    if launch.replaces_optimizer:
        raise RlcrError(
            "an offloaded optimiser: accelerate would put DeepSpeed's own Adam in its place, without the"
            " betas and the epsilon of this run; set offload_optimizer_device: none, or give a configuration"
            " of DeepSpeed's own with zero_force_ds_cpu_optimizer: false"
        )
    if launch.zero_stage is None:
        return
    need("this launch", "deepspeed", install="pip install deepspeed")
    found = version("deepspeed")
    if launch.zero_stage in (1, 2) and launch.offloads_optimizer and Version(found) < _ADDS_UP_OFFLOADED:
        raise RlcrError(
            f"ZeRO-{launch.zero_stage} with an offloaded optimiser: of the passes of an update DeepSpeed"
            f" {found} may keep the last one only; install deepspeed>={_ADDS_UP_OFFLOADED}, or set"
            " offload_optimizer_device: none"
        )


def _set(name: str) -> bool:
    return bool(str_to_bool(os.environ.get(name, "false")))
