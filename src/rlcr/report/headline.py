"""What happened, in one sentence that is computed from the numbers.

The first run is what the others are measured against. The run that earns most of those that did not collapse
is told of first: what it gains, what it loses, and whether accuracy paid for it. A difference is told as one
only where its paired interval leaves out 0; where it does not, and is not narrow either, the sentence says
that no change is clear, rather than that accuracy is equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rlcr.metrics import Difference
from rlcr.metrics.tables import Mark
from rlcr.report.naming import joined

#: Differences below this are none, however sure one can be of them.
NEGLIGIBLE = 0.005
#: An interval that stays within this of 0 is as good as no difference.
NARROW = 0.02
# Metric -> its name in a sentence, what to say when it goes down and up, and whether down is good.
_WORDS = {
    "ece": ("ECE", "cuts", "raises", True),
    "brier": ("the Brier score", "cuts", "raises", True),
    "auroc": ("AUROC", "lowers", "raises", False),
}


@dataclass(frozen=True)
class Told:
    """What the sentence needs to know of a run."""

    label: str
    values: Mapping[str, float | None]
    """accuracy, auroc, brier, ece, expected_reward, and confidence: the mean of what it states."""
    answers: int = 0
    collapsed: Mark = ""
    intervals: Mapping[str, tuple[float, float]] | None = None
    """Where the sentence is about one run alone: those of auroc and of the gap, confidence - accuracy."""

    def shown(self, metric: str) -> str:
        """A value to three places."""
        value = self.values.get(metric)
        return "n/a" if value is None else f"{value:.3f}"

    def has(self, *metrics: str) -> bool:
        """Whether it has numbers for all of these."""
        return all(self.values.get(metric) is not None for metric in metrics)


#: Of two runs by their numbers and a metric: the second minus the first, where both have it.
Differ = Callable[[int, int, str], Difference | None]


def headline(runs: Sequence[Told], differ: Differ, where: str = "") -> str:
    """The sentence on runs that answered the same questions; ``where`` says on which, if need be."""
    alive = [number for number, run in enumerate(runs) if not run.collapsed]
    clauses: list[str] = []
    if len(alive) == 1:
        clauses.append(_alone(runs[alive[0]]))
    elif alive:
        clauses += _against(runs, alive, differ)
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


def apart(runs: Sequence[tuple[str, Told]]) -> str:
    """The sentence on runs that have no task in common; each comes with its task."""
    clauses = [
        f"{run.label} is right in {run.values['accuracy']:.1%} on {task} (ECE {run.shown('ece')})"
        if run.has("accuracy")
        else f"{run.label} has no scored answer on {task}"
        for task, run in runs
    ]
    return _sentence("With no task in common", clauses)


def _alone(run: Told) -> str:
    if not run.has("accuracy"):
        return f"{run.label} has no answer that could be scored"
    answers = "1 answer" if run.answers == 1 else f"{run.answers:,} answers"
    said = f"{run.label} is right in {run.values['accuracy']:.1%} of {answers}"
    if not run.has("confidence", "ece"):
        return f"{said}; none of them states a confidence"
    confidence, accuracy = run.values["confidence"] or 0.0, run.values["accuracy"] or 0.0
    gap = Difference(confidence - accuracy, *(run.intervals or {}).get("gap", (-1.0, 1.0)))
    word = {
        "up": "overconfident",
        "down": "underconfident",
        "equal": "neither over- nor underconfident",
    }.get(_change(gap), "neither clearly over- nor underconfident")
    said += f" at a mean confidence of {confidence:.1%}: {word} (ECE {run.shown('ece')})"
    if not run.has("auroc"):
        return said
    low, high = (run.intervals or {}).get("auroc", (0.0, 1.0))
    tells = "does not clearly tell right from wrong"
    if low > 0.5:
        tells = "tells right from wrong"
    elif high < 0.5:
        tells = "is higher where it is wrong"
    return f"{said}; its confidence {tells} (AUROC {run.shown('auroc')})"


def _against(runs: Sequence[Told], alive: Sequence[int], differ: Differ) -> list[str]:
    """The run that earns most against the first, then the others on the same metric."""
    base, *rivals = alive

    def change(number: int, metric: str) -> str:
        return _change(differ(base, number, metric))

    def earned(number: int) -> float:
        value = runs[number].values.get("expected_reward")
        return -9.0 if value is None else value

    first = max(rivals, key=earned)
    metric, text = _told(runs[base], runs[first], lambda name: change(first, name))
    clauses = [text]
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


def _told(base: Told, run: Told, change: Callable[[str], str]) -> tuple[str, str]:
    """What a run gains, first of all, and what that costs: the metric it gains in, and the clause."""
    changes = {metric: change(metric) for metric in _WORDS}
    gains = [m for m, kind in changes.items() if kind == ("down" if _WORDS[m][3] else "up")]
    losses = [m for m, kind in changes.items() if kind == ("up" if _WORDS[m][3] else "down")]

    def moved(metric: str) -> str:
        name, down, up, _ = _WORDS[metric]
        verb = down if changes[metric] == "down" else up
        return f"{verb} {name} from {base.shown(metric)} to {run.shown(metric)}"

    accuracy = change("accuracy")
    values = base.shown("accuracy"), run.shown("accuracy")
    if not gains and not losses:
        ece = base.shown("ece"), run.shown("ece")
        if accuracy in ("up", "down"):
            verb = "raises" if accuracy == "up" else "lowers"
            moved_to = f"{verb} accuracy from {values[0]} to {values[1]}"
            return (
                "ece",
                f"{run.label} {moved_to} with no clear change in ECE ({ece[0]} and {ece[1]})",
            )
        surely = "" if set(changes.values()) <= {"equal", "unknown"} else " clearly"
        at = f"ECE {ece[0]} and {ece[1]}, accuracy {values[0]} and {values[1]}"
        return "ece", f"{base.label} and {run.label} do not{surely} differ ({at})"
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


def exactly(runs: Sequence[Told]) -> Differ:
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
            else f"{name} stays at {last:.3f}"
            for name, (first, last, moved) in run.moves.items()
        ]
        clauses.append(f"{run.label} after {far}: {joined(moves)}" if moves else f"{run.label} made {far}")
    return _sentence("", clauses)
