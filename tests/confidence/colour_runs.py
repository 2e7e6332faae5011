"""Runs whose right and wrong answers are a known function of their text, with a model that can read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rlcr.evaluate.grade import grade
from rlcr.problem import Problem
from rlcr.runs.lines import json_line
from rlcr.runs.record import FORMAT, Sampled, to_line
from rlcr.runs.store import PROBLEMS, RECORDS, RUN
from rlcr.tasks import write_problems

#: The chance of being right, by the word that the solution holds.
CHANCE = {"red": 0.1, "blue": 0.5, "green": 0.9}
#: Mean of p (1 - p): no confidence can have a lower expected Brier score.
OPTIMUM = float(np.mean([p * (1 - p) for p in CHANCE.values()]))


def raw(name: str, sample: int, text: str, **other: Any) -> Sampled:
    """A completion that is to be graded."""
    usual: dict[str, Any] = {
        "finish_reason": "stop", "tokens": 10, "response_tokens": 10, "logprob": -5.0,
        "answer_logprobs": {"strict": [-0.1, -0.7]},
    }  # fmt: skip
    cells = {"id": name, "sample": sample, "task": "words", "format": "confidence", "text": text}
    return Sampled(**cells, **usual | other)


def write_run(folder: Path, records: list[Sampled], problems: list[Problem], model: str = "none") -> Path:
    """A finished run of these records, graded."""
    folder.mkdir(parents=True, exist_ok=True)
    by_id = {problem.id: problem for problem in problems}
    graded = grade(records, [by_id[record.id] for record in records], "strict", None)
    tasks = {"words": {"size": len(problems), "sha256": "0" * 64}}
    settings = {
        "model": model, "model_weights": "", "method": "base", "samples": 1 + max(r.sample for r in records),
        "prompt": "base", "prompt_text": "Name a colour.", "tasks": tasks, "verifier": None, "judge": None,
        "judge_weights": None, "temperature": 0.7, "max_tokens": 16, "seed": 0, "mode": None,
        "tokenizer": None, "grading": "strict",
    }  # fmt: skip
    graded_by = {"grading": "strict", "verifier": None, "judge": None}
    (folder / RUN).write_text(json.dumps({"format": FORMAT, "settings": settings, "graded": graded_by}))
    (folder / RECORDS).write_text("".join(map(to_line, graded)))
    write_problems(folder / PROBLEMS, problems)
    return folder


def colour_run(
    folder: Path,
    questions: int,
    *,
    samples: int = 2,
    seed: int = 0,
    shuffled: bool = False,
    model: str = "none",
) -> Path:
    """A question is a number; a solution names a colour, which alone decides the chance of being right.

    With ``shuffled`` the chance is one half whatever the colour, but all samples of a question share their
    verdict: whoever has seen a question's verdict can know that of its other samples.
    """
    rng = np.random.default_rng(seed)
    problems, records = [], []
    for number in range(questions):
        name = f"words/{seed}-{number}"
        question = f"Number {seed} {' '.join(str(number))}?"
        problems.append(Problem(name, question, ("yes",), "exact"))
        lucky = rng.random() < 0.5
        for sample in range(samples):
            colour = str(rng.choice(list(CHANCE)))
            right = lucky if shuffled else rng.random() < CHANCE[colour]
            stated = round(float(rng.random()), 2)
            text = f"<think>{colour}</think><answer>{'yes' if right else 'no'}</answer><confidence>{stated}</confidence>"
            records.append(raw(name, sample, text))
    return write_run(folder, records, problems, model)


def hide_answers(folder: Path) -> None:
    """Answers tell right from wrong by themselves here; what is read must not hold them."""
    lines = [json.loads(line) for line in (folder / RECORDS).read_text().splitlines()]
    for record in lines:
        record["text"] = (
            record["text"].replace("yes</answer>", "it</answer>").replace("no</answer>", "it</answer>")
        )
    (folder / RECORDS).write_text("".join(map(json_line, lines)))


def tiny_checkpoint(folder: Path, **settings: Any) -> str:
    """A small random Llama that reads letters and a few whole words."""
    from tests.tiny import tiny_model, tiny_tokenizer

    tokenizer = tiny_tokenizer(chat_template=None)
    tokenizer.add_tokens([*CHANCE, "<think>", "</think>", "<answer>", "</answer>"])
    tiny_model(vocab_size=len(tokenizer), initializer_range=0.05, **settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
