"""Train on problems of your own: a table becomes problems, a few lines of YAML become a run.

    python examples/train_on_your_file.py HuggingFaceTB/SmolLM2-135M-Instruct      # an hour or so on a CPU

Needs the extra "train". The same on the command line:

    rlcr tasks build file --set path=sums.csv --set solution=steps --verifier math --out sums.jsonl
    rlcr train sums.yaml --dry-run
    rlcr train sums.yaml --out runs/sums
"""

import random
import sys
from pathlib import Path
from typing import Any

import rlcr

RECIPE = """\
like: smollm2-rlcr          # a recipe of ours; what is not said here is as there
about: RLCR on my own sums
model: {model}
task: {task}
task_settings: null         # those that it has for its own task
size: 300
updates: 60
eval_task: {held_out}       # watched while it trains
eval_every: 20
eval_size: 40
"""


def make_table(path: Path) -> None:
    """Questions, answers, and the steps between them, by which the warm-up teaches the tags."""
    draw = random.Random(0)
    pairs = [(a, b) for a in range(10, 40) for b in range(10, 40)]
    rows = [f"What is {a} + {b}?,{a + b},{a} plus {b} makes {a + b}" for a, b in draw.sample(pairs, 400)]
    path.write_text("\n".join(["question,answer,steps", *rows]) + "\n")


def main(model: str, folder: Path, **settings: Any) -> Path:
    """Train, and write a page about the training. ``settings`` change the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    make_table(folder / "sums.csv")
    found = rlcr.tasks.load("file", path=str(folder / "sums.csv"), solution="steps", verifier="math")
    print(
        f"{len(found.problems)} problems; the first: {found.problems[0].question} {found.problems[0].gold[0]}"
    )
    rlcr.tasks.write_problems(folder / "sums.jsonl", found.problems[:300])
    rlcr.tasks.write_problems(folder / "held-out.jsonl", found.problems[300:])

    recipe = folder / "sums.yaml"
    tasks = {"task": folder / "sums.jsonl", "held_out": folder / "held-out.jsonl"}
    recipe.write_text(RECIPE.format(model=model, **tasks))
    trained = rlcr.train(recipe, out=folder / "run", **settings)

    rlcr.report.page.write_report([trained.folder], folder / "report.html")
    print(f"trained: {trained.model}; every curve is in {folder / 'report.html'}")
    return trained.model


if __name__ == "__main__":
    main(sys.argv[1], Path("runs/sums"))
