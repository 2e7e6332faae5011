# pyright: basic
"""Linear layers for few rows on the threads of a CPU: the outputs in blocks.

A step of sampling multiplies a handful of rows by every weight of the model. Torch leaves the whole product
to MKL, which divides it badly among threads when there are few rows. As a batched product, one matrix for
each block of outputs, every thread gets whole matrices: with SmolLM2's weights in float32 and two threads
that is 1.4 times faster for 16 rows (the head: twice), 1.7 times for 4, and no faster for 256. With one
thread nothing is won, and half precision has products of its own, which are slow in batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

#: From this many rows on, the usual way is as fast.
_MANY_ROWS = 256
#: Outputs of a block. Smaller ones are mostly overhead, larger ones leave the cache.
_SMALLEST, _LARGEST = 32, 256


@contextmanager
def blocked_linears(model: Any) -> Iterator[None]:
    """Linear layers of ``model`` computed in blocks, where it helps; afterwards they are as they were."""
    layers = []
    if torch.get_num_threads() > 1 and not torch.is_autocast_enabled("cpu"):
        layers = [layer for layer in model.modules() if type(layer) is torch.nn.Linear and _plain(layer)]
    for layer in layers:
        vars(layer)["forward"] = MethodType(_forward, layer)
    try:
        yield
    finally:
        for layer in layers:
            del vars(layer)["forward"]


def _plain(layer: torch.nn.Linear) -> bool:
    """Whether it is on a CPU, in full precision, and nothing else has changed what it does."""
    weight = layer.weight
    exact = weight.dtype in (torch.float32, torch.float64)
    return exact and weight.device.type == "cpu" and "forward" not in vars(layer)


def _forward(self: torch.nn.Linear, x: Tensor) -> Tensor:
    outputs, inputs = self.weight.shape
    rows = x.numel() // inputs
    blocks = block_count(outputs, torch.get_num_threads())
    if blocks is None or not 0 < rows < _MANY_ROWS:
        return linear(x, self.weight, self.bias)
    x_KNI = x.reshape(1, rows, inputs).expand(blocks, -1, -1)
    y_KNO = torch.bmm(x_KNI, self.weight.view(blocks, outputs // blocks, inputs).transpose(1, 2))
    y = y_KNO.transpose(0, 1).reshape(*x.shape[:-1], outputs)
    return y if self.bias is None else y + self.bias


@lru_cache
def block_count(outputs: int, threads: int) -> int | None:
    """Into how many equal blocks outputs are cut: as few as may be, and the same number for each thread;
    None if it cannot be done.

    >>> block_count(576, 2), block_count(49152, 2), block_count(49152, 16), block_count(50257, 2)
    (4, 192, 192, None)
    """
    for blocks in range(threads, outputs // _SMALLEST + 1, threads):
        if outputs % blocks == 0 and outputs // blocks <= _LARGEST:
            return blocks
    return None
