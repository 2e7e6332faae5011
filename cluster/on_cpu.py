# pyright: basic
"""Sharding on CPUs: accelerate shards over GPUs only, so its processes are told that a CPU is one."""

from __future__ import annotations

import os

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType


def join(processes: int) -> None:
    """Make this process one of several that a launcher started, on CPUs. Call it before anything else.

    Never compare one process with itself: the number of processes is checked.
    """
    torch.distributed.init_process_group("gloo")
    found = torch.distributed.get_world_size()
    assert found == processes, f"{found} processes instead of {processes}"
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
        PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    PartialState(cpu=True)
