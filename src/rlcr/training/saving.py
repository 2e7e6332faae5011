# pyright: basic
"""A trained model as an ordinary Hugging Face folder, whole or absent."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from rlcr.evaluate.methods import METHOD_FILE
from rlcr.training.grpo import CalibrationTrainer

#: Inside the folder of a run: the trained model, and the best by the held-out metric.
MODEL, BEST = "model", "best"


def save_model(trainer: CalibrationTrainer, folder: Path, method: str, weights: Any = None) -> None:
    """Write an ordinary Hugging Face folder, adapters merged (in float32), with its method."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        merged = deepcopy(model)
        if merged.dtype in (torch.bfloat16, torch.float16):
            merged = merged.float()  # what adapters learn is small, and would round away in their base
        model, weights = merged.merge_and_unload(), None
    made = folder.with_name(folder.name + ".partial")
    shutil.rmtree(made, ignore_errors=True)
    model.save_pretrained(made, state_dict=weights)
    trainer.processing_class.save_pretrained(made)
    (made / METHOD_FILE).write_text(json.dumps({"method": method}) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    made.rename(folder)
