"""The commands that are disturbed: how each is begun and resumed, and how two of its runs are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.evaluate.capitals import capitals, needy_reply
from tests.servers import ModelServer

from faults.fault import Outcome

Arguments = list[object]


def _nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Stage:
    """A command that writes to ``out``.

    ``begun(out)`` says whether it is to be resumed; ``before(out)`` puts there what the command reads;
    ``after_kill(whole, out, outcome)`` looks at what a kill left, ``compare(whole, out, outcome)`` at what
    came out in the end.
    """

    begin: Callable[[Path], Arguments]
    resume: Callable[[Path], Arguments]
    begun: Callable[[Path], bool]
    compare: Callable[[Path, Path, Outcome], None]
    before: Callable[[Path], None] = _nothing
    after_kill: Callable[[Path, Path, Outcome], None] = _nothing


@contextmanager
def evaluation(folder: Path) -> Iterator[Stage]:
    """`rlcr eval` on a server, whose replies need forced continuations."""
    with ModelServer(needy_reply, delay=0.01) as server:
        begin: Arguments = ["eval", "--model", server.url, "--task", capitals(folder, 40), "--method", "base"]
        begin += ["--concurrency", 4]
        yield Stage(
            lambda out: [*begin, "--out", out],
            lambda out: ["eval", "--resume", "--model", server.url, "--out", out],
            lambda out: (out / "run.json").exists(),
            same_run,
        )


# --- comparing --------------------------------------------------------------------------------------


def same_run(whole: Path, out: Path, outcome: Outcome) -> None:
    """The records of the undisturbed run but for order and timings, its results, and nothing left to do."""
    expected, found = read_records(whole), read_records(out)
    outcome.compare_keys([key(one) for one in expected], [key(one) for one in found])
    by_key = {key(one): one for one in expected}
    differing = [one for one in found if one != by_key.get(key(one))]
    for one in differing:
        outcome.fail(f"another record: {key(one)}")
    for name in ("results.md", "problems.jsonl"):
        if (whole / name).read_bytes() != (out / name).read_bytes():
            outcome.fail(f"another {name}")
    if (out / "unfinished.jsonl").exists():
        outcome.fail("unfinished.jsonl is still there")


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The records of a run without what depends on the clock."""
    text = (folder / "records.jsonl").read_text(encoding="utf-8", errors="surrogatepass")
    records = [json.loads(line) for line in text.splitlines()]
    return [{name: value for name, value in one.items() if name != "seconds"} for one in records]


def key(record: dict[str, Any]) -> tuple[str, int]:
    """Which completion it is."""
    return record["id"], record["sample"]
