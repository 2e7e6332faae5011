"""TRL: stock `GRPOTrainer` takes two steps on a CPU, sampling what is stored."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from interop.case import SAMPLES, Case
from interop.checks import Checks
from interop.tokens import model, tokenizer
from rlcr import group_advantages
from rlcr.adapters.example import copy_example
from rlcr.adapters.trl import make_reward

STEPS = 2


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "trl")
    reward = make_reward(gold="gold", verifier="math")
    rows = case.rows()
    direct = reward(
        prompts=["…"] * len(rows),
        completions=[[{"role": "assistant", "content": text}] for _, text, _, _ in rows],
        gold=[gold for _, _, gold, _ in rows],
    )
    checks.equal("totals of the reward function, as messages", direct, case.totals_or(None))

    tokens = tokenizer(text for _, text, _, _ in case.rows())
    left = {f"question {n}": list(texts) for n, texts in enumerate(case.completions)}
    seen: list[dict[str, Any]] = []

    def rollout(prompts: list[Any], trainer: GRPOTrainer) -> dict[str, list]:
        texts = [left[prompt[-1]["content"]].pop(0) for prompt in prompts]
        ids = [[*tokens(text, add_special_tokens=False)["input_ids"], tokens.eos_token_id] for text in texts]
        asked = [
            tokens.apply_chat_template(prompt, add_generation_prompt=True)["input_ids"] for prompt in prompts
        ]
        return {"prompt_ids": asked, "completion_ids": ids, "logprobs": [[0.0] * len(one) for one in ids]}

    class Watched(GRPOTrainer):
        """Stock, but for a look at what it computes."""

        def _calculate_rewards(self, inputs: Any, *rest: Any) -> Any:
            rewards = super()._calculate_rewards(inputs, *rest)
            questions = [int(one["prompt"][-1]["content"].split()[-1]) for one in inputs]
            seen.append({"questions": questions, "rewards": rewards[:, 0].tolist()})
            return rewards

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            seen[-1]["advantages"] = output["advantages"].tolist()
            return output

    each = len(case.golds) // STEPS * SAMPLES
    trainer = Watched(
        model=model(len(tokens)),
        processing_class=tokens,
        reward_funcs=reward,
        rollout_func=rollout,
        train_dataset=Dataset.from_list(
            [
                {"prompt": [{"role": "user", "content": f"question {n}"}], "gold": gold}
                for n, gold in enumerate(case.golds)
            ]
        ),
        args=GRPOConfig(
            output_dir="trained",
            scale_rewards="none",
            loss_type="bnpo",
            beta=0.0,
            num_generations=SAMPLES,
            per_device_train_batch_size=SAMPLES,
            gradient_accumulation_steps=each // SAMPLES,
            max_completion_length=8000,
            max_steps=STEPS,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
        ),
    )
    trainer.train()
    assert trainer.state.global_step == STEPS
    questions = [n for step in seen for n in step["questions"]]
    rewards = [None if value != value else value for step in seen for value in step["rewards"]]
    # TRL holds rewards as 32-bit numbers.
    expected = [total for n in questions[::SAMPLES] for total in case.totals[n]]
    checks.equal("rewards in stock `GRPOTrainer`, 2 steps", rewards, expected, within=1e-7)
    totals_PG = np.array([[np.nan if t is None else t for t in case.totals[n]] for n in questions[::SAMPLES]])
    advantages = group_advantages(np.nan_to_num(totals_PG), ~np.isnan(totals_PG)).ravel().tolist()
    found = [value for step in seen for value in step["advantages"]]
    checks.equal("its advantages, against `rlcr.group_advantages`", found, advantages, within=1e-6)
    logged = [line["rlcr/confidence"] for line in trainer.state.log_history if "rlcr/confidence" in line]
    assert len(logged) == STEPS, trainer.state.log_history
    checks.settings("`train.py --cpu` in the copied example", example(tokens))


def example(tokens: Any) -> list[tuple[Any, Any]]:
    """What comes of the example with a model of random weights."""
    folder = Path("example").absolute()
    copy_example("trl", folder)
    tokens.save_pretrained(folder / "model")
    model(len(tokens)).save_pretrained(folder / "model")
    subprocess.run([sys.executable, "train.py", "model", "--cpu"], cwd=folder, check=True)
    state = json.loads((folder / "out" / "checkpoint-2" / "trainer_state.json").read_text())
    steps = [line for line in state["log_history"] if "reward" in line]
    return [
        (state["global_step"], 2),
        (len(steps), 2),
        *(("rlcr/correctness" in line, True) for line in steps),
    ]


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
