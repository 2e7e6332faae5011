"""The authors' stored outputs and the numbers they published for them."""

import gzip
import json
from pathlib import Path

METHODS = ("Base", "RLVR", "RLVR-Classifier", "Answer-Prob", "RLCR")
RUNS = ("commonsenseqa", "math-500")
#: Our names of metrics -> theirs.
PUBLISHED_NAMES = {"accuracy": "accuracy", "auroc": "auroc", "brier": "brier_score", "ece": "ece"}


def outputs(shared_data: Path, run: str) -> Path:
    """The file of all methods' completions, verdicts and confidences on a task."""
    return shared_data / "rlcr_outputs" / f"hotpot_models_{run}.jsonl.gz"


def stored_rows(shared_data: Path, run: str) -> list[dict]:
    """The rows of that file."""
    with gzip.open(outputs(shared_data, run), "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def published(shared_data: Path, run: str, method: str) -> dict:
    """The metrics that the authors published for a method on a task."""
    with open(shared_data / "rlcr_outputs" / "metrics.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return next(row for row in rows if row["run"] == f"Hotpot-models/{run}" and row["method"] == method)
