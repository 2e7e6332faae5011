"""Which answers the page shows, and how they are put into it.

If they do not all fit, the ones worth reading go first: confidently wrong, unscorable, repaired; then the
others evenly. With an answer come the other runs' answers to the same question, so that they can be read side
by side. The rule, with its counts, is printed on the page.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlcr.errors import RlcrError
from rlcr.report.fields import number_of, sample_number, share, verdict_code
from rlcr.report.reading import EvalRun
from rlcr.response import Mode, parse
from rlcr.runs.record import UNSCORABLE, WRONG

#: A wrong answer with at least this confidence is confidently wrong.
CONFIDENT = 0.8
#: Bytes of samples in a page at most; with the rest it stays well under 15 MB.
BUDGET = 10_000_000
# Of the budget, what the ones worth reading may take before the others get their part.
_FIRST_SHARE = 0.7
#: Characters of one text at most; of a longer one the beginning and the end are kept.
LONGEST = 24_000
_HEAD = 18_000

_LONE = re.compile("[\ud800-\udfff]")
# Inside <script type="application/json"> nothing may end the element or begin markup.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_UNSAFE = re.compile("[<>&\u2028\u2029]")


@dataclass
class ShownSamples:
    """The samples of a page, ready to be embedded, and the rule by which they were chosen."""

    problems: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    rule: list[str] = field(default_factory=list)
    total: int = 0


def safe_json(value: Any) -> str:
    """JSON that can stand inside a script element, whatever texts it holds.

    >>> safe_json({"t": "</script><b>&"})
    '{"t":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e\\\\u0026"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(lambda match: _ESCAPES[match.group()], text)


def cut(text: str) -> str:
    """A text that can be shown: half characters replaced, the middle of a very long one left out.

    >>> cut("a\\ud800b"), len(cut("x" * 100_000)) < LONGEST + 100
    ('a\ufffdb', True)
    """
    text = _LONE.sub("\ufffd", text)
    if len(text) <= LONGEST:
        return text
    gone = len(text) - LONGEST
    return f"{text[:_HEAD]}\n\n[… {gone:,} characters are left out here …]\n\n{text[-(LONGEST - _HEAD) :]}"


def select(runs: Sequence[EvalRun], budget: int = BUDGET) -> ShownSamples:
    """Choose the samples of a page."""
    selection = ShownSamples(total=sum(len(run.rows) for run in runs))
    chooser = _Chooser(runs, selection)
    queues = [deque(queue) for queue in _worth_reading(runs)]
    taken = chooser.take_in_turn(queues, int(budget * _FIRST_SHARE))
    whole = chooser.take(_evenly(runs), budget)
    chooser.finish()
    selection.rule = _rule(runs, selection, chooser, taken and whole)
    return selection


def _confidently_wrong(run: EvalRun) -> np.ndarray:
    return (run.rows.verdict == WRONG) & (np.nan_to_num(run.rows.confidence, nan=-1) >= CONFIDENT)


def _worth_reading(runs: Sequence[EvalRun]) -> Iterator[list[tuple[int, int]]]:
    """For each run: its confidently wrong rows, the most confident first; the unscorable; the repaired."""
    for number, run in enumerate(runs):
        rows = np.flatnonzero(_confidently_wrong(run))
        order = np.lexsort((_spread_order(len(rows)), -run.rows.confidence[rows]))
        yield [(number, int(row)) for row in rows[order]]
        for mask in (run.rows.verdict == UNSCORABLE, run.rows.repaired > 0):
            rows = np.flatnonzero(mask)
            yield [(number, int(row)) for row in rows[np.argsort(_spread_order(len(rows)))]]


def _evenly(runs: Sequence[EvalRun]) -> Iterator[tuple[int, int]]:
    """Every row of every run, in an order of which any beginning is spread over the whole run."""
    orders = []
    for number, run in enumerate(runs):
        rows = run.rows
        first = np.lexsort(
            (_spread_order(len(rows.ids))[rows.question] if len(rows) else rows.question, rows.sample)
        )
        orders.append([(number, int(row)) for row in first])
    for turn in range(max(map(len, orders), default=0)):
        for order in orders:
            if turn < len(order):
                yield order[turn]


def _spread_order(n: int) -> np.ndarray:
    """Ranks of 0 … n - 1 such that those with small ranks lie evenly among all (by the golden ratio)."""
    return np.argsort(np.argsort(np.arange(n) * 0.6180339887498949 % 1))


class _Chooser:
    """Takes rows, with their companions, until the budget is spent."""

    def __init__(self, runs: Sequence[EvalRun], selection: ShownSamples) -> None:
        self._runs, self._selection = runs, selection
        self.chosen: set[tuple[int, int]] = set()
        self.spent = 0
        self.has_cut = False
        # For each run, the rows of a question: companions have its id and, if there is one, its sample.
        self._rows_of: list[dict[str, dict[int, int]]] = []
        for run in runs:
            rows_of: dict[str, dict[int, int]] = {}
            for row, (question, sample) in enumerate(zip(run.rows.question, run.rows.sample, strict=True)):
                rows_of.setdefault(run.rows.ids[question], {}).setdefault(int(sample), row)
            self._rows_of.append(rows_of)
        self._problems: dict[int, dict[str, dict[str, Any]]] = {}
        self._numbers: dict[tuple[str, str, str], int] = {}

    def take_in_turn(self, queues: Sequence[deque[tuple[int, int]]], budget: int) -> bool:
        """One of each queue, again and again. False if the budget ended first."""
        waiting = [queue for queue in queues if queue]
        while waiting:
            for queue in waiting:
                if not self._take(queue.popleft(), budget):
                    return False
            waiting = [queue for queue in waiting if queue]
        return True

    def take(self, rows: Iterator[tuple[int, int]], budget: int) -> bool:
        """All of these. False if the budget ended first."""
        return all(self._take(row, budget) for row in rows)

    def _take(self, row: tuple[int, int], budget: int) -> bool:
        missing = [each for each in (row, *self._companions(row)) if each not in self.chosen]
        if missing and self.spent >= budget:
            return False
        for each in missing:
            self._add(*each)
        return True

    def _companions(self, row: tuple[int, int]) -> Iterator[tuple[int, int]]:
        number, at = row
        rows = self._runs[number].rows
        name, sample = rows.ids[rows.question[at]], int(rows.sample[at])
        for other, rows_of in enumerate(self._rows_of):
            if other != number and (samples := rows_of.get(name)):
                yield other, samples.get(sample, next(iter(samples.values())))

    def _add(self, number: int, row: int) -> None:
        run = self._runs[number]
        record = run.record(row)
        self.has_cut |= len(str(record.get("text") or "")) > LONGEST
        problem = self._problem(number, record)
        sample = {"r": number, "q": problem, **shown_record(record, run)}
        self.chosen.add((number, row))
        self._selection.samples.append(sample)
        self.spent += len(safe_json(sample).encode()) + 1

    def _problem(self, number: int, record: Mapping[str, Any]) -> int:
        task, name = str(record.get("task") or "(no task)"), str(record["id"])
        if number not in self._problems:
            self._problems[number] = self._runs[number].problems(set(self._runs[number].rows.ids))
        held = self._problems[number].get(name, {})
        question = held.get("question")
        question = cut(question) if isinstance(question, str) else ""
        key = (task, name, question)
        if key not in self._numbers:
            self._numbers[key] = len(self._selection.problems)
            problem = {"t": cut(task), "i": cut(name), "x": question, "g": golds_of(held)}
            self._selection.problems.append(problem)
            self.spent += len(safe_json(problem).encode()) + 1
        return self._numbers[key]

    def finish(self) -> None:
        """Samples in the order of the questions, and of the runs within one."""
        self._selection.samples.sort(key=lambda sample: (sample["q"], sample["s"], sample["r"]))


def golds_of(problem: Mapping[str, Any]) -> list[str]:
    """The gold answers of a problem, as the page shows them."""
    gold = problem.get("gold")
    texts = gold if isinstance(gold, list) else [] if gold is None else [gold]
    return [cut(str(text)) for text in texts[:20]]


def shown_record(record: Mapping[str, Any], run: EvalRun) -> dict[str, Any]:
    """What the page needs of a record, under short names; what is usual is left out."""
    verdict = verdict_code(record["verdict"])
    confidence = share(record.get("confidence"))
    sample: dict[str, Any] = {
        "s": sample_number(record.get("sample")),
        "v": verdict,
        "c": None if math.isnan(confidence) else round(confidence, 4),
        "p": _parts(record, run),
    }
    optional = {
        "a": record.get("answer"),
        "fa": record.get("forced_answer"),
        "fc": record.get("forced_confidence"),
        "f": record.get("fault"),
        "y": record.get("reason") if verdict == UNSCORABLE else None,
    }
    sample |= {name: cut(text) for name, text in optional.items() if isinstance(text, str) and text}
    tokens = number_of(record.get("tokens"))
    if not math.isnan(tokens):
        sample["n"] = int(tokens)
    if record.get("finish_reason") == "length":
        sample["e"] = 1
    return sample


def _parts(record: Mapping[str, Any], run: EvalRun) -> list[list[str]]:
    """The completion as pairs of tag and text, in order; text outside of the tags has the tag ""."""
    text = record.get("text")
    if not isinstance(text, str) or not text:
        return []
    mode: Mode = "paper" if run.settings.get("grading") == "paper" else "lenient"
    try:
        # With every tag of the fullest format: what a model wrote is shown also where its format lacks it.
        response = parse(text, "rlcr", mode=mode, think_open=bool(record.get("think_open")))
    except RlcrError:
        return [["", cut(text)]]
    parts, position = [], 0
    for tag, (start, end) in sorted(response.spans.items(), key=lambda item: item[1]):
        if start < position:
            continue
        outside = re.sub(r"\s*</?(?:think|answer|analysis|confidence)>\s*", " ", text[position:start]).strip()
        if outside:
            parts.append(["", cut(outside)])
        parts.append([tag, cut(text[start:end].strip())])
        position = end
    rest = re.sub(r"\A</(?:think|answer|analysis|confidence)>", "", text[position:]).strip()
    if rest:
        parts.append(["", cut(rest)])
    return parts


def _rule(runs: Sequence[EvalRun], selection: ShownSamples, chooser: _Chooser, whole: bool) -> list[str]:
    if not selection.total:
        return ["The runs have no records yet, so there is nothing to read."]
    shown = len(selection.samples)
    cut_off = f"Texts longer than {LONGEST:,} characters are shortened in the middle, with a note."
    if whole and shown == selection.total:
        every = "The only answer is here." if shown == 1 else f"All {shown:,} answers are here."
        return [f"{every} {cut_off}" if chooser.has_cut else every]
    first = f"confidently wrong (wrong with a confidence of at least {CONFIDENT:g}), the most confident first"
    kinds: dict[str, Callable[[EvalRun], np.ndarray]] = {
        first: _confidently_wrong,
        "unscorable": lambda run: run.rows.verdict == UNSCORABLE,
        "repaired": lambda run: run.rows.repaired > 0,
    }
    lines = [
        f"{shown:,} of {selection.total:,} answers are here: all of them would not fit on one page. "
        "Chosen first, run by run in turn:"
    ]
    for name, mask_of in kinds.items():
        masks = [mask_of(run) for run in runs]
        total = sum(int(mask.sum()) for mask in masks)
        have = sum(bool(masks[number][row]) for number, row in chooser.chosen)
        lines.append(
            f"{name}: {'all ' if have == total else ''}{have:,}{'' if have == total else f' of {total:,}'}"
        )
    lines.append(
        "Then others, spread evenly over each run. Each answer comes with those of the other runs to the "
        f"same question. {cut_off if chooser.has_cut else ''}".strip()
    )
    return lines
