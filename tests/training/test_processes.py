# pyright: basic
"""One process and two make the same update."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.training.gradients import error
from tests.training.one_update import CASES, updates

ROOT = Path(__file__).parents[2]


def test_two_processes_make_the_update_of_one(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    call += ["-m", "tests.training.one_update", str(tmp_path / "two")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        call, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    two, one = torch.load(tmp_path / "two" / "found.pt"), updates(tmp_path / "one")
    for case in CASES:
        assert two[case]["rollouts"] == one[case]["rollouts"], case
        assert error(two[case]["gradient"], one[case]["gradient"]) < 1e-5, case
        assert two[case]["mismatch"] == pytest.approx(one[case]["mismatch"], rel=1e-4), case
