"""Grade text that a model has written: find answer and confidence, compare with the gold, measure.

    python examples/grade_generations.py

The same on the command line, for a file of your own (JSONL, CSV or Parquet):

    rlcr score generations.jsonl --completion output --gold answer --verifier math --out graded.jsonl
"""

import rlcr

QUESTIONS = {"What is 3/4 + 1/4?": "1", "What is 12 * 12?": "144", "Half of 7?": "3.5", "2^10?": "1024"}
GENERATIONS = [
    "<think>quarters</think><answer>$\\frac{4}{4}$</answer><analysis>sure</analysis><confidence>0.95</confidence>",
    "<think>12 dozen</think><answer>144</answer><analysis>I know it</analysis><confidence>90%</confidence>",
    "<think>7 / 2</think><answer>3</answer><analysis>rounding?</analysis><confidence>0.3</confidence>",
    "I would say 1024, but I was never told about tags.",
]


def main() -> None:
    """Say what became of each, and of all of them."""
    scores = rlcr.score(GENERATIONS, list(QUESTIONS.values()), format="rlcr", verifier="math")
    for question, record in zip(QUESTIONS, scores.records, strict=True):
        bent = f" (read leniently: {', '.join(record.leniencies)})" if record.leniencies else ""
        print(f"{question:20} {record.answer!s:14} {record.verdict:8} confidence {record.confidence}{bent}")
    overall = scores.measurement.overall.metrics
    print(*(f"{name} {overall[name].value:.3f}" for name in ("accuracy", "brier", "coverage")))


if __name__ == "__main__":
    main()
