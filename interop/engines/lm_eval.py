"""lm-evaluation-harness: `simple_evaluate` of a task folder, with repeats, with what is stored."""

import sys
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

from interop.case import METRICS, Case
from interop.checks import Checks
from rlcr.adapters.example import copy_example
from rlcr.problem import Problem
from rlcr.tasks import write_problems


class Stored(LM):
    """Answers a question with its stored completions, one after the other."""

    def __init__(self, completions: list[list[str]]) -> None:
        super().__init__()
        self._left = [list(texts) for texts in completions]

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        return [self._left[int(request.doc["id"])].pop(0) for request in requests]

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> Any:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> Any:
        raise NotImplementedError


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "lm-eval")
    folder = Path("task").absolute()
    copy_example("lm_eval", folder)
    problems = [
        Problem(str(number), f"question {number}", (gold,), "math") for number, gold in enumerate(case.golds)
    ]
    write_problems(folder / "problems.jsonl", problems)
    task = folder / "rlcr_problems.yaml"
    text = task.read_text().replace("repeats: 4", "repeats: 2")
    task.write_text(text.replace("test: problems.jsonl", f"test: {folder}/problems.jsonl"))
    found = simple_evaluate(
        model=Stored(case.completions),
        tasks=["rlcr_problems"],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        log_samples=True,
    )
    results = found["results"]["rlcr_problems"]
    checks.metrics(
        "accuracy, AUROC, Brier, ECE of `simple_evaluate`", {m: results[f"{m},all"] for m in METRICS}, case
    )
    samples = sorted(found["samples"]["rlcr_problems"], key=lambda sample: int(sample["doc"]["id"]))
    pairs = [pair for sample in samples for pair in sample["accuracy"]]
    known = {"correct": True, "wrong": False, "unscorable": None}
    verdicts = [known[one] for group in case.verdicts for one in group]
    checks.equal("verdicts of the logged samples, repeats kept", [correct for correct, _ in pairs], verdicts)
    confidences = [one for group in case.confidences for one in group]
    checks.equal("confidences of the logged samples", [stated for _, stated in pairs], confidences)

    tracker = EvaluationTracker(output_path="logged")
    tracker.save_results_aggregated(found, samples=found["samples"])
    tracker.save_results_samples("rlcr_problems", found["samples"]["rlcr_problems"])
    (log,) = Path("logged").rglob("samples_rlcr_problems_*.jsonl")
    checks.imported("its samples file", log, case)


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
