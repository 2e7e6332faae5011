# pyright: basic
"""What this machine can do, asked before a model is loaded."""

from __future__ import annotations

import os

import torch

from rlcr.errors import RlcrError, need
from rlcr.sample.loading import check_device, find_device
from rlcr.training.recipes.checks import missing_packages
from rlcr.training.recipes.settings import Recipe


def device_of(recipe: Recipe) -> str:
    """The kind of device to train on; raises if it cannot be had as the recipe says."""
    return choose_device(recipe.device)


def choose_device(wanted: str = "auto") -> str:
    """The kind of device to train on; raises if it is not there, or if one process sees several.

    Of several, transformers' trainer would use all at once by DataParallel, slowly and with another loss.
    """
    check_device(wanted)
    device = find_device() if wanted == "auto" else wanted
    if device == "cuda" and torch.cuda.device_count() > 1 and "LOCAL_RANK" not in os.environ:
        raise RlcrError(
            f"{torch.cuda.device_count()} GPUs are visible to one process: start with"
            " `torchrun --nproc_per_node N -m rlcr …`, or set CUDA_VISIBLE_DEVICES to one"
        )
    return device


def computes_in_bf16(dtype: str, device: str) -> bool:
    """Whether the arithmetic is bfloat16: on a GPU that can, unless the recipe's ``dtype`` says otherwise."""
    if device != "cuda" or dtype not in ("auto", "bfloat16"):
        return False
    able = torch.cuda.is_bf16_supported()
    if dtype == "bfloat16" and not able:
        raise RlcrError("dtype=bfloat16: this GPU cannot; use dtype=float32")
    return able


def check_machine(recipe: Recipe, device: str) -> None:
    """Raise if a package that the recipe needs is not installed, or the device cannot compute as it says."""
    missing = missing_packages(recipe)
    need("this recipe", *missing, install=f"pip install {' '.join(missing)}")
    computes_in_bf16(recipe.dtype, device)
