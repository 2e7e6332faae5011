"""`rlcr` with a vLLM on the CPU that keeps its weights: `python -m results.served.unpacked train …`.

On a CPU vLLM packs the weights of its linear layers for its own products and drops the originals, so that
others cannot be put in their place: TRL's first hand-over of weights ends with "'Parameter' object has no
attribute 'weight_loader'". On GPUs it does not pack. Here these layers use torch's product instead, and all
else is vLLM's.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.model_executor.layers import utils

from rlcr.cli import main


def keep(layer: Any, remove_weight: bool) -> None:
    """In place of packing."""
    layer.cpu_linear = torch.nn.functional.linear


utils.dispatch_cpu_unquantized_gemm = keep

if __name__ == "__main__":
    main()
