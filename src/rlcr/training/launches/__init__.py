"""How several devices share a run: configurations of `accelerate launch`, one file each.

    ddp      whole weights, gradients and optimiser on every device
    zero2    whole weights in half precision, the rest in parts (DeepSpeed)
    fsdp2    everything in parts (torch)
    zero3    everything in parts (DeepSpeed)

The number of processes is not in them: `accelerate launch --num_processes` says it. Nor is the precision,
which the recipe's ``dtype`` decides. Where weights are in parts, vLLM samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from rlcr.errors import RlcrError, nearest

Launch = Literal["ddp", "zero2", "fsdp2", "zero3"]

#: The names of the configurations, from the least to the most divided.
LAUNCHES: tuple[Launch, ...] = get_args(Launch)
#: Those in which no device holds the whole weights.
SHARDED: tuple[Launch, ...] = ("fsdp2", "zero3")


def launch_config(name: str) -> str:
    """The text of a configuration.

    >>> "zero_stage: 2" in launch_config("zero2")
    True
    """
    if name not in LAUNCHES:
        raise RlcrError(f"no launch named {name!r}: {nearest(name, list(LAUNCHES))}")
    return (Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8")
