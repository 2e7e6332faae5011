"""The devices that torch can compute on here."""

from __future__ import annotations

import torch


def devices() -> list[str]:
    """Each device with its name and memory, the CPU last."""
    found = [_name(number) for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps: the GPU of this Mac")
    return [*found, "cpu"]


def _name(number: int) -> str:
    about = torch.cuda.get_device_properties(number)
    return f"cuda:{number}: {about.name}, {about.total_memory / 2**30:.0f} GiB"
