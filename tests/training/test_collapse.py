"""Warnings on simulated runs: silence on healthy ones, however noisy; the right word on collapsing ones."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rlcr.training.collapse import CollapseWatch

Line = dict[str, Any]
#: What a kind of warning says in its text.
KINDS = {
    "accuracy": "accuracy fell",
    "confidence": "state one confidence",
    "abstention": "abstain",
    "empty answers": "answers are empty",
    "format": "well-formed outputs fell",
    "entropy": "entropy is gone",
}


def ramp(update: int, start: int, end: int, low: float, high: float) -> float:
    """From low to high between two updates, level before and after."""
    return low + (high - low) * min(1.0, max(0.0, (update - start) / (end - start)))


def healthy(update: int) -> Line:
    """The true values of a run that learns: format first, then accuracy, then calibration."""
    return {
        "update": update,
        "accuracy": ramp(update, 0, 150, 0.25, 0.55),
        "parts": {"calibration": ramp(update, 0, 200, -0.4, -0.18)},
        "well_formed": ramp(update, 0, 60, 0.4, 0.99),
        "abstained": 0.05,
        "empty_answers": 0.01,
        "top_confidence": 0.9,
        "top_confidence_share": ramp(update, 0, 100, 0.8, 0.4),
        "entropy": ramp(update, 0, 100, 0.6, 0.1),
    }


def sampled(truth: Line, rng: np.random.Generator, prompts: int, group: int) -> Line:
    """A line as it is measured: few prompts of very different difficulty, and a group of samples of each."""
    n = prompts * group

    def share(p: float) -> float:
        return float(rng.binomial(n, p) / n)

    p = truth["accuracy"]
    chances = rng.beta(p, 1 - p, prompts) if 0 < p < 1 else np.full(prompts, p)
    spread = 0.3 / np.sqrt(prompts)
    return truth | {
        "accuracy": float(rng.binomial(group, chances).mean() / group),
        "parts": {"calibration": truth["parts"]["calibration"] + spread * float(rng.normal())},
        **{key: share(truth[key]) for key in ("well_formed", "abstained", "empty_answers")},
        "top_confidence_share": max(x := share(truth["top_confidence_share"]), 1 - x),
        "entropy": truth["entropy"] * float(np.exp(0.1 * rng.normal())),
    }


def simulate(
    curve: Callable[[int], Line], seed: int, updates: int, prompts: int = 64, group: int = 32
) -> Iterator[Line]:
    rng = np.random.default_rng(seed)
    return (sampled(curve(update), rng, prompts, group) for update in range(1, updates + 1))


def warnings(lines: Iterator[Line] | list[Line]) -> list[tuple[int, str]]:
    """The update and kind of each warning."""
    watch, found = CollapseWatch(), []
    for line in lines:
        for text in watch.observe(line):
            (kind,) = (kind for kind, words in KINDS.items() if words in text)
            assert "ry " in text, "says what to try"
            found.append((line["update"], kind))
    return found


@pytest.mark.parametrize(("prompts", "group"), [(64, 32), (8, 8), (4, 2)])
@pytest.mark.parametrize("seed", range(8))
def test_a_healthy_run_is_left_alone(prompts: int, group: int, seed: int) -> None:
    assert warnings(simulate(healthy, seed, 600, prompts, group)) == []


@pytest.mark.parametrize("seed", range(8))
def test_noise_alone_is_left_alone(seed: int) -> None:
    def level(update: int) -> Line:
        halves = {"well_formed": 0.6, "abstained": 0.35, "empty_answers": 0.3, "top_confidence_share": 0.8}
        return healthy(1000) | {"update": update} | halves

    assert warnings(simulate(level, seed, 600, prompts=4, group=2)) == []


def test_a_start_that_always_says_one_value_gets_its_time() -> None:
    def curve(update: int) -> Line:
        return healthy(update) | {"top_confidence_share": ramp(update, 15, 45, 0.99, 0.5)}

    assert warnings(simulate(curve, 0, 200)) == []


def test_a_base_model_that_begins_with_much_entropy() -> None:
    def curve(update: int) -> Line:
        return healthy(update) | {"entropy": ramp(update, 0, 50, 2.5, 0.09)}

    assert warnings(simulate(curve, 0, 200)) == []


def test_a_model_that_rightly_abstains_in_half_of_all_cases() -> None:
    def curve(update: int) -> Line:
        return healthy(update) | {"abstained": ramp(update, 0, 100, 0.45, 0.55)}

    assert warnings(simulate(curve, 0, 200)) == []


def test_accuracy_zero_throughout_is_not_a_fall() -> None:
    def curve(update: int) -> Line:
        return healthy(update) | {"accuracy": 0.0}

    assert warnings(simulate(curve, 0, 200)) == []


def test_accuracy_and_calibration_falling_together_are_another_matter() -> None:
    def curve(update: int) -> Line:
        fall = {"accuracy": ramp(update, 200, 260, 0.55, 0.3)}
        return healthy(update) | fall | {"parts": {"calibration": ramp(update, 200, 260, -0.2, -0.4)}}

    assert warnings(simulate(curve, 0, 300)) == []


def accuracy_for_calibration(update: int) -> Line:
    return healthy(update) | {
        "accuracy": ramp(update, 100, 140, 0.33, 0.0),
        "parts": {"calibration": ramp(update, 100, 140, -0.25, 0.0)},
    }


COLLAPSES: dict[str, Callable[[int], Line]] = {
    "accuracy": accuracy_for_calibration,
    "confidence": lambda u: healthy(u) | {"top_confidence_share": ramp(u, 100, 140, 0.4, 1.0)},
    "abstention": lambda u: healthy(u) | {"abstained": ramp(u, 100, 140, 0.05, 1.0)},
    "empty answers": lambda u: healthy(u) | {"empty_answers": ramp(u, 100, 140, 0.0, 1.0)},
    "format": lambda u: healthy(u) | {"well_formed": ramp(u, 100, 140, 0.99, 0.55)},
    "entropy": lambda u: healthy(u) | {"entropy": ramp(u, 100, 140, 0.3, 0.001)},
}


@pytest.mark.parametrize("kind", COLLAPSES)
@pytest.mark.parametrize(("prompts", "group"), [(64, 32), (8, 8)])
def test_a_collapse_is_told_once_and_soon(kind: str, prompts: int, group: int) -> None:
    ((update, warned_of),) = warnings(simulate(COLLAPSES[kind], 1, 300, prompts, group))
    assert warned_of == kind
    assert 100 < update <= 155


def test_one_value_that_never_changes_is_told_in_the_end() -> None:
    def curve(update: int) -> Line:
        return healthy(update) | {"top_confidence_share": 0.99}

    ((update, kind),) = warnings(simulate(curve, 0, 200))
    assert kind == "confidence"
    assert 50 <= update <= 65  # updates of poor format do not count


def test_a_poor_format_that_gets_poorer() -> None:
    def curve(update: int) -> Line:
        return healthy(update) | {"well_formed": ramp(update, 50, 100, 0.85, 0.60)}

    ((update, kind),) = warnings(simulate(curve, 0, 200))
    assert kind == "format"
    assert update < 110


@pytest.mark.parametrize("kind", COLLAPSES)
def test_told_again_after_a_recovery(kind: str) -> None:
    def twice(update: int) -> Line:
        # Collapses by update 140, is well again from 200 on, and collapses once more by 340.
        return COLLAPSES[kind](update if update < 170 else update - 200) | {"update": update}

    # The level before a collapse is that of the healthy curve at update 90 or so, not of its noisy start.
    def curve(update: int) -> Line:
        line = twice(update)
        return line if update < 170 or update >= 290 else COLLAPSES[kind](90) | {"update": update}

    assert [found for _, found in warnings(simulate(curve, 2, 500))] == [kind, kind]


def test_a_method_without_confidence() -> None:
    gone = {"top_confidence": None, "top_confidence_share": None, "parts": {"format": 1.0}}
    lines = [line | gone for line in simulate(accuracy_for_calibration, 0, 300)]
    assert warnings(lines) == []


def test_numbers_that_are_not_there() -> None:
    watch = CollapseWatch()
    for _ in range(60):
        assert watch.observe({"update": 1}) == []
        assert (
            watch.observe({"accuracy": None, "parts": None, "entropy": float("nan"), "well_formed": None})
            == []
        )


def test_an_update_that_cannot_be_graded_is_told_of_until_it_can() -> None:
    def line(unscorable: int) -> Line:
        reason = "gold does not parse" if unscorable else None
        return {"completions": 200, "unscorable": unscorable, "unscorable_reason": reason}

    text = "5 of 200 answers (2.5%) are unscorable and count for nothing, most often: gold does not parse"
    watch = CollapseWatch()
    # 2% is few; the first update is soon enough, and again only after it was better.
    assert [watch.observe(line(n)) for n in (4, 5, 9, 0, 5)] == [[], [text], [], [], [text]]
    assert CollapseWatch([line(5)]).observe(line(5)) == []


def test_replaying_the_file_restores_the_watch() -> None:
    def curve(update: int) -> Line:
        return (
            accuracy_for_calibration(update)
            | COLLAPSES["entropy"](update)
            | {key: accuracy_for_calibration(update)[key] for key in ("accuracy", "parts")}
        )

    lines = list(simulate(curve, 3, 220))
    whole = CollapseWatch()
    texts = [whole.observe(line) for line in lines]
    assert sum(map(len, texts)) == 2
    for cut in range(0, 220, 10):
        resumed = CollapseWatch(json.loads(json.dumps(lines[:cut])))
        assert [resumed.observe(line) for line in lines[cut:]] == texts[cut:]
