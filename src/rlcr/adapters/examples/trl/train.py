"""RLCR with TRL's own GRPOTrainer: python train.py MODEL [--cpu]."""

import sys

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

import rlcr
from rlcr.adapters.trl import make_reward
from rlcr.tasks import read_problems

prompt = rlcr.load_prompt("rlcr")
rows = [
    {
        "prompt": rlcr.messages(prompt, problem),
        "gold": list(problem.gold),
        "verifier": problem.verifier,
        "choices": problem.extras.get("choices"),
    }
    for problem in read_problems("problems.jsonl")
]
models, cpu = [one for one in sys.argv[1:] if one != "--cpu"], "--cpu" in sys.argv
if len(models) != 1:
    sys.exit("usage: python train.py MODEL [--cpu]")
config = GRPOConfig(
    output_dir="out",
    # What makes it RLCR: no division by the spread, token-mean loss, no KL.
    scale_rewards="none",
    loss_type="bnpo",
    beta=0.0,
    num_generations=4,
    per_device_train_batch_size=4,
    max_completion_length=32 if cpu else 1024,
    temperature=0.7,
    learning_rate=1e-6,
    max_steps=2 if cpu else -1,
    logging_steps=1,
    report_to="none",
    use_cpu=cpu,
    bf16=not cpu,
    gradient_checkpointing=not cpu,
)
GRPOTrainer(
    model=models[0],
    reward_funcs=make_reward(gold="gold", verifier_column="verifier", choices="choices"),
    args=config,
    train_dataset=Dataset.from_list(rows),
).train()
