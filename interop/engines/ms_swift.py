"""ms-swift: its import of plug-ins, its scoring of completions and its advantages, without a model."""

import sys
from pathlib import Path

import numpy as np
import torch
from swift.rewards import orms
from swift.rl_core.advantage import compute_advantages
from swift.rl_core.data import GRPOSample
from swift.rl_core.grpo_algorithm import score_completions
from swift.utils import import_external_file

from interop.case import SAMPLES, Case
from interop.checks import Checks
from interop.snippets import write_module
from rlcr import group_advantages


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "ms-swift")
    write_module("ms-swift", Path("my_reward.py"))
    import_external_file("my_reward.py")
    samples = [
        GRPOSample(
            messages=[
                {"role": "user", "content": f"question {question}"},
                {"role": "assistant", "content": text},
            ],
            extra={"solution": gold},
        )
        for question, text, gold, _ in case.rows()
    ]
    rewards = score_completions(
        samples,
        reward_funcs=[orms["rlcr"](args=None)],
        reward_model_plugins=[None],
        use_gym_env=False,
        device=torch.device("cpu"),
    )
    # ms-swift holds rewards as 32-bit numbers.
    expected = case.totals_or(0.0)
    what = "its `score_completions` with the lines above"
    checks.equal(what, rewards[:, 0].tolist(), expected, within=1e-7)
    advantages, _ = compute_advantages(rewards, torch.ones(1), SAMPLES, scale_rewards="none")
    totals_PG = np.array(expected, float).reshape(-1, SAMPLES)
    wanted = group_advantages(totals_PG, np.ones_like(totals_PG, dtype=bool)).ravel().tolist()
    what = "its advantages, against `rlcr.group_advantages`"
    checks.equal(what, advantages.tolist(), wanted, within=1e-6)


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
