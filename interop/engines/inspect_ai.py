"""inspect: `inspect_ai.eval` of a task with a mock model and two epochs, then `inspect score` of its log."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)

from interop.case import Case, split_thought
from interop.checks import Checks
from rlcr.adapters.example import copy_example
from rlcr.adapters.inspect_ai import calibrated


def message(text: str) -> ChatMessageAssistant:
    """What a provider makes of a text."""
    thought, rest = split_thought(text)
    if not thought:
        return ChatMessageAssistant(content=rest)
    return ChatMessageAssistant(content=[ContentReasoning(reasoning=thought), ContentText(text=rest)])


def output(text: str) -> ModelOutput:
    """A reply. Its usage is given, since inspect would count tokens with a file that it downloads."""
    usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return ModelOutput(model="mock", choices=[ChatCompletionChoice(message=message(text))], usage=usage)


def compare(checks: Checks, what: str, log: EvalLog, case: Case, scorer: str) -> None:
    (scores,) = [score for score in log.results.scores if score.name == scorer]
    metrics = {name: metric.value for name, metric in scores.metrics.items()}
    checks.metrics(f"accuracy, AUROC, Brier, ECE with intervals, {what}", metrics, case, intervals=True)
    unscorable = sum(verdict == "unscorable" for group in case.verdicts for verdict in group)
    checks.equal(f"unscored samples, {what}", [scores.unscored_samples], [unscorable])
    found = {(sample.id, sample.epoch): sample.scores[scorer] for sample in log.samples}
    order = [(n + 1, epoch + 1) for n in range(len(case.golds)) for epoch in range(2)]
    values = [None if found[key].value != found[key].value else found[key].value for key in order]
    known = {"correct": 1.0, "wrong": 0.0, "unscorable": None}
    checks.equal(f"verdicts, {what}", values, [known[one] for group in case.verdicts for one in group])
    stated = [found[key].metadata["confidence"] for key in order]
    checks.equal(f"confidences, {what}", stated, [one for group in case.confidences for one in group])


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "inspect-ai")
    left = [list(texts) for texts in case.completions]

    def answer(messages: list, *_: object) -> ModelOutput:
        return output(left[int(messages[-1].text.split()[-1])].pop(0))

    samples = [Sample(id=n + 1, input=f"question {n}", target=gold) for n, gold in enumerate(case.golds)]
    (log,) = eval(
        Task(dataset=samples, scorer=calibrated(verifier="math"), epochs=2),
        model=get_model("mockllm/model", custom_outputs=answer),
        log_dir="logs",
        display="none",
        max_connections=1,
        max_samples=1,
    )
    assert log.status == "success", log.error
    compare(checks, "`inspect_ai.eval`", log, case, "calibrated")
    checks.imported("its log", Path(log.location), case)

    rescored = Path("rescored.eval")
    command = ["inspect", "score", log.location, "--scorer", "rlcr/calibrated", "-S", "verifier=math"]
    subprocess.run([*command, "--action", "overwrite", "--output-file", rescored], check=True)
    compare(
        checks, "`inspect score --scorer rlcr/calibrated`", read_eval_log(str(rescored)), case, "calibrated"
    )
    checks.settings("`inspect_ai.eval` of the copied example", example())


def example() -> list[tuple[Any, Any]]:
    """What comes of the example with a model that is always right and states 0.8."""
    folder = Path("example").absolute()
    copy_example("inspect_ai", folder)
    problems = [json.loads(line) for line in (folder / "problems.jsonl").read_text().splitlines()]
    golds = {problem["question"]: problem["gold"][0] for problem in problems}

    def right(messages: list, *_: object) -> ModelOutput:
        (gold,) = [gold for question, gold in golds.items() if question in messages[-1].text]
        text = f"<think>…</think><answer>{gold}</answer><analysis>…</analysis><confidence>0.8</confidence>"
        return output(text)

    model = get_model("mockllm/model", custom_outputs=right)
    (log,) = eval("example/task.py", model=model, log_dir="example-logs", display="none")
    (scores,) = log.results.scores
    found = {name: round(metric.value, 12) for name, metric in scores.metrics.items()}
    return [
        ({sample.id for sample in log.samples}, {problem["id"] for problem in problems}),
        (scores.unscored_samples, 0),
        ((found["accuracy"], found["brier"], found["ece"]), (1.0, 0.04, 0.2)),
    ]


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
