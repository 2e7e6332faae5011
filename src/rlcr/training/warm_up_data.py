"""The responses of a format warm-up: worked solutions, or right answers of the model itself, put into tags.

Whatever the source, a response is rendered here: the steps and the answer in the tags of the method, with a
confidence that is drawn at random, independent of the problem and of whether the model can solve it, and,
where the format has an analysis, a sentence that fits any solution. The tags are all that is new to learn.

Samples of the model are made and graded by `rlcr eval`'s own code, forced continuations included, and the
first right one of each problem is kept (rejection sampling).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate
from rlcr.evaluate.grade import read_response
from rlcr.evaluate.methods import get_method, stored_method
from rlcr.problem import Problem
from rlcr.prompts import messages
from rlcr.response import TAGS, get_format, parse
from rlcr.runs.record import Record
from rlcr.runs.store import RUN, open_run
from rlcr.sample import Sampler
from rlcr.tasks import TaskSet
from rlcr.training.recipes.checks import prompt_of
from rlcr.training.recipes.settings import Recipe, WarmUp

#: Samples of a problem, of which the first right one is kept.
SAMPLES = 4
#: The folder of the samples inside that of the warm-up: a run of `rlcr eval`.
SAMPLED = "samples"
#: What responses are made of, in words.
SOURCES = {
    "solutions": "made of worked solutions",
    "samples": "made of right answers of the model itself",
    "auto": "made of worked solutions, or else of right answers of the model itself",
}
#: What an analysis says that says nothing about this solution.
NEUTRAL = (
    "I went through the steps once more.",
    "This follows from the steps above.",
    "I looked at each step again.",
    "The steps above lead to this answer.",
)

_TAG = re.compile(rf"</?(?:{'|'.join(TAGS)})>")


@dataclass(frozen=True)
class Worked:
    """A problem with steps that lead to a right answer."""

    problem: Problem
    steps: str
    answer: str


def already_warm(model: str, method: str) -> bool:
    """Whether a model is a folder of ours that was trained for the tags of a method."""
    stored = stored_method(model)
    return stored is not None and stored.format == get_method(method).format


def choose_source(warm: WarmUp, problems: Sequence[Problem]) -> str:
    """``solutions`` or ``samples``; raises where solutions are wanted and not there."""
    without = [problem.id for problem in problems if not problem.extras.get("solution")]
    if warm.source == "samples" or (warm.source == "auto" and without):
        return "samples"
    if without:
        raise RlcrError(
            f"warm_up.source=solutions: {len(without):,} of {len(problems):,} problems have no worked"
            f" solution, such as {without[0]}; warm_up.source=samples teaches from the model's own"
        )
    return "solutions"


def solutions(problems: Sequence[Problem]) -> list[Worked]:
    """What the task itself offers."""
    return [Worked(problem, problem.extras["solution"], problem.gold[0]) for problem in problems]


def samples(
    recipe: Recipe, task_set: TaskSet, problems: Sequence[Problem], sampler: Sampler, out: Path, room: int
) -> tuple[list[Worked], dict[str, int]]:
    """Right answers of the model itself, and how many were sampled, right and repaired.

    Sampled into a run of `rlcr eval`, which goes on where it was interrupted. ``room`` is what the tags take
    of the tokens of a response.
    """
    settings = Settings(
        model=recipe.model,
        tasks=(task_set.task,),
        method=recipe.method,
        split=recipe.split,
        samples=SAMPLES,
        max_tokens=max(1, recipe.max_completion_tokens - room),
        temperature=recipe.temperature,
        seed=recipe.seed,
        prompt=recipe.prompt,
    )
    folder = out / SAMPLED
    evaluate(
        settings,
        folder,
        resume=(folder / RUN).exists(),
        sampler=sampler,
        task_sets=[replace(task_set, problems=tuple(problems))],
    )
    records = sorted(open_run(folder).records(), key=lambda record: record.sample)
    right: dict[str, Record] = {}
    for record in records:
        if record.correct and record.answer:
            right.setdefault(record.id, record)
    kept = [
        Worked(problem, _steps(right[problem.id]), right[problem.id].answer or "")
        for problem in problems
        if problem.id in right
    ]
    counts = {
        "sampled": len(records),
        "right": sum(record.correct is True for record in records),
        "repaired": sum(not record.well_formed for record in right.values()),
    }
    return kept, counts


def _steps(record: Record) -> str:
    """What led to the answer: the thinking, or else all that was written before the answer's tag."""
    response = read_response(record.text, record.format, "strict", record.think_open)
    steps = response.part("think")
    if not steps:
        start = response.spans["answer"][0] if "answer" in response.spans else len(record.text)
        steps = record.text[:start]
    return _TAG.sub(" ", steps).strip()


def rows(
    recipe: Recipe, warm: WarmUp, worked: Sequence[Worked]
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The lines to train on, and how many could not be put into the tags, by reason."""
    method, prompt = get_method(recipe.method), prompt_of(recipe)
    lines, left_out = [], Counter[str]()
    for one, (confidence, analysis) in zip(worked, drawn(recipe.seed, warm), strict=False):
        text = render(method.format, one, confidence, analysis)
        if fault := _fault(text, method.format, one.answer):
            left_out[fault] += 1
            continue
        lines.append(
            {
                "id": one.problem.id,
                "method": method.name,
                "messages": messages(prompt, one.problem),
                "completion": text,
                "ends": True,
            }
        )
    return lines, dict(left_out.most_common())


def drawn(seed: int, warm: WarmUp) -> Iterator[tuple[float, str]]:
    """Confidences and analyses without end, the same for a seed whatever they are put beside.

    ``q = low + (high - low) sqrt(u)`` with u uniform: every value occurs, high ones more often, as in what
    language models say of themselves. Drawn evenly, what greedy decoding states would be an accident.
    """
    rng = np.random.default_rng([seed % 2**32, 17])
    low, high = warm.confidence
    while True:
        yield round(low + (high - low) * rng.random() ** 0.5, 2), NEUTRAL[rng.integers(len(NEUTRAL))]


def render(format: str, worked: Worked, confidence: float, analysis: str) -> str:
    """A response in the tags of a format, on one line but for the steps.

    >>> one = Worked(Problem("1", "657 - 233?", ("424",), "math"), "657 - 233 = 424", "424")
    >>> render("confidence", one, 0.7, "")
    '<think>657 - 233 = 424</think><answer>424</answer><confidence>0.70</confidence>'
    """
    parts = {
        "think": worked.steps,
        "answer": worked.answer,
        "analysis": analysis,
        "confidence": f"{confidence:.2f}",
    }
    tag_set = get_format(format)
    return tag_set.render("", **{tag: parts[tag] for tag in tag_set.tags})


def _fault(text: str, format: str, answer: str) -> str:
    """Why a rendered response would not be read as it was meant: a tag inside its steps or its answer."""
    response = parse(text, format)
    return response.fault or ("" if response.answer == answer.strip() else "another answer is read")
