"""Measure answers that you already have: a table with a verdict and a confidence in every row.

    python examples/measure_your_csv.py

The same on the command line, for a table of your own:

    rlcr metrics answers.csv --by model --plot reliability.png
    rlcr metrics answers.csv --correct is_right --confidence said --percent      # other names, 0 to 100
"""

import csv
import random
import sys
from pathlib import Path

import rlcr


def make_answers(path: Path) -> None:
    """Two models that know equally much: one says how sure it may be, the other always says 90%."""
    draw = random.Random(0)
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, ["model", "correct", "confidence"])
        table.writeheader()
        for _ in range(500):
            chance = draw.choice([0.2, 0.5, 0.8])
            right = int(draw.random() < chance)
            table.writerow({"model": "honest", "correct": right, "confidence": chance})
            table.writerow({"model": "boastful", "correct": right, "confidence": 0.9})


def main(folder: Path) -> None:
    """Make the table, read it, and compare the two models on the same questions."""
    path = folder / "answers.csv"
    make_answers(path)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))

    columns = {}
    for model in ("honest", "boastful"):
        correct = [int(row["correct"]) for row in rows if row["model"] == model]
        confidence = [float(row["confidence"]) for row in rows if row["model"] == model]
        columns[model] = correct, confidence
        found = rlcr.metrics.summary(correct, confidence).metrics
        print(model, *(f"{name} {found[name].value:.3f}" for name in ("accuracy", "brier", "ece")))

    difference = rlcr.metrics.compare(*columns["honest"], *columns["boastful"]).metrics["brier"]
    print(f"boasting costs {difference.value:.3f} of Brier score (p = {difference.p_value:.3f})")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
