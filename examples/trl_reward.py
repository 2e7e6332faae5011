"""RLCR inside TRL's own GRPOTrainer: the reward is eight lines.

    python examples/trl_reward.py Qwen/Qwen2.5-0.5B-Instruct        # any model; needs the extra "train"

`rlcr train` does more: it checks the run beforehand, is faster, resumes exactly and warns of collapse.
"""

import sys
from typing import Any

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]

import rlcr

REWARD = rlcr.get_reward("rlcr")  # format, correctness and calibration, one half each


def calibration_reward(completions: list[Any], gold: list[str], **_: Any) -> list[float | None]:
    """What TRL calls: a reward for each completion, None where nobody can tell (it is then left out)."""
    texts = [completion[0]["content"] for completion in completions]
    problems = [rlcr.Problem(str(n), "", (answer,), verifier="math") for n, answer in enumerate(gold)]
    return REWARD.score(texts, problems).rewards.totals()


def main(model: str, out: str = "runs/trl", **settings: Any) -> GRPOTrainer:
    """Train on little sums. ``settings`` are those of GRPOConfig."""
    prompt = rlcr.load_prompt("rlcr")
    sums = [
        rlcr.Problem(f"{a}+{b}", f"What is {a} + {b}?", (str(a + b),), "math")
        for a in range(9)
        for b in range(9)
    ]
    rows = [{"prompt": rlcr.messages(prompt, problem), "gold": problem.gold[0]} for problem in sums]
    # As the method has it: advantages are not divided by their spread, and the loss is that of the batch.
    usual = {"num_generations": 8, "scale_rewards": "none", "loss_type": "bnpo", "temperature": 0.7}
    trainer = GRPOTrainer(
        model,
        reward_funcs=calibration_reward,
        args=GRPOConfig(output_dir=out, **(usual | settings)),
        train_dataset=Dataset.from_list(rows),
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    main(sys.argv[1])
