"""Two processes that are done at different times: `torchrun … -m tests.training.ending OUT`."""

import sys
import time
from pathlib import Path

import torch

from rlcr.training.together import ending_together


def main(out: Path) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    with ending_together():
        if rank == 0:
            time.sleep(1)
            (out / "first").touch()
    left = not torch.distributed.is_initialized()
    (out / f"process-{rank}").write_text(f"{left} {(out / 'first').exists()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
