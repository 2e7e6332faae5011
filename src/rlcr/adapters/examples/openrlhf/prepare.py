"""Problems as OpenRLHF wants them: python prepare.py writes train.jsonl."""

import json
from pathlib import Path

import rlcr
from rlcr.tasks import read_problems

prompt = rlcr.load_prompt("rlcr")
lines = []
for problem in read_problems("problems.jsonl"):
    label = {"gold": problem.gold, "verifier": problem.verifier, **problem.extras}
    lines.append(json.dumps({"input": rlcr.messages(prompt, problem), "label": json.dumps(label)}))
Path("train.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
