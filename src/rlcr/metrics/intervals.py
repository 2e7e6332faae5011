"""Every metric with its interval: one system, two systems on the same questions, many tasks.

What is drawn with replacement is a question, with all its samples, or a row when no questions are given. Rows
that are equal in everything are drawn as one kind with a multinomial count, which is the same distribution:
with verbalised confidences a million rows become a hundred kinds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlcr.errors import RlcrError
from rlcr.metrics.bootstrap import CHUNK_WEIGHTS, Difference, Estimate, Resampled, unit_weights
from rlcr.metrics.frames import Tabular, estimates_table
from rlcr.metrics.inputs import (
    Floats,
    Ints,
    check_at_least,
    check_confidence,
    check_correct,
    check_inside,
    question_codes,
)
from rlcr.metrics.kernel import METRICS, OF_ALL_ROWS, Binning, SortedRows, check_binning
from rlcr.metrics.tables import Table

Progress = Callable[[int, int], None]
MaybeMissing = ArrayLike | Sequence[float | None]

KEPT_BYTES = 24 << 20
# A multinomial draw costs this many times more per kind than an integer draw per row.
KIND_COST = 16


@dataclass(frozen=True)
class Summary(Tabular):
    """Every metric of one system, in the order of METRICS."""

    n: int
    rated: int
    """The rows that state a confidence, on which all metrics but accuracy and coverage rest."""
    questions: int
    metrics: Mapping[str, Estimate]
    notes: tuple[str, ...]
    level: float
    resamples: int
    # The bootstrap values behind the intervals (NaN where undefined): macro averages are made of them.
    draws_R: Mapping[str, Floats] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """As JSON: {"n": ..., "metrics": {"accuracy": {"value": ..., "ci95": [low, high]}, ...}, ...}."""
        return {
            "n": self.n,
            "rated": self.rated,
            "questions": self.questions,
            "metrics": {name: estimate.to_dict(self.level) for name, estimate in self.metrics.items()},
            "notes": list(self.notes),
            "resamples": self.resamples,
        }

    def rows(self, metric: str) -> int:
        """How many rows a metric rests on."""
        return self.n if metric in OF_ALL_ROWS else self.rated

    def table(self) -> Table:
        """A line for each metric."""
        return estimates_table("", self.metrics, self.rows)


@dataclass(frozen=True)
class Comparison(Tabular):
    """Paired differences, second system minus first, in the order of METRICS."""

    n: tuple[int, int]
    rated: tuple[int, int]
    questions: int
    metrics: Mapping[str, Difference]
    level: float
    resamples: int
    # The bootstrap values of the differences (NaN where undefined): macro differences are made of them.
    draws_R: Mapping[str, Floats] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, like a summary; each metric also has a "p_value"."""
        return {
            "n": list(self.n),
            "rated": list(self.rated),
            "questions": self.questions,
            "metrics": {name: difference.to_dict(self.level) for name, difference in self.metrics.items()},
            "resamples": self.resamples,
        }

    def rows(self, metric: str) -> tuple[int, int]:
        """How many rows of each system a metric rests on."""
        return self.n if metric in OF_ALL_ROWS else self.rated

    def table(self) -> Table:
        """A line for each metric: the second minus the first."""
        return estimates_table("", self.metrics, self.rows)


@dataclass(frozen=True)
class MacroAverage(Tabular):
    """Unweighted mean over tasks of every metric, in the order of METRICS."""

    n: int
    rated: int
    tasks: tuple[str, ...]
    metrics: Mapping[str, Estimate]
    level: float
    resamples: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON, like a summary."""
        return {
            "n": self.n,
            "rated": self.rated,
            "tasks": list(self.tasks),
            "metrics": {name: estimate.to_dict(self.level) for name, estimate in self.metrics.items()},
            "resamples": self.resamples,
        }

    def rows(self, metric: str) -> int:
        """How many rows of all tasks a metric rests on."""
        return self.n if metric in OF_ALL_ROWS else self.rated

    def table(self) -> Table:
        """A line for each metric."""
        return estimates_table("", self.metrics, self.rows)


def summary(
    correct: ArrayLike,
    confidence: MaybeMissing,
    *,
    question: Iterable[Any] | None = None,
    binning: Binning = "paper",
    bins: int = 10,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    progress: Progress | None = None,
) -> Summary:
    """Every metric with its bootstrap interval.

    A confidence of None or NaN means the row has none: it counts for `accuracy` and for `coverage` (the share
    of rows with a confidence) and is left out of everything else. `question` labels rows that are samples of
    one question; questions are then what is resampled. `binning` and `bins` are those of `ece`, and hold for
    ece, over- and underconfidence and the Murphy parts; `ece_decimal` is always reported beside. With
    `resamples=0` there are values and no intervals. `progress(done, total)` is called as resamples finish.

    >>> s = summary([1, 0, 1, 1], [0.9, 0.4, 0.8, None])
    >>> s.metrics["accuracy"].value, s.metrics["coverage"].value, s.metrics["auroc"].value
    (0.75, 0.75, 1.0)
    >>> s.to_dict()["metrics"]["accuracy"]
    {'value': 0.75, 'ci95': [0.25, 1.0]}
    """
    _check_settings(binning, bins, resamples, level)
    correct_N = check_correct(correct)
    confidence_N = check_confidence(confidence, len(correct_N), missing=True)
    codes: dict[Any, int] = {}
    unit_N = None if question is None else question_codes(question, len(correct_N), codes)
    questions = len(correct_N) if unit_N is None else len(codes)

    units = _Units.of([(correct_N, confidence_N, unit_N)], questions, binning, bins)
    (values,) = _measure(units.systems, units.copies_U[None, :])
    (draws,) = _bootstrap(units, resamples, seed, progress)

    rated_N = ~np.isnan(confidence_N)
    why = _why_undefined(correct_N[rated_N])
    metrics = {name: Resampled(values[name][0], draws[name]).estimate(why, level) for name in METRICS}
    notes = [f"{why}: no AUROC and no Brier skill"] if why and rated_N.any() else [why] if why else []
    if missing := int((~rated_N).sum()):
        notes.append(
            f"{missing} of {len(correct_N)} rows have no confidence: they count for accuracy and coverage"
        )
    rated = int(rated_N.sum())
    return Summary(len(correct_N), rated, questions, metrics, tuple(notes), level, resamples, draws)


def compare(
    correct_a: ArrayLike,
    confidence_a: MaybeMissing,
    correct_b: ArrayLike,
    confidence_b: MaybeMissing,
    *,
    question: Iterable[Any] | None = None,
    question_a: Iterable[Any] | None = None,
    question_b: Iterable[Any] | None = None,
    binning: Binning = "paper",
    bins: int = 10,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    progress: Progress | None = None,
) -> Comparison:
    """Every metric's difference, b minus a, on the same questions: each resample draws one set for both.

    Row i of both systems is the same question, unless `question_a` and `question_b` label the rows of each;
    then the numbers of samples per question may differ. `question` labels both at once. The p-value is twice
    the smaller share of resamples on either side of zero, with one added: 2 (k + 1) / (resamples + 1).

    >>> c = compare([1, 0, 1, 0], [0.9, 0.9, 0.9, 0.9], [1, 0, 1, 0], [0.9, 0.1, 0.9, 0.1])
    >>> round(c.metrics["brier"].value, 3), c.metrics["accuracy"].value, c.metrics["accuracy"].p_value
    (-0.4, 0.0, 1.0)
    """
    _check_settings(binning, bins, resamples, level)
    correct_A, correct_B = check_correct(correct_a, "correct_a"), check_correct(correct_b, "correct_b")
    confidence_A = check_confidence(confidence_a, len(correct_A), name="confidence_a", missing=True)
    confidence_B = check_confidence(confidence_b, len(correct_B), name="confidence_b", missing=True)
    unit_A, unit_B, questions = _paired_units(
        len(correct_A), len(correct_B), question, question_a, question_b
    )

    units = _Units.of(
        [(correct_A, confidence_A, unit_A), (correct_B, confidence_B, unit_B)], questions, binning, bins
    )
    values_a, values_b = _measure(units.systems, units.copies_U[None, :])
    draws_a, draws_b = _bootstrap(units, resamples, seed, progress)

    why_a, why_b = (
        _why_undefined(correct_N[~np.isnan(confidence_N)])
        for correct_N, confidence_N in ((correct_A, confidence_A), (correct_B, confidence_B))
    )
    why = "; ".join(f"{system}: {reason}" for system, reason in (("a", why_a), ("b", why_b)) if reason)
    less_R = {name: draws_b[name] - draws_a[name] for name in METRICS}
    metrics = {
        name: Resampled(values_b[name][0] - values_a[name][0], less_R[name]).difference(why, level)
        for name in METRICS
    }
    rated = int((~np.isnan(confidence_A)).sum()), int((~np.isnan(confidence_B)).sum())
    n = len(correct_A), len(correct_B)
    return Comparison(n, rated, questions, metrics, level, resamples, less_R)


#: Right or wrong, confidence and question of each answer of a system.
Answers = tuple[Sequence[Any] | Ints, Sequence[Any] | Floats, Sequence[Any]]
NO_ANSWERS: Answers = (), (), ()


def compare_common(
    a: Answers, b: Answers, *, only: set[Any] | None = None, resamples: int = 1000
) -> Comparison | None:
    """:func:`compare` on the questions that both systems answered, or those of them in ``only``.

    A question that one of the systems could not score is left out of both. None where no question is left.

    >>> first, second = ([1, 0], [0.9, 0.2], ["x", "y"]), ([1, 1], [0.8, 0.7], ["y", "z"])
    >>> compare_common(first, second).metrics["accuracy"].value
    1.0
    """
    common = set(a[2]) & set(b[2])
    common &= common if only is None else only
    if not common:
        return None

    def shared(answers: Answers) -> tuple[Any, Any, list[Any]]:
        rows = [row for row, question in enumerate(answers[2]) if question in common]
        correct, confidence, question = answers
        return np.asarray(correct)[rows], np.asarray(confidence)[rows], [question[row] for row in rows]

    (correct_a, confidence_a, question_a), (correct_b, confidence_b, question_b) = shared(a), shared(b)
    return compare(
        correct_a, confidence_a, correct_b, confidence_b,
        question_a=question_a, question_b=question_b, resamples=resamples,
    )  # fmt: skip


def macro_average(
    tasks: Mapping[str, Summary | Sequence[Any]] | Sequence[Summary | Sequence[Any]],
    *,
    binning: Binning = "paper",
    bins: int = 10,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> MacroAverage:
    """Unweighted mean over tasks of every metric (the paper's "O.O.D. averaged").

    A task is a Summary, or (correct, confidence) or (correct, confidence, question), summarised with the
    settings given here. Tasks are resampled independently. A metric that is undefined in one task has no
    average; its note names the task.

    >>> macro = macro_average({"easy": ([1, 1, 1, 0], [0.9, 0.9, 0.8, 0.7]), "hard": ([0, 1], [0.5, 0.5])})
    >>> macro.metrics["accuracy"].value, macro.metrics["auroc"].value
    (0.625, 0.75)
    """
    named = dict(tasks) if isinstance(tasks, Mapping) else {f"task {i + 1}": t for i, t in enumerate(tasks)}
    if not named:
        raise RlcrError("macro_average got no tasks: nothing to average")
    _check_settings(binning, bins, resamples, level)

    def summarise(task: Summary | Sequence[Any]) -> Summary:
        if isinstance(task, Summary):
            return task
        correct, confidence, *question = task
        settings: dict[str, Any] = {"binning": binning, "bins": bins, "resamples": resamples, "seed": seed}
        return summary(
            correct, confidence, question=question[0] if question else None, level=level, **settings
        )

    summaries = {name: summarise(task) for name, task in named.items()}
    counts = {s.resamples for s in summaries.values()}
    if len(counts) > 1:
        raise RlcrError(f"tasks have different numbers of resamples {sorted(counts)}: summarise them alike")
    resamples = counts.pop()

    # Summaries made with one seed may have drawn alike; shuffling each task's resamples unties them.
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(resamples) for _ in summaries]
    metrics = {}
    for metric in METRICS:
        values = [s.metrics[metric].value for s in summaries.values()]
        defined = [value for value in values if value is not None]
        undefined = [name for name, value in zip(summaries, values, strict=True) if value is None]
        draws = [s.draws_R[metric][order] for s, order in zip(summaries.values(), orders, strict=True)]
        value = float(np.mean(defined)) if not undefined else np.nan
        metrics[metric] = Resampled(value, np.mean(draws, axis=0)).estimate(
            f"undefined in {', '.join(undefined)}", level
        )
    n, rated = (sum(counts) for counts in zip(*((s.n, s.rated) for s in summaries.values()), strict=True))
    return MacroAverage(n, rated, tuple(summaries), metrics, level, resamples)


def macro_difference(tasks: Sequence[Comparison], metric: str) -> Difference:
    """Unweighted mean over tasks of a paired difference, all with the same number of resamples.

    >>> one = compare([1, 0, 1, 0], [0.9] * 4, [1, 1, 1, 0], [0.9] * 4)
    >>> macro_difference([one, one], "accuracy").value
    0.25
    """
    rng = np.random.default_rng(0)  # as in macro_average, shuffling unties what one seed drew alike
    values = [task.metrics[metric].value for task in tasks]
    draws = [rng.permutation(task.draws_R[metric]) for task in tasks]
    value = np.mean([np.nan if value is None else value for value in values])
    return Resampled(float(value), np.mean(draws, axis=0)).difference("undefined in one of the tasks")


@dataclass(frozen=True)
class _Units:
    """What is drawn: U units, unit u standing for `copies_U[u]` equal ones, and each system's rows."""

    systems: list[SortedRows]
    copies_U: Ints

    @classmethod
    def of(
        cls, systems: list[tuple[Ints, Floats, Ints | None]], units: int, binning: str, bins: int
    ) -> "_Units":
        """Merge equal units where each has one row per system and merging makes drawing cheaper."""
        if any(len(correct_N) > units for correct_N, _, _ in systems):
            rows = [SortedRows.sort(*system, binning, bins) for system in systems]
            return cls(rows, np.ones(units, np.int64))
        # One row per unit: bring rows into the order of units, so that row u of each system is unit u.
        aligned = []
        for correct_N, confidence_N, unit_N in systems:
            order_U = slice(None) if unit_N is None else np.argsort(unit_N)
            aligned.append((correct_N[order_U], confidence_N[order_U]))
        kind_U = np.zeros(units, np.int64)
        for correct_U, confidence_U in aligned:
            _, value_U = np.unique(confidence_U, return_inverse=True)
            _, kind_U = np.unique((kind_U * units + value_U) * 2 + correct_U, return_inverse=True)
        _, first_K, copies_K = np.unique(kind_U, return_index=True, return_counts=True)
        if len(first_K) * KIND_COST > units:
            first_K, copies_K = np.arange(units), np.ones(units, np.int64)
        # A lone system's units are its sorted rows (kinds come out of unique in that order, single rows may
        # be renamed at will). Two systems sort differently, so each row remembers its unit.
        link = None if len(aligned) == 1 else np.arange(len(first_K))
        rows = [SortedRows.sort(c_U[first_K], q_U[first_K], link, binning, bins) for c_U, q_U in aligned]
        return cls(rows, copies_K)

    def draw(self, resamples: int, seed: int) -> Iterator[Ints]:
        """Chunks of weights (resamples x units)."""
        widest = max(len(rows.correct_E) for rows in self.systems)
        return unit_weights(self.copies_U, resamples, seed, max(1, CHUNK_WEIGHTS // widest))


def _measure(systems: list[SortedRows], units_RU: Ints) -> list[dict[str, Floats]]:
    """Every metric of every system under the same weights."""
    weighted = (rows.weigh(units_RU) for rows in systems)
    return [{name: metric(w) for name, metric in METRICS.items()} for w in weighted]


def _bootstrap(
    units: _Units, resamples: int, seed: int, progress: Progress | None
) -> list[dict[str, Floats]]:
    draws = [{name: np.empty(resamples) for name in METRICS} for _ in units.systems]
    # Freeing one large block tells glibc's allocator to keep blocks up to that size for reuse. Otherwise the
    # arrays of every chunk go back to the system and are faulted in again: as slow as the arithmetic.
    np.empty(KEPT_BYTES, np.uint8)
    done = 0
    for units_RU in units.draw(resamples, seed):
        chunk = slice(done, done + len(units_RU))
        for kept, measured in zip(draws, _measure(units.systems, units_RU), strict=True):
            for name, values_R in measured.items():
                kept[name][chunk] = values_R
        done = chunk.stop
        if progress:
            progress(done, resamples)
    return draws


def _why_undefined(correct_N: Ints) -> str:
    if not len(correct_N):
        return "no row has a confidence"
    if correct_N.min() == correct_N.max():
        return f"all answers are {'right' if correct_N[0] else 'wrong'}"
    return ""


def _paired_units(
    n_a: int,
    n_b: int,
    question: Iterable[Any] | None,
    question_a: Iterable[Any] | None,
    question_b: Iterable[Any] | None,
) -> tuple[Ints | None, Ints | None, int]:
    """Unit of each row of a and of b, and how many units there are."""
    if (question_a is None) != (question_b is None) or (question is not None and question_a is not None):
        raise RlcrError("give question for both systems, or question_a and question_b, not a mix")
    if question_a is None or question_b is None:
        if n_a != n_b:
            raise RlcrError(f"a has {n_a} rows and b has {n_b}: label them with question_a and question_b")
        if question is None:
            return None, None, n_a
        question_a = question_b = list(question)
    codes: dict[Any, int] = {}
    unit_A = question_codes(question_a, n_a, codes, "question_a")
    in_a = len(codes)
    unit_B = question_codes(question_b, n_b, codes, "question_b")
    only_b, only_a = len(codes) - in_a, in_a - len(np.unique(unit_B[unit_B < in_a]))
    if only_a or only_b:
        raise RlcrError(
            f"{only_a} questions are only in a and {only_b} only in b: compare needs the same questions"
        )
    return unit_A, unit_B, len(codes)


def _check_settings(binning: str, bins: int, resamples: int, level: float) -> None:
    check_binning(binning, bins)
    check_at_least(resamples, 0, "resamples")
    check_inside(level, 0, 1, "level")
