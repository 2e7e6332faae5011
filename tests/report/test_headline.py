"""The sentence at the head of the page: computed, and without praise for runs that gave up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.published import outputs
from tests.report.pages import page_of, words
from tests.report.run_folders import problem, record, simulated_run, write_run

from rlcr.metrics import Difference
from rlcr.report.headline import Differ, Told, exactly, headline
from rlcr.report.page import make_report, render
from rlcr.report.reading import read_runs


def told(label: str, accuracy: float, ece: float, brier: float = 0.2, auroc: float = 0.6, **other) -> Told:
    values = {"accuracy": accuracy, "ece": ece, "brier": brier, "auroc": auroc}
    return Told(label, values | {"expected_reward": accuracy - brier}, **other)


def within(runs: Sequence[Told], spread: float) -> Differ:
    """Differences with intervals of this half width."""
    exact = exactly(runs)

    def differ(a: int, b: int, metric: str) -> Difference | None:
        found = exact(a, b, metric)
        assert found is not None
        assert found.value is not None
        return Difference(found.value, found.value - spread, found.value + spread)

    return differ


def test_the_quickstart_in_one_sentence() -> None:
    runs = [
        told("start", 0.3296, 0.1528, 0.257),
        told("RLVR", 0.3293, 0.2201, 0.283),
        told("RLCR", 0.3288, 0.0072, 0.216),
        told("RLCR-Log", 0.0, 0.0, 0.0, collapsed="gave up"),
        told("calibration only", 0.0, 0.0, 0.0, collapsed="gave up"),
    ]
    assert headline(runs, exactly(runs)) == (
        "RLCR cuts ECE from 0.153 to 0.007 at equal accuracy; RLVR raises ECE to 0.220; "
        "RLCR-Log and calibration only gave up answering."
    )


@pytest.mark.parametrize(
    ("first", "second", "spread", "said"),
    [
        ((0.50, 0.20), (0.60, 0.10), 0.01, "b cuts ECE from 0.200 to 0.100 and raises accuracy from 0.500 to 0.600."),
        ((0.60, 0.20), (0.50, 0.10), 0.01, "b cuts ECE from 0.200 to 0.100 while accuracy falls from 0.600 to 0.500."),
        ((0.50, 0.10), (0.60, 0.20), 0.01, "b raises ECE from 0.100 to 0.200 while accuracy rises from 0.500 to 0.600."),
        ((0.50, 0.20), (0.51, 0.10), 0.05, "b cuts ECE from 0.200 to 0.100 with no clear change in accuracy (0.500 and 0.510)."),
        ((0.50, 0.11), (0.51, 0.10), 0.05, "a and b do not clearly differ (ECE 0.110 and 0.100, accuracy 0.500 and 0.510)."),
        ((0.50, 0.10), (0.50, 0.10), 0.01, "a and b do not differ (ECE 0.100 and 0.100, accuracy 0.500 and 0.500)."),
    ],
)  # fmt: skip
def test_other_numbers_give_another_sentence(
    first: tuple[float, float], second: tuple[float, float], spread: float, said: str
) -> None:
    runs = [told("a", *first), told("b", *second)]
    assert headline(runs, within(runs, spread)) == said


def test_a_gain_in_one_metric_does_not_hide_a_loss_in_another() -> None:
    runs = [told("a", 0.886, 0.004, 0.099, 0.620), told("b", 0.913, 0.302, 0.167, 0.728)]
    assert headline(runs, within(runs, 0.01), "On csqa") == (
        "On csqa, b raises AUROC from 0.620 to 0.728 and raises accuracy from 0.886 to 0.913, "
        "but raises ECE from 0.004 to 0.302."
    )


@pytest.mark.parametrize(
    ("gap", "auroc", "said"),
    [
        ((-0.12, 0.01), (0.62, 0.77), "51.2%: neither clearly over- nor underconfident (ECE 0.089); its confidence tells right from wrong"),
        ((-0.12, -0.01), (0.45, 0.55), "51.2%: underconfident (ECE 0.089); its confidence does not clearly tell right from wrong"),
        ((-0.02, 0.01), (0.30, 0.45), "51.2%: neither over- nor underconfident (ECE 0.089); its confidence is higher where it is wrong"),
    ],
)  # fmt: skip
def test_one_run_is_called_calibrated_only_where_that_is_known(
    gap: tuple[float, float], auroc: tuple[float, float], said: str
) -> None:
    values = {"accuracy": 0.571, "confidence": 0.512, "ece": 0.089, "auroc": 0.7}
    run = Told("x", values, 198, intervals={"gap": gap, "auroc": auroc})
    begin = "x is right in 57.1% of 198 answers at a mean confidence of "
    assert headline([run], exactly([run])) == f"{begin}{said} (AUROC 0.700)."


def test_one_run_alone_and_one_of_which_all_others_gave_up() -> None:
    values = {"accuracy": 0.454, "confidence": 0.642, "ece": 0.188, "auroc": 0.716}
    alone = Told("x", values, 500, intervals={"gap": (0.15, 0.23), "auroc": (0.67, 0.76)})
    said = (
        "x is right in 45.4% of 500 answers at a mean confidence of 64.2%: overconfident (ECE 0.188); "
        "its confidence tells right from wrong (AUROC 0.716)"
    )
    assert headline([alone], exactly([alone])) == f"{said}."
    runs = [alone, told("y", 0.0, 0.0, collapsed="never right")]
    assert headline(runs, exactly(runs)) == f"{said}; y is never right."


# --- from the folders -------------------------------------------------------------------------------


def silent(folder: Path, answer: str = "I don't know", right: int = 0) -> Path:
    """A run that abstains with confidence 0, but for some answers."""
    names = [f"t/{n:05d}" for n in range(60)]
    records = [
        record(name, "t", answer=answer, confidence=0.0, verdict="wrong")
        if n >= right
        else record(name, "t", confidence=0.9)
        for n, name in enumerate(names)
    ]
    return write_run(folder, records, [problem(name, "?", "42") for name in names])


@pytest.mark.parametrize(
    ("answer", "right", "mark"),
    [("I don't know", 0, "gave up"), ("", 3, "gave up"), ("41", 0, "never right"), ("I don't know", 9, "")],
)
def test_collapsed_runs_are_marked_and_get_no_praise(
    tmp_path: Path, answer: str, right: int, mark: str
) -> None:
    honest = simulated_run(tmp_path / "honest", "rlcr", {"t": 60})
    report = make_report(read_runs([honest, silent(tmp_path / "mute", answer, right)]))
    rows = {row[0].text: row for table in report.headline.tables for row in table.rows}
    assert rows["mute"][0].mark == mark
    (section,) = (section for section in report.sections if section.name == "differences")
    minus_honest, minus_mute = (table for _, table in section.choices)
    marks = {cell.mark for cell in minus_honest.rows[0][1:]}
    against = {cell.mark for cell in minus_mute.rows[0][1:]}
    if mark:
        # Its ECE is far lower, which is no merit, and to have a higher one no fault.
        assert float(rows["mute"][4].value or 0) < float(rows["honest"][4].value or 0)
        assert "best" not in {cell.mark for row in rows.values() for cell in row}
        assert "better" not in marks
        assert "worse" not in against
        assert report.sentence.startswith("honest is right in ")
        assert "mute gave up answering" in report.sentence or "mute is never right" in report.sentence
        assert any(warning.startswith("mute ") for warning in report.warnings)
    else:
        assert {"better", "worse"} <= marks


def test_the_sentence_is_that_of_the_runs(tmp_path: Path) -> None:
    base, rlcr = (simulated_run(tmp_path / name, name, {"t": 300}) for name in ("base", "rlcr"))
    forth, back = (make_report(read_runs(runs)) for runs in ([base, rlcr], [rlcr, base]))
    ece = [
        json.loads((run / "results.json").read_text())["tasks"]["t"]["metrics"]["ece"]["value"]
        for run in (base, rlcr)
    ]
    assert f"rlcr cuts ECE from {ece[0]:.3f} to {ece[1]:.3f}" in forth.sentence
    assert f"base raises ECE from {ece[1]:.3f} to {ece[0]:.3f}" in back.sentence
    assert f"<h1>{forth.sentence}</h1>" in render(forth)


def test_an_unfinished_run_says_how_far_it_is(tmp_path: Path) -> None:
    folder = simulated_run(tmp_path / "run", "rlcr", {"t": 40})
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:25]))
    sentence = make_report(read_runs([folder])).sentence
    assert sentence.startswith("So far, after 25 of 40 answers, run is right in ")


def test_no_page_names_a_folder_of_the_machine(tmp_path: Path) -> None:
    folder = simulated_run(tmp_path / "home" / "ada" / "runs" / "rlcr", "rlcr", {"t": 20})
    stored = json.loads((folder / "run.json").read_text())
    stored["settings"]["model"] = "/home/ada/models/secret/train/model"
    (folder / "run.json").write_text(json.dumps(stored))
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:-3]))  # unfinished, and its results are stale
    text = words(page_of(folder))
    assert "secret/train/model" in text
    assert "--out …/runs/rlcr --resume" in text
    for place in ("/home", "ada/", str(tmp_path)):
        assert place not in text


def test_the_published_runs(tmp_path: Path, shared_data: Path) -> None:
    """Real data: the authors' stored outputs on MATH-500."""
    if not outputs(shared_data, "math-500").exists():
        pytest.skip("the authors' outputs are not here")
    from tests.published import stored_rows

    folders = []
    for method in ("Base", "RLVR", "RLCR"):
        rows = stored_rows(shared_data, "math-500")
        records = [
            record(
                str(row["id"]),
                "math-500",
                text=row[f"{method}-output_0"],
                confidence=row[f"{method}-confidence_levels"][0],
                verdict="correct" if row[f"{method}-evals"][0] else "wrong",
            )
            for row in rows
        ]
        asked = [problem(str(row["id"]), row["problem"], row["answer"]) for row in rows]
        folders.append(write_run(tmp_path / method, records, asked))
    report = make_report(read_runs(folders), budget=10_000)
    assert report.sentence == (
        "RLCR cuts ECE from 0.492 to 0.188 with no clear change in accuracy (0.468 and 0.454); "
        "RLVR raises ECE to 0.611."
    )
