"""Problems as verl wants them: python prepare.py writes train.parquet."""

import pyarrow
import pyarrow.parquet

import rlcr
from rlcr.tasks import read_problems

prompt = rlcr.load_prompt("rlcr")
rows = [
    {
        "data_source": "rlcr",
        "prompt": rlcr.messages(prompt, problem),
        "reward_model": {"style": "rule", "ground_truth": list(problem.gold)},
        "extra_info": {
            "index": number,
            "question": problem.question,
            "verifier": problem.verifier,
            "choices": problem.extras.get("choices"),
        },
    }
    for number, problem in enumerate(read_problems("problems.jsonl"))
]
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "train.parquet")
