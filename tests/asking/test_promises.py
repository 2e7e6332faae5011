"""Thresholds and maps from a run: what they promise is kept on questions that the run has not seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.asking.replayed import METHOD, Replay, simulated_texts, stored_run
from tests.editing import seal_again

import rlcr
from rlcr.asking.files import load_recalibration, load_threshold
from rlcr.confidence.sources import add_column
from rlcr.errors import RlcrError
from rlcr.many.selective import SELECTIVE, select
from rlcr.metrics.bootstrap import wilson


def halved(texts: dict[str, list[str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Every other question."""
    pairs = list(texts.items())
    return dict(pairs[::2]), dict(pairs[1::2])


@pytest.mark.parametrize("samples", [1, 4])
def test_a_threshold_keeps_its_promise_on_the_held_out_half(tmp_path: Path, samples: int) -> None:
    wanted, shares = 0.9, []
    for seed in range(2):
        here, held_out = halved(simulated_texts(600, samples, seed, overconfident=0.3))
        run = stored_run(tmp_path / f"run-{seed}", here)
        select(run, wanted, samples=samples)
        sampler = Replay(held_out)
        answers = [
            rlcr.ask(sampler, q, method=METHOD, samples=samples, threshold=run / SELECTIVE) for q in held_out
        ]
        given = [answer.text == "right" for answer in answers if not answer.abstained]
        assert 30 < len(given) < len(answers)
        assert wilson(float(np.mean(given)), len(given))[1] >= wanted
        shares.append(np.mean(given))
        # Without a threshold fewer are right: there was something to promise.
        assert np.mean([answer.text == "right" for answer in answers]) < 0.8
    assert np.mean(shares) >= wanted - 0.01


def test_a_recalibrated_confidence_means_what_it_says(tmp_path: Path) -> None:
    here, held_out = halved(simulated_texts(600, 1, seed=5, overconfident=0.5))
    run = stored_run(tmp_path / "run", here)
    add_column(run, "platt")
    column = run / "confidence" / "platt.json"
    for path in (column, column.with_suffix(".jsonl")):
        assert load_recalibration(path).method == "platt"

    def brier(recalibration: Path | None) -> float:
        sampler = Replay(held_out)
        answers = [rlcr.ask(sampler, q, method=METHOD, recalibration=recalibration) for q in held_out]
        return float(np.mean([((one.confidence or 0) - (one.text == "right")) ** 2 for one in answers]))

    assert brier(column) < brier(None) - 0.02


def test_the_stored_map_is_learned_from_all_rows(tmp_path: Path) -> None:
    """On questions of another run it gives what a column of that run, learned from this one, holds."""
    run = stored_run(tmp_path / "run", simulated_texts(300, 1, seed=1, overconfident=0.4))
    other = stored_run(tmp_path / "other", simulated_texts(300, 1, seed=2, overconfident=0.4))
    from rlcr.confidence.sources import Options
    from rlcr.runs.columns import read_column

    for source in ("temperature", "platt", "isotonic"):
        add_column(run, source)
        add_column(other, source, Options(train=run))
        stated, transferred = read_column(other, "verbalised"), read_column(other, source)
        found = load_recalibration(run / "confidence" / f"{source}.json")
        keys = list(stated)
        mapped = found.chance(np.array([stated[key] for key in keys]))
        np.testing.assert_allclose(
            mapped, np.array([transferred[key] for key in keys], np.float64), atol=1e-12
        )


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    run = stored_run(tmp_path / "run", simulated_texts(200, 2, seed=3))
    select(run, 0.8)
    path = run / SELECTIVE
    assert 0 < load_threshold(path, 1, None) <= 1
    with pytest.raises(RlcrError, match="for 1 samples, and 2 are drawn"):
        load_threshold(path, 2, None)
    with pytest.raises(RlcrError, match="for column verbalised, and the answers are judged by column platt"):
        load_threshold(path, 1, run / "confidence" / "platt.json")
    select(run, 0.8, samples=2)
    assert 0 < load_threshold(path, 2, None) <= 1
    stored = json.loads(path.read_text())
    for broken, says in (
        ({"tasks": {}}, "holds no threshold"),
        (
            {"tasks": {"t": {"checks": [{"threshold": {"value": None}}]}}, "precision": 0.8},
            "no confidence reaches 80% there: choose a lower one .* --precision",
        ),
        ({"tasks": {"t": {}}}, "t has no thresholds"),
        ({"made_from": {"records": "0"}}, "stale"),
    ):
        path.write_text(json.dumps(stored | broken))
        seal_again(path)
        with pytest.raises(RlcrError, match=says):
            load_threshold(path, 2, None)
    with pytest.raises(RlcrError, match="run.json: not a threshold file: it has no precision; `rlcr select`"):
        load_threshold(run / "run.json", 2, None)
    path.write_text("[]")
    with pytest.raises(RlcrError, match="not a JSON object"):
        load_threshold(path, 2, None)
    with pytest.raises(RlcrError, match="no question has 3 samples"):
        select(run, 0.8, samples=3)
    elsewhere = tmp_path / "map.json"
    for held, says in (
        ({}, "expected a map with a method"),
        ({"map": {"method": "platt", "slope": 1}}, "slope and intercept"),
        ({"map": {"method": "isotonic", "q": [0, 1], "chance": [0]}}, "not all there"),
        ({"of": "agreement", "map": {}}, "recalibrates column agreement"),
    ):
        elsewhere.write_text(json.dumps(held))
        with pytest.raises(RlcrError, match=says):
            load_recalibration(elsewhere)
