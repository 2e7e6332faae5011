# pyright: basic
"""Linear layers for few rows on a CPU: the weight as the left factor.

A step of sampling multiplies a handful of rows by every weight of the model. Torch computes x W^T; MKL, which
does the work, divides that product badly among threads when x has few rows. (W x^T)^T is the same numbers, and
on two threads 1.2 times faster for 16 rows, twice for 4. With one thread, or many rows, nothing is won.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

#: From this many rows on, the usual way is as fast.
_MANY_ROWS = 128
#: A weight with many outputs (the head) goes in blocks of so many, one thread each.
_BLOCK = 192
_MANY_OUTPUTS = 8192


@contextmanager
def products_of_few_rows(model: Any) -> Iterator[None]:
    """Linear layers of ``model`` computed so, where it helps; afterwards they are as they were."""
    layers = []
    if torch.get_num_threads() > 1:
        layers = [
            module
            for module in model.modules()
            if type(module) is torch.nn.Linear
            and module.weight.device.type == "cpu"
            and "forward" not in vars(module)
        ]
    for layer in layers:
        vars(layer)["forward"] = MethodType(_forward, layer)
    try:
        yield
    finally:
        for layer in layers:
            del vars(layer)["forward"]


def _forward(self: torch.nn.Linear, x: Tensor) -> Tensor:
    rows = x.numel() // x.shape[-1]
    if rows >= _MANY_ROWS:
        return linear(x, self.weight, self.bias)
    x_IN, weight_OI = x.reshape(rows, -1).t(), self.weight
    outputs, inputs = weight_OI.shape
    if outputs >= _MANY_OUTPUTS and outputs % _BLOCK == 0:
        blocks = outputs // _BLOCK
        y_ON = torch.bmm(weight_OI.view(blocks, _BLOCK, inputs), x_IN.expand(blocks, inputs, rows)).flatten(0, 1)
    else:
        y_ON = weight_OI @ x_IN
    y_NO = y_ON.t().contiguous()
    if self.bias is not None:
        y_NO = y_NO + self.bias
    return y_NO.reshape(*x.shape[:-1], outputs)
