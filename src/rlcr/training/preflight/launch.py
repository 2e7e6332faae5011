# pyright: basic
"""How processes were started, asked before anything is loaded, and what cannot be done that way.

`accelerate launch` tells its processes by environment variables, from which accelerate makes its plugins.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from accelerate.utils import DeepSpeedPlugin, str_to_bool

from rlcr.errors import RlcrError, need
from rlcr.training.recipes.settings import Recipe


@dataclass(frozen=True)
class Started:
    """How the weights are divided among processes, as far as it decides what can be done."""

    fsdp: bool = False
    zero_stage: int | None = None
    """None without DeepSpeed."""
    offloads_optimizer: bool = False
    gathers_on_save: bool = True

    @property
    def sharded(self) -> bool:
        """Whether no process holds the whole weights."""
        return self.fsdp or self.zero_stage == 3


def started() -> Started:
    """What the launcher said."""
    if _set("ACCELERATE_USE_FSDP"):
        return Started(fsdp=True)
    if not _set("ACCELERATE_USE_DEEPSPEED"):
        return Started()
    zero = DeepSpeedPlugin().deepspeed_config["zero_optimization"]
    offload = (zero.get("offload_optimizer") or {}).get("device") or "none"
    gathers = zero.get("stage3_gather_16bit_weights_on_model_save", False)
    return Started(
        zero_stage=int(zero["stage"]),
        offloads_optimizer=str(offload) != "none",
        gathers_on_save=bool(gathers),
    )


def check_launch(recipe: Recipe) -> None:
    """Raise where a run could not be made, or not be saved, as it was started."""
    launch = started()
    if launch.sharded:
        _check_sharded(recipe)
    if launch.zero_stage == 3 and not launch.gathers_on_save:
        raise RlcrError(
            "ZeRO-3 without gathering of weights could not save the trained model: set"
            " zero3_save_16bit_model: true in the launch configuration (in one of DeepSpeed's own:"
            " stage3_gather_16bit_weights_on_model_save), or take that of `rlcr launch-config zero3`"
        )
    if launch.zero_stage in (1, 2) and launch.offloads_optimizer:
        # DeepSpeed before 0.19 keeps the gradient of the last pass alone; later ones have not been tried.
        raise RlcrError(
            f"ZeRO-{launch.zero_stage} with an offloaded optimiser: of the several passes of an update"
            " DeepSpeed may keep the last one only; set offload_optimizer_device: none, or use"
            " `rlcr launch-config zero3`"
        )
    if recipe.optimizer == "adam8bit" and (launch.fsdp or launch.zero_stage is not None):
        raise RlcrError(
            "optimizer=adam8bit has only been tried where each process holds the whole weights: use"
            " optimizer=adam with DeepSpeed and FSDP, which divide its states among processes"
        )
    if launch.zero_stage is not None:
        need("this launch", "deepspeed", install="pip install deepspeed")


def _check_sharded(recipe: Recipe) -> None:
    """Raise where something needs the weights whole."""
    needs = [
        setting
        for setting, used in (
            ("sampler=rlcr (use sampler=vllm)", recipe.sampler == "rlcr"),
            ("eval_every (use eval_every=null)", recipe.eval_every is not None),
            ("lora (use lora=null, or do not shard)", recipe.lora is not None),
        )
        if used
    ]
    if needs:
        raise RlcrError(f"the weights are sharded over processes, which does not go with {', '.join(needs)}")


def _set(name: str) -> bool:
    return bool(str_to_bool(os.environ.get(name, "false")))
