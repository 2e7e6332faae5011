# pyright: basic
"""Toy models that compute in float64 throughout."""

from __future__ import annotations

import types
from typing import Any

import torch


def in_double(model: Any) -> Any:
    """The model in float64, its norms included.

    In transformers these compute in float32 whatever the model's type. Two ways of computing the same, apart
    by 1e-16 before a norm, are then rounded to neighbours that are 1e-7 apart, which would hide all below.
    """
    model = model.double()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = types.MethodType(_norm, module)
    return model


def _norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    eps = getattr(self, "variance_epsilon", None) or self.eps
    weight = 1 + self.weight if type(self).__name__.startswith("Gemma") else self.weight
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
