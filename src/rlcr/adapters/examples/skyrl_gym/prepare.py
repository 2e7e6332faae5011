"""Problems as SkyRL wants them: python prepare.py writes train.parquet."""

import pyarrow
import pyarrow.parquet

import rlcr
from rlcr.tasks import read_problems

prompt = rlcr.load_prompt("rlcr")
rows = [
    {
        "env_class": "rlcr",
        "prompt": rlcr.messages(prompt, problem),
        "reward_spec": {"method": "rule", "ground_truth": list(problem.gold)},
        "question": problem.question,
        "verifier": problem.verifier,
        "choices": problem.extras.get("choices"),
    }
    for problem in read_problems("problems.jsonl")
]
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "train.parquet")
