# pyright: basic
"""How many tokens the cache of the local sampler may hold, where nobody says it: by what memory is free."""

from __future__ import annotations

import os
from typing import Any

import psutil
import torch

from rlcr.engine.attention import base_model, device_of

#: The share of the free memory that the cache may take: buffers are larger than what they hold, and a slab
#: that grows has a layer of it twice.
SHARE = 0.5
#: Less would hardly hold one sample; more is of no use, since a CPU gains nothing from more rows, and a GPU
#: nothing from more than this.
LEAST, MOST_ON_CPU, MOST = 4096, 65_536, 2**21


def default_budget(model: Any) -> int:
    """Tokens whose keys and values fill half of the free memory of the model's device, within bounds."""
    device = device_of(model)
    most = MOST_ON_CPU if device.type == "cpu" else MOST
    return max(LEAST, min(most, int(SHARE * free_memory(device)) // cache_bytes(model)))


def cache_bytes(model: Any) -> int:
    """Bytes of the keys and values of one token, over all layers.

    Values have the precision of the arithmetic. Keys are turned by their positions, which are computed in the
    precision of the embeddings: under autocast they are float32.
    """
    config, kind = base_model(model).config.get_text_config(), device_of(model).type
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    values = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else model.dtype
    return config.num_hidden_layers * heads * size * (model.dtype.itemsize + values.itemsize)


def free_memory(device: torch.device) -> float:
    """Bytes that this process may still take on a device; processes on one CPU have equal shares of it."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What torch holds in store for itself is free as well.
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return psutil.virtual_memory().available / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
