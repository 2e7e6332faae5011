# pyright: basic
"""Attention over packed sequences: the one function that we register with transformers, and its switch.

All sequences lie behind each other in one row of tokens (batch size 1), so nothing is padded outside
attention. Everything else in a decoder treats tokens one by one and does not mind their order; positions are
given explicitly. Who may look at whom is up to a `Plan`, which the model receives as the keyword ``packed``;
transformers hands it down to the attention function unchanged. Models run without a cache of their own.

Sampling has the plans `Prefill` and `Decode` (`rlcr.engine.decoding`); learning and embedding have
`SharedPrompts` (`rlcr.engine.sharing`). Whether a model can work without its own attention is tested by
`rlcr.engine.trial`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AttentionInterface

from rlcr.errors import RlcrError

#: The name under which transformers finds the function. No mask function has it, so models make no mask.
NAME = "rlcr_packed"
#: What a layer may ask of attention that ours does not do.
UNKNOWN_DEMANDS = {"softcap": "capped scores", "s_aux": "attention sinks", "position_bias": "position biases"}


class NotForwardedError(Exception):
    """The model does not hand keywords down to its attention function."""


class Plan(Protocol):
    """Who attends to whom in a row of tokens."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Outputs (1, tokens, heads, dim) of queries, keys and values (1, heads, tokens, dim)."""
        ...


@dataclass
class Demands:
    """What the layers of a model asked of attention."""

    layers: set[int] = field(default_factory=set)
    windows: set[int] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def note(self, layer: int, asked: dict[str, Any]) -> None:
        """Add what one layer asks."""
        self.layers.add(layer)
        if asked.get("sliding_window") is not None:
            self.windows.add(asked["sliding_window"])
        self.unknown |= {name for name in UNKNOWN_DEMANDS if asked.get(name) is not None}


_DEMANDS: ContextVar[Demands | None] = ContextVar("demands", default=None)


@contextmanager
def noting() -> Iterator[Demands]:
    """Collects what layers ask of our attention in the meantime."""
    token = _DEMANDS.set(demands := Demands())
    try:
        yield demands
    finally:
        _DEMANDS.reset(token)


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    packed: Plan | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls in every layer."""
    if packed is None:
        raise NotForwardedError(type(module).__name__)
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    if (demands := _DEMANDS.get()) is not None:
        demands.note(layer, kwargs)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return packed.attend(layer, query, key, value, scale), None


AttentionInterface.register(NAME, attention)


def base_model(model: Any) -> Any:
    """The transformers model inside a peft model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def device_of(model: Any) -> torch.device:
    """Where a model's inputs go."""
    return base_model(model).get_input_embeddings().weight.device


def use_attention(model: Any, name: str) -> None:
    """Give a model another attention of transformers' for its own; raises if it cannot have it."""
    inner, why = base_model(model), "the model keeps its own"
    try:
        inner.set_attn_implementation(name)
    except (ValueError, ImportError, KeyError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
    if inner.config._attn_implementation != name:
        raise RlcrError(f"attn_implementation={name}: {why}")


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model in evaluation mode; afterwards every module is as it was."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


class Switch:
    """Switches models between their own attention and ours; as a context, to ours and back."""

    def __init__(self, *models: Any) -> None:
        self._models = [base_model(model) for model in models]
        self._own = [model.config._attn_implementation for model in self._models]

    def turn(self, on: bool) -> None:
        """Our attention, or that which the models had when this switch was made."""
        for model, own in zip(self._models, self._own, strict=True):
            wanted = NAME if on else own
            if model.config._attn_implementation != wanted:
                model.set_attn_implementation(wanted)

    def __enter__(self) -> None:
        try:
            self.turn(True)
        except BaseException:
            self.turn(False)
            raise

    def __exit__(self, *_: Any) -> None:
        self.turn(False)
