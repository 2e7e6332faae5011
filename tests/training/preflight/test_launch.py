# pyright: basic
"""Launches: our configurations as accelerate reads them, and what a run refuses before it loads anything."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cluster.launches import environment_of
from tests.command import rlcr

from rlcr.errors import RlcrError
from rlcr.training.launches import LAUNCHES, SHARDED, launch_config
from rlcr.training.preflight import launch
from rlcr.training.preflight.launch import check_launch, check_sft_launch, started
from rlcr.training.recipes import load_recipe
from rlcr.training.warm_up import warm_up

ZERO2 = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"}
ZERO3 = ZERO2 | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}
GATHER = {"ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL": "true"}
OFFLOAD = {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE": "cpu"}
FSDP2 = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
WHOLE = {"sampler": "vllm", "eval_every": None}


@pytest.mark.parametrize("name", LAUNCHES)
def test_accelerate_reads_our_configurations(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "launch.yaml"
    path.write_text(launch_config(name))
    environment = environment_of(path)
    for key, value in environment.items():
        if key.startswith(("ACCELERATE_", "FSDP_")):
            monkeypatch.setenv(key, value)
    told = started()
    assert told.sharded == (name in SHARDED)
    assert told.zero_stage == {"zero2": 2, "zero3": 3}.get(name)
    assert told.fsdp == (2 if name == "fsdp2" else None)
    assert told.gathers_on_save or name != "zero3"
    assert not told.offloads_optimizer
    # The recipe decides on the precision; what the launcher says would win over a recipe in float32.
    assert environment["ACCELERATE_MIXED_PRECISION"] == "no"
    if name == "fsdp2":
        assert environment["FSDP_VERSION"] == "2"


@pytest.mark.parametrize(
    ("environment", "changes", "message"),
    [
        (
            ZERO3,
            WHOLE,
            "ZeRO-3 without gathering of weights could not save the trained model: set zero3_save",
        ),
        (
            ZERO2 | OFFLOAD,
            {},
            "an offloaded optimiser: accelerate would put DeepSpeed's own Adam in its place",
        ),
        (
            ZERO3 | GATHER | OFFLOAD,
            WHOLE,
            "an offloaded optimiser: accelerate would put DeepSpeed's own Adam",
        ),
        (
            ZERO3 | GATHER,
            {},
            "does not go with sampler=rlcr (use sampler=vllm), eval_every (use eval_every=null)",
        ),
        (FSDP2, {**WHOLE, "lora.rank": 4}, "does not go with lora (use lora=null"),
        ({"ACCELERATE_USE_FSDP": "true"}, WHOLE, "FSDP1: set fsdp_version: 2"),
    ],
)
def test_what_cannot_be_done_is_refused(
    environment: dict[str, str], changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(RlcrError) as refused:
        check_launch(load_recipe("hotpotqa-rlcr", changes).recipe)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("sampler", ["vllm", "transformers"])
def test_samplers_that_gather_weights_go_with_sharding(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in FSDP2.items():
        monkeypatch.setenv(key, value)
    check_launch(load_recipe("hotpotqa-rlcr", WHOLE | {"sampler": sampler}).recipe)


@pytest.fixture
def offloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A configuration of DeepSpeed's own that offloads, with more in it, and a release of DeepSpeed."""

    def write(release: str, **more: Any) -> None:
        path = tmp_path / "ds.json"
        zero = {"stage": 2, "offload_optimizer": {"device": "cpu"}}
        path.write_text(json.dumps({"zero_optimization": zero} | more))
        monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
        monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(path))
        monkeypatch.setattr(launch, "need", lambda *_, **__: None)
        monkeypatch.setattr(launch, "version", lambda _: release)

    return write


KEEPS = {"zero_force_ds_cpu_optimizer": False}


def test_a_deepspeed_file_is_read_too(offloads: Any) -> None:
    recipe = load_recipe("hotpotqa-rlcr").recipe
    offloads("0.19.8")
    with pytest.raises(RlcrError, match="accelerate would put DeepSpeed's own Adam in its place"):
        check_launch(recipe)
    with pytest.raises(RlcrError, match="accelerate would put DeepSpeed's own Adam in its place"):
        check_sft_launch({})
    offloads("0.18.9", **KEEPS)
    with pytest.raises(
        RlcrError, match=r"DeepSpeed 0.18.9 may keep the last one only; install deepspeed>=0.19.8"
    ):
        check_launch(recipe)
    offloads("0.19.8", **KEEPS)
    check_launch(recipe)


def test_adapters_are_not_sharded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_sft_launch({"--lora-rank": True})
    for key, value in FSDP2.items():
        monkeypatch.setenv(key, value)
    check_sft_launch({"--lora-rank": False})
    with pytest.raises(RlcrError, match="sharded over processes, which does not go with --lora-rank"):
        check_sft_launch({"--lora-rank": True})
    with pytest.raises(RlcrError, match=r"does not go with lora \(use warm_up.all_weights=true\)"):
        warm_up(load_recipe("tiny-arms-brier", {"lora.rank": 4}), tmp_path / "warm")
    assert not (tmp_path / "warm").exists()


def test_nothing_is_loaded_or_written_before(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = rlcr("train", "tiny-arms-brier", "--out", out, env=os.environ | ZERO3)
    assert done.returncode == 2
    assert done.stderr.startswith("rlcr: the weights are sharded over processes")
    assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_the_command_prints_or_writes(tmp_path: Path) -> None:
    assert rlcr("launch-config", "zero2").stdout == launch_config("zero2")
    path = tmp_path / "zero3.yaml"
    assert rlcr("launch-config", "zero3", "--out", path).returncode == 0
    assert path.read_text() == launch_config("zero3")
    again = rlcr("launch-config", "zero3", "--out", path)
    assert (again.returncode, again.stderr) == (2, f"rlcr: {path}: exists already; choose another --out\n")
    wrong = rlcr("launch-config", "zero4")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "did you mean" in wrong.stderr
