# pyright: basic
"""Weights in the precision of the arithmetic, cast once for many passes.

Under autocast a model holds its weights in float32 and each linear layer computes in half precision. While
nothing learns, torch casts the weights anew in every pass: a step of sampling, which multiplies a few rows by
each weight, then reads and writes them more often than it computes with them. Here they are cast beforehand,
and stand in for the float32 ones while a pass runs. What comes out is the same bit for bit: embeddings and
norms, which autocast leaves alone, stay as they are. So do weights that lie in parts on several devices,
which FSDP casts as it gathers them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from rlcr.engine.attention import device_of


class HalfWeights:
    """The weights of a model's linear layers as autocast would cast them; nothing where it is off.

    A copy, so that it is to be made again when the weights have changed. It takes two bytes a weight.
    """

    def __init__(self, model: Any) -> None:
        kind = device_of(model).type
        self._cast: list[tuple[dict[str, Any], str, Tensor]] = []
        if not torch.is_autocast_enabled(kind):
            return
        dtype = torch.get_autocast_dtype(kind)
        layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
        for layer in layers:
            for name, weight in layer._parameters.items():
                if weight is None or isinstance(weight, DTensor):
                    continue
                if weight.dtype == torch.float32:
                    self._cast.append((layer._parameters, name, weight.detach().to(dtype)))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model computes with them; afterwards it has its own again."""
        own = [(parameters, name, parameters[name]) for parameters, name, _ in self._cast]
        _put(self._cast)
        try:
            yield
        finally:
            _put(own)


def _put(weights: list[tuple[dict[str, Any], str, Any]]) -> None:
    for parameters, name, weight in weights:
        parameters[name] = weight
