"""Run folders made by code: whole ones, large ones, and broken ones."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rlcr.evaluate.results import measure_records
from rlcr.runs.record import FORMAT, from_cells
from rlcr.runs.stamps import stamp, write_derived
from rlcr.runs.store import PROBLEMS, RECORDS, RESULTS, RUN, open_run

TEXT = (
    "the sum of both numbers is then divided by what remains so we look at each case in turn and note that the "
    "second one cannot hold because it would be larger than the first which was given as a bound above"
)
WORDS = TEXT.split()

#: method -> chance of being right and stated confidence, from how easy a question is (0 to 1)
METHODS: dict[str, Callable[[random.Random, float], tuple[float, float]]] = {
    "base": lambda rng, easy: (0.15 + 0.5 * easy, rng.choice([0.8, 0.85, 0.9, 0.95, 0.95, 1.0])),
    "rlvr": lambda rng, easy: (0.2 + 0.6 * easy, rng.choice([0.95, 1.0, 1.0, 1.0])),
    "rlcr": lambda rng, easy: (
        0.2 + 0.6 * easy,
        min(1.0, max(0.0, round((0.2 + 0.6 * easy + rng.gauss(0, 0.08)) * 20) / 20)),
    ),
}


def sentence(rng: random.Random, words: int) -> str:
    """So many words in a row."""
    return " ".join(rng.choices(WORDS, k=words)).capitalize() + "."


def record(
    name: str,
    task: str,
    *,
    sample: int = 0,
    text: str | None = None,
    answer: str | None = "42",
    confidence: float | None = 0.9,
    verdict: str = "correct",
    **other: Any,
) -> dict[str, Any]:
    """A record as `rlcr eval` writes it."""
    if text is None:
        text = f"<think>because</think><answer>{answer}</answer><analysis>sure</analysis><confidence>{confidence}</confidence>"
    return {
        "id": name,
        "sample": sample,
        "task": task,
        "format": "rlcr",
        "prompt_sha256": "0" * 64,
        "text": text,
        "think_open": False,
        "forced_answer": None,
        "forced_confidence": None,
        "unrepaired": [],
        "finish_reason": "stop",
        "tokens": len(text) // 4,
        "response_tokens": len(text) // 4,
        "prompt_tokens": 100,
        "logprob": -12.5,
        "answer_logprobs": {"strict": [-0.1]},
        "seconds": 0.5,
        "answer": answer,
        "confidence": confidence,
        "answer_probability": 0.9,
        "verdict": verdict,
        "reason": "the gold cannot be read" if verdict == "unscorable" else "",
        "verifier": "exact",
        "well_formed": True,
        "fault": "",
        "leniencies": [],
    } | other


def problem(name: str, question: str, gold: str) -> dict[str, Any]:
    """A problem as a run stores it."""
    return {
        "id": name,
        "question": question,
        "gold": [gold],
        "verifier": "exact",
        "instruction": "",
        "extras": {},
    }


def write_run(
    folder: Path,
    records: Iterable[dict[str, Any]],
    problems: Iterable[dict[str, Any]],
    *,
    method: str = "rlcr",
    results: bool = True,
    resamples: int = 200,
) -> Path:
    """A run folder of these records."""
    folder.mkdir(parents=True, exist_ok=True)
    records = list(records)
    tasks = dict.fromkeys(r["task"] for r in records)
    ids = {task: {r["id"] for r in records if r["task"] == task} for task in tasks}
    settings = {
        "model": f"models/{method}-7b",
        "method": method,
        "samples": 1 + max((r["sample"] for r in records), default=0),
        "grading": "strict",
        "verifier": None,
        "judge": None,
        "judge_weights": None,
        "temperature": 0.0,
        "max_tokens": 4096,
        "seed": 0,
        "mode": "chat",
        "tokenizer": None,
        "prompt": "rlcr",
        "prompt_text": "Answer.",
        "tasks": {task: {"size": len(ids[task]), "sha256": "0" * 64} for task in tasks},
    }
    (folder / RUN).write_text(
        json.dumps({"format": FORMAT, "settings": settings, "graded": {"grading": "strict"}})
    )
    with open(folder / RECORDS, "w") as file:
        file.writelines(json.dumps(r, ensure_ascii=True) + "\n" for r in records)
    with open(folder / PROBLEMS, "w") as file:
        file.writelines(json.dumps(p, ensure_ascii=True) + "\n" for p in problems)
    if results:
        measured = measure_records(map(from_cells, records), settings, resamples=resamples).to_dict()
        write_derived(open_run(folder), RESULTS, measured, stamp(open_run(folder)))
    return folder


def simulated_records(
    method: str, task: str, n: int, *, seed: int = 0, samples: int = 1, words: int = 60, shift: float = 0.0
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records and problems of a simulated task; the questions are the same for every method."""
    asked, rng = random.Random(f"{task}/{seed}"), random.Random(f"{method}/{task}/{seed}")
    records, problems = [], []
    for number in range(n):
        name, easy = f"{task}/{number:05d}", min(1.0, max(0.0, asked.random() + shift))
        gold = str(asked.randrange(1000))
        problems.append(problem(name, f"[{number}] {sentence(asked, 25)} How many are left?", gold))
        for sample in range(samples):
            chance, confidence = METHODS[method](rng, easy)
            right = rng.random() < chance
            answer = gold if right else str(rng.randrange(1000, 2000))
            verdict = "correct" if right else "wrong"
            other: dict[str, Any] = {}
            if rng.random() < 0.01:
                verdict = "unscorable"
            think, analysis = sentence(rng, rng.randrange(words // 2, words * 2)), sentence(rng, words // 3)
            text = f"<think>{think}</think>\n<answer>{answer}</answer>\n"
            if method == "rlcr":
                text += f"<analysis>{analysis}</analysis>\n"
            if rng.random() < 0.04:
                forced = f" {100 * confidence:.0f}."
                other = {
                    "forced_confidence": forced,
                    "well_formed": False,
                    "fault": "missing <confidence>",
                }
            else:
                text += f"<confidence>{confidence}</confidence>"
            records.append(
                record(
                    name,
                    task,
                    sample=sample,
                    text=text,
                    answer=answer,
                    confidence=confidence,
                    verdict=verdict,
                    **other,
                )
            )
    return records, problems


def simulated_run(
    folder: Path, method: str, tasks: dict[str, int], *, samples: int = 1, words: int = 60, seed: int = 0
) -> Path:
    """A run of a method on simulated tasks."""
    records, problems = [], []
    for shift, (task, n) in enumerate(tasks.items()):
        more, asked = simulated_records(
            method, task, n, samples=samples, words=words, shift=0.2 * shift, seed=seed
        )
        records += more
        problems += asked
    return write_run(folder, records, problems, method=method)


def simulated_training(
    folder: Path, *, task: str = "arms", updates: int = 300, evals: int = 3, seed: int = 0
) -> Path:
    """A training run: curves that go somewhere, and held-out evaluations."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    (folder / "training.json").write_text(
        json.dumps({"settings": {"task": task, "reward": "rlcr", "method": "rlcr"}})
    )
    with open(folder / "updates.jsonl", "w") as file:
        for update in range(1, updates + 1):
            done = 1 - 2.7 ** (-3 * update / updates)
            line = {
                "update": update,
                "reward": 0.3 + 0.4 * done + rng.gauss(0, 0.02),
                "parts": {
                    "format": min(1.0, 0.8 + 0.2 * done),
                    "correctness": 0.3 + 0.3 * done + rng.gauss(0, 0.03),
                    "calibration": -0.4 + 0.25 * done + rng.gauss(0, 0.02),
                },
                "accuracy": 0.3 + 0.3 * done + rng.gauss(0, 0.03),
                "brier": 0.4 - 0.25 * done + rng.gauss(0, 0.02),
                "ece": abs(0.4 - 0.36 * done + rng.gauss(0, 0.02)),
                "auroc": None if update < 5 else 0.5 + 0.25 * done + rng.gauss(0, 0.02),
                "confidence_mean": 0.9 - 0.3 * done,
                "confidence_std": 0.05 + 0.2 * done + rng.gauss(0, 0.01),
                "distinct_confidences": 5 + int(15 * done),
                "well_formed": min(1.0, 0.8 + 0.2 * done),
                "entropy": 0.8 - 0.4 * done,
                "mismatch_mean": 0.002 + 0.001 * done,
                "mismatch_max": 0.4 + 0.2 * done,
                "mismatch_far": 0.01,
                "tokens_mean": 220 + 60 * done + rng.gauss(0, 6),
                "truncated": max(0.0, 0.05 - 0.05 * done),
                "lr": 1e-6,
                "seconds": 12.0,
            }
            file.write(json.dumps(line) + "\n")
    for number in range(1, evals + 1):
        method = "base" if number == 1 else "rlcr"
        simulated_run(
            folder / "evals" / f"update-{number * updates // evals:06d}", method, {task: 80}, seed=seed
        )
    return folder


ARTEFACTS: dict[str, Any] = {
    "voting.json": {
        "tasks": {
            "gsm8k": [
                {
                    "name": name,
                    "metric": "accuracy",
                    "n": [1, 2, 4, 8, 16, 32],
                    "value": [0.5 + k * (1 - 0.8**i) for i in range(6)],
                }
                for name, k in (
                    ("majority", 0.15),
                    ("highest confidence", 0.2),
                    ("confidence-weighted majority", 0.26),
                )
            ]
        }
    },
    "analyses.json": {
        "tasks": {
            "gsm8k": [
                {
                    "name": "mean of k analyses",
                    "metric": "Brier score",
                    "n": [1, 2, 3, 4],
                    "value": [0.22, 0.21, 0.205, 0.2],
                    "low": [0.2, 0.19, None, 0.18],
                    "high": [0.24, 0.23, None, 0.22],
                }
            ]
        }
    },
    "coherence.json": {
        "tasks": {
            "gsm8k": {
                "sums": [abs(random.Random(i).gauss(1.1, 0.3)) for i in range(350)],
                "spread": [abs(random.Random(i).gauss(0, 0.08)) for i in range(400)],
            }
        }
    },
    "selective.json": {
        "precision": 0.9,
        "tasks": {
            "gsm8k": {
                "checks": [
                    {
                        "threshold": {"value": 0.8, "ci95": [0.7, 0.9]},
                        "precision": {"value": 0.91, "ci95": [0.85, 0.96]},
                        "coverage": {"value": 0.4, "ci95": [0.33, 0.47]},
                    }
                ]
            }
        },
    },
    "classifier_sizes.json": {
        "tasks": {
            "gsm8k": [
                {
                    "name": size,
                    "metrics": {
                        "brier": {"value": 0.25 - 0.03 * i, "ci95": [0.23 - 0.03 * i, 0.27 - 0.03 * i]},
                        "auroc": 0.6 + 0.06 * i,
                    },
                }
                for i, size in enumerate(("0.5B", "1.5B", "7B"))
            ]
        }
    },
}


def write_artefacts(folder: Path, artefacts: Mapping[str, Any] = ARTEFACTS) -> None:
    """Files as other commands derive them from the records of a run."""
    for name, value in artefacts.items():
        write_derived(open_run(folder), name, value, stamp(open_run(folder)))
