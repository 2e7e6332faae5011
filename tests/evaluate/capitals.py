"""A small task, the capitals of four countries, replies of a server to it, and the records of its runs."""

from pathlib import Path

from tests.servers import Call

from rlcr.evaluate.methods import FORCED_ANSWER, FORCED_CONFIDENCE
from rlcr.problem import Problem
from rlcr.runs.lines import read_lines
from rlcr.tasks import write_problems

CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo"}


def capitals(folder: Path, copies: int = 5) -> str:
    """A task of its own, as a file: copies of four questions, told apart by a number."""
    problems = [
        Problem(f"capitals/{country}-{number}", f"[{number}] Capital of {country}?", (capital,), "exact")
        for number in range(copies)
        for country, capital in CAPITALS.items()
    ]
    path = folder / "capitals.jsonl"
    write_problems(path, problems)
    return str(path)


def country_of(prompt: str) -> str:
    """The country that a prompt asks about."""
    return next(country for country in CAPITALS if f"Capital of {country}?" in prompt)


def good_reply(call: Call) -> str:
    """Knows France and Italy, is unsure of the rest; different samples differ in confidence."""
    country = country_of(call.prompt)
    known = country in ("France", "Italy")
    answer = CAPITALS[country] if known else "London"
    confidence = 0.9 if known else 0.2
    return (
        f"<think>{country}</think><answer>{answer}</answer><analysis>…</analysis>"
        f"<confidence>{confidence - call.number % 5 / 100:.2f}</confidence>"
    )


def needy_reply(call: Call) -> str:
    """Needs a forced answer for France, a forced confidence for Italy, both for Spain, nothing for Japan."""
    country = country_of(call.prompt)
    if call.prompt.endswith(FORCED_CONFIDENCE):
        return " 70."
    if call.prompt.endswith(FORCED_ANSWER):
        return f" {CAPITALS[country]}.\n\nThat is all"
    return {
        "France": "<think>I ran out of</think><confidence>0.6</confidence>",
        "Italy": "<think>…</think><answer>Rome</answer>",
        "Spain": "no tags at all",
        "Japan": "<think>…</think><answer>Kyoto</answer><confidence>0.1</confidence>",
    }[country]


def records_of(folder: Path) -> list[dict]:
    """The records of a run, in the order of the file."""
    return list(read_lines(folder / "records.jsonl"))


def comparable(folder: Path) -> list[dict]:
    """Records without what may differ between two runs: order and timings."""
    records = [{k: v for k, v in record.items() if k != "seconds"} for record in records_of(folder)]
    return sorted(records, key=lambda record: (record["id"], record["sample"]))
