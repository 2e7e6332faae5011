# pyright: basic
"""A trained model as an ordinary Hugging Face folder, whole or absent; and the adapters for training it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.evaluate.methods import METHOD_FILE, PROMPT_FILE
from rlcr.prompts import Prompt
from rlcr.training.checkpoint import saving
from rlcr.training.recipes.settings import Lora

#: Inside the folder of a run: the trained model, and the best by the held-out metric.
MODEL, BEST = "model", "best"


def save_model(
    model: Any,
    tokenizer: Any,
    folder: Path,
    *,
    method: str | None = None,
    prompt: Prompt | None = None,
    weights: Any = None,
    texts: Mapping[str, str] | None = None,
) -> None:
    """Write a model with its tokenizer, adapters merged (in float32); a folder that was there is replaced.

    ``method`` is the one that it was trained for, ``prompt`` the user's own, if any; ``weights`` are given
    where processes hold a part each, and ``texts`` are further files.
    """
    if hasattr(model, "merge_and_unload"):
        import torch

        merged = deepcopy(model)
        if merged.dtype in (torch.bfloat16, torch.float16):
            merged = merged.float()  # what adapters learn is small, and would round away in their base
        model, weights = merged.merge_and_unload(), None
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    texts = dict(texts or {})
    if method is not None:
        texts[METHOD_FILE] = json.dumps({"method": method}) + "\n"
    if prompt is not None:
        texts[PROMPT_FILE] = prompt.text + "\n"
    with saving(folder, partial):
        model.save_pretrained(partial, state_dict=weights)
        tokenizer.save_pretrained(partial)
        for name, text in texts.items():
            (partial / name).write_text(text, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)


def whole_weights(trainer: Any) -> Any:
    """The weights of a trained model, gathered by all processes where each holds a part: all must call it."""
    return trainer.accelerator.get_state_dict(trainer.model_wrapped)


def check_targets(lora: Lora | None, model: Any) -> None:
    """Raise if adapters would have no place in a model: a pattern may name layers that another one has."""
    if lora is None or not isinstance(lora.targets, str) or lora.targets == "all-linear":
        return
    try:
        pattern = re.compile(lora.targets)
    except re.error as error:
        raise RlcrError(f"lora.targets: {lora.targets} is no regular expression: {error}") from None
    if not any(pattern.fullmatch(name) for name, _ in model.named_modules()):
        raise RlcrError(
            f"lora.targets: {lora.targets} matches nothing in this model, which has other layers; set"
            " lora.targets=all-linear"
        )


def lora_config(lora: Lora | None) -> Any:
    """Adapters in peft's words; None to train all weights."""
    if lora is None:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # pyright: ignore[reportArgumentType] (any number will do)
        lora_dropout=lora.dropout,
        target_modules=lora.targets,
        task_type="CAUSAL_LM",
    )
