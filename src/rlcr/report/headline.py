"""What happened, in one sentence that is computed from the numbers.

The first run is what the others are measured against. The run that earns most of those that did not collapse
is described first: what it gains, what it loses, and whether accuracy paid for it. A difference is called one
only where its paired interval leaves out 0; where it does not, and is not narrow either, the sentence says
that no change is clear, rather than that accuracy is equal. What is said of an average over tasks names the
tasks of which it is not true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rlcr.metrics import Difference
from rlcr.metrics.tables import Mark
from rlcr.report.naming import joined

#: Differences below this are none, however sure one can be of them.
NEGLIGIBLE = 0.005
#: An interval that stays within this of 0 is as good as no difference.
NARROW = 0.02
#: With fewer answers the sentence says nothing of the confidence: resampling one answer gives one answer.
FEW = 20
# Metric -> its name in a sentence, what to say when it goes down and up, and whether down is good.
_WORDS = {
    "ece": ("ECE", "cuts", "raises", True),
    "brier": ("the Brier score", "cuts", "raises", True),
    "auroc": ("AUROC", "lowers", "raises", False),
}


@dataclass(frozen=True)
class RunResult:
    """What the sentence needs to know of a run."""

    label: str
    values: Mapping[str, float | None]
    """accuracy, auroc, brier, ece, expected_reward, and confidence: the mean of what it states."""
    answers: int = 0
    collapsed: Mark = ""
    intervals: Mapping[str, tuple[float, float]] | None = None
    """Those of auroc and of the gap, confidence - accuracy, where they are known."""
    parts: Mapping[str, RunResult] = field(default_factory=dict)
    """The same of each task, where this is the average of several."""

    def shown(self, metric: str) -> str:
        """A value to three places."""
        value = self.values.get(metric)
        return "n/a" if value is None else f"{value:.3f}"

    @property
    def stance(self) -> str:
        """Whether it says more or less than it knows, where that is decided."""
        confidence, accuracy = self.values.get("confidence") or 0.0, self.values.get("accuracy") or 0.0
        gap = Difference(confidence - accuracy, *(self.intervals or {}).get("gap", (-1.0, 1.0)))
        words = {"up": "overconfident", "down": "underconfident", "equal": "neither over- nor underconfident"}
        return words.get(_change(gap), "neither clearly over- nor underconfident")

    @property
    def tells(self) -> str:
        """What its confidence says of right and wrong."""
        low, high = (self.intervals or {}).get("auroc", (0.0, 1.0))
        if low > 0.5:
            return "tells right from wrong"
        return "is higher when it is wrong" if high < 0.5 else "does not clearly tell right from wrong"

    def has(self, *metrics: str) -> bool:
        """Whether it has numbers for all of these."""
        return all(self.values.get(metric) is not None for metric in metrics)


#: Of two runs by their numbers and a metric: the second minus the first, where both have it.
Differ = Callable[[int, int, str], Difference | None]


def headline(
    runs: Sequence[RunResult], differ: Differ, where: str = "", by_task: Mapping[str, Differ] | None = None
) -> str:
    """The sentence on runs that answered the same questions; ``where`` says on which, if need be.

    ``by_task`` has the differences on each task, where those of ``differ`` are averages.
    """
    alive = [number for number, run in enumerate(runs) if not run.collapsed]
    clauses: list[str] = []
    if len(alive) == 1:
        clauses.append(_alone(runs[alive[0]]))
    elif alive:
        clauses += _against(runs, alive, differ, by_task or {})
    for mark, one, several in (
        ("gave up", "gave up answering", "gave up answering"),
        ("never right", "is never right", "are never right"),
    ):
        names = [run.label for run in runs if run.collapsed == mark]
        if names:
            clauses.append(f"{joined(names)} {one if len(names) == 1 else several}")
    return _sentence(where, clauses)


def _sentence(where: str, clauses: Sequence[str]) -> str:
    # A run's name is not made a capital: it is a name.
    return (f"{where}, " if where else "") + "; ".join(clauses) + "."


def apart(runs: Sequence[tuple[str, RunResult]]) -> str:
    """The sentence on runs that have no task in common; each comes with its task."""
    clauses = [
        f"{run.label} gets {run.values['accuracy']:.1%} right on {task} (ECE {run.shown('ece')})"
        if run.has("accuracy")
        else f"{run.label} has no scored answer on {task}"
        for task, run in runs
    ]
    return "The runs share no task: " + _sentence("", clauses)


def _alone(run: RunResult) -> str:
    if not run.has("accuracy"):
        return f"{run.label} has no answer that could be scored"
    answers = "1 answer" if run.answers == 1 else f"{run.answers:,} answers"
    said = f"{run.label} gets {run.values['accuracy']:.1%} of {answers} right"
    if not run.has("confidence", "ece"):
        return f"{said}; none of them states a confidence"
    if run.answers < FEW:
        return f"{said}: too few to judge its confidence"
    stance = _by_task(run, lambda part: part.stance)
    said += f" at a mean confidence of {run.values['confidence']:.1%}: {stance} (ECE {run.shown('ece')})"
    if not run.has("auroc"):
        return said
    return f"{said}; its confidence {_by_task(run, lambda part: part.tells)} (AUROC {run.shown('auroc')})"


def _by_task(run: RunResult, words: Callable[[RunResult], str]) -> str:
    """What is to be said of a run; of one that averages tasks which differ in it, task by task."""
    groups: dict[str, list[str]] = {}
    for task, part in run.parts.items():
        groups.setdefault(words(part), []).append(task)
    if len(groups) < 2:
        return next(iter(groups), words(run))
    return joined([f"{said} on {joined(tasks)}" for said, tasks in groups.items()])


def _against(
    runs: Sequence[RunResult], alive: Sequence[int], differ: Differ, by_task: Mapping[str, Differ]
) -> list[str]:
    """The run that earns most against the first, then the others on the same metric."""
    base, *rivals = alive

    def change(number: int, metric: str) -> str:
        return _change(differ(base, number, metric))

    def except_on(number: int, metric: str) -> str:
        """The tasks on which a change of the average cannot be seen, or is the opposite."""
        kinds = {task: _change(own(base, number, metric)) for task, own in by_task.items()}
        opposite = {"up": "down", "down": "up"}.get(change(number, metric))
        unclear = [task for task, kind in kinds.items() if kind not in ("up", "down")]
        said = [f"not clearly on {joined(unclear)}"] if unclear else []
        if against := [task for task, kind in kinds.items() if kind == opposite]:
            said.append(f"the opposite on {joined(against)}")
        return f" ({', '.join(said)})" if said and opposite else ""

    def earned(number: int) -> float:
        value = runs[number].values.get("expected_reward")
        return -9.0 if value is None else value

    first = max(rivals, key=earned)
    metric, text = _gains(
        runs[base], runs[first], lambda name: change(first, name), lambda name: except_on(first, name)
    )
    clauses = [text]
    misled = [task for task, part in runs[first].parts.items() if part.tells == "is higher when it is wrong"]
    if misled:
        clauses.append(f"on {joined(misled)} its confidence is higher when it is wrong")
    groups: dict[str, list[int]] = {}
    for number in rivals:
        if number != first:
            groups.setdefault(change(number, metric), []).append(number)
    name, down, up, _ = _WORDS[metric]
    for kind, one, several in (
        ("down", f"{down} {name} to", f"{down.removesuffix('s')} {name} to"),
        ("up", f"{up} {name} to", f"{up.removesuffix('s')} {name} to"),
        ("equal", f"leaves {name} at", f"leave {name} at"),
        ("open", f"does not clearly change {name}:", f"do not clearly change {name}:"),
    ):
        if having := groups.get(kind):
            names = joined([runs[number].label for number in having])
            values = joined([runs[number].shown(metric) for number in having])
            clauses.append(f"{names} {one if len(having) == 1 else several} {values}")
    return clauses


def _change(found: Difference | None) -> str:
    """ "up", "down", "equal", "open" (it could be either), or "unknown"."""
    if found is None or found.value is None or found.low is None or found.high is None:
        return "unknown"
    if abs(found.value) >= NEGLIGIBLE and not found.low <= 0 <= found.high:
        return "up" if found.value > 0 else "down"
    return "equal" if max(abs(found.low), abs(found.high)) <= NARROW else "open"


def _gains(
    base: RunResult, run: RunResult, change: Callable[[str], str], except_on: Callable[[str], str]
) -> tuple[str, str]:
    """What a run gains, first of all, and what that costs: the metric it gains in, and the clause."""
    changes = {metric: change(metric) for metric in _WORDS}
    gains = [m for m, kind in changes.items() if kind == ("down" if _WORDS[m][3] else "up")]
    losses = [m for m, kind in changes.items() if kind == ("up" if _WORDS[m][3] else "down")]

    def moved(metric: str) -> str:
        name, down, up, _ = _WORDS[metric]
        verb = down if changes[metric] == "down" else up
        return f"{verb} {name} from {base.shown(metric)} to {run.shown(metric)}{except_on(metric)}"

    accuracy = change("accuracy")
    values = base.shown("accuracy"), run.shown("accuracy")
    if not gains and not losses:
        silent = [one.label for one in (base, run) if not one.has("ece")]
        ece = f"{base.shown('ece')} and {run.shown('ece')}"
        if accuracy in ("up", "down"):
            verb = "raises" if accuracy == "up" else "lowers"
            text = f"{run.label} {verb} accuracy from {values[0]} to {values[1]}"
            text += "" if silent else f" with no clear change in ECE ({ece})"
        else:
            surely = "" if {*changes.values(), accuracy} == {"equal"} else " clearly"
            at = ("" if silent else f"ECE {ece}, ") + f"accuracy {values[0]} and {values[1]}"
            text = f"{base.label} and {run.label} do not{surely} differ ({at})"
        states = "states" if len(silent) == 1 else "state"
        return "ece", f"{text}; {joined(silent)} {states} no confidence" if silent else text
    metric = (gains or losses)[0]
    up, down = "and raises accuracy", "while accuracy falls"
    if not gains:
        up, down = "while accuracy rises", "and lowers accuracy"
    text = f"{run.label} {moved(metric)}"
    text += {
        "up": f" {up} from {values[0]} to {values[1]}",
        "down": f" {down} from {values[0]} to {values[1]}",
        "equal": " at equal accuracy",
        "open": f" with no clear change in accuracy ({values[0]} and {values[1]})",
        "unknown": "",
    }[accuracy]
    if gains and losses:
        text += f", but {moved(losses[0])}"
    return metric, text


def exactly(runs: Sequence[RunResult]) -> Differ:
    """Differences of numbers that are known without sampling."""

    def differ(a: int, b: int, metric: str) -> Difference | None:
        one, other = runs[a].values.get(metric), runs[b].values.get(metric)
        if one is None or other is None:
            return None
        less = other - one
        return Difference(less, *((0.0, 0.0) if abs(less) < NEGLIGIBLE else (less, less)))

    return differ


# --- trainings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """What the sentence needs to know of a training: how far it is, and its curves' beginnings and ends."""

    label: str
    updates: int
    planned: float
    is_unfinished: bool
    moves: Mapping[str, tuple[float, float, bool]]
    """Metric -> mean of the first updates, of the last, and whether that is more than noise."""


def of_trainings(trainings: Sequence[Trained]) -> str:
    """The sentence on trainings that were not evaluated."""
    clauses = []
    for run in trainings:
        far = f"{run.updates:,} of {run.planned:,.0f}" if run.is_unfinished else f"{run.updates:,}"
        far += " update" if far == "1" else " updates"
        if not run.updates:
            clauses.append(f"{run.label} has made no update yet")
            continue
        moves = [
            f"{name} {'rises' if last > first else 'falls'} from {first:.3f} to {last:.3f}"
            if moved
            else _unmoved(name, f"{first:.3f}", f"{last:.3f}")
            for name, (first, last, moved) in run.moves.items()
        ]
        clauses.append(f"{run.label} after {far}: {joined(moves)}" if moves else f"{run.label} made {far}")
    return _sentence("", clauses)


def _unmoved(name: str, first: str, last: str) -> str:
    if first == last:
        return f"{name} stays at {last}"
    return f"{name} does not clearly change ({first} and {last})"
