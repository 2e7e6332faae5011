"""The sentence at the head of the page: computed, and without praise for runs that gave up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.published import outputs
from tests.report.pages import page_of, words
from tests.report.run_folders import problem, record, simulated_run, write_run

from rlcr.metrics import Difference
from rlcr.report.headline import Differ, RunResult, Trained, exactly, headline, of_trainings
from rlcr.report.page import make_report, render
from rlcr.report.reading import read_runs


def result(
    label: str, accuracy: float, ece: float, brier: float = 0.2, auroc: float = 0.6, **other
) -> RunResult:
    values = {"accuracy": accuracy, "ece": ece, "brier": brier, "auroc": auroc}
    return RunResult(label, values | {"expected_reward": accuracy - brier}, **other)


def within(runs: Sequence[RunResult], spread: float) -> Differ:
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
        result("start", 0.3296, 0.1528, 0.257),
        result("RLVR", 0.3293, 0.2201, 0.283),
        result("RLCR", 0.3288, 0.0072, 0.216),
        result("RLCR-Log", 0.0, 0.0, 0.0, collapsed="gave up"),
        result("calibration only", 0.0, 0.0, 0.0, collapsed="gave up"),
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
    runs = [result("a", *first), result("b", *second)]
    assert headline(runs, within(runs, spread)) == said


def test_a_gain_in_one_metric_does_not_hide_a_loss_in_another() -> None:
    runs = [result("a", 0.886, 0.004, 0.099, 0.620), result("b", 0.913, 0.302, 0.167, 0.728)]
    assert headline(runs, within(runs, 0.01), "On csqa") == (
        "On csqa, b raises AUROC from 0.620 to 0.728 and raises accuracy from 0.886 to 0.913, "
        "but raises ECE from 0.004 to 0.302."
    )


@pytest.mark.parametrize(
    ("gap", "auroc", "said"),
    [
        ((-0.12, 0.01), (0.62, 0.77), "51.2%: neither clearly over- nor underconfident (ECE 0.089); its confidence tells right from wrong"),
        ((-0.12, -0.01), (0.45, 0.55), "51.2%: underconfident (ECE 0.089); its confidence does not clearly tell right from wrong"),
        ((-0.02, 0.01), (0.30, 0.45), "51.2%: neither over- nor underconfident (ECE 0.089); its confidence is higher when it is wrong"),
    ],
)  # fmt: skip
def test_one_run_is_called_calibrated_only_where_that_is_known(
    gap: tuple[float, float], auroc: tuple[float, float], said: str
) -> None:
    values = {"accuracy": 0.571, "confidence": 0.512, "ece": 0.089, "auroc": 0.7}
    run = RunResult("x", values, 198, intervals={"gap": gap, "auroc": auroc})
    begin = "x gets 57.1% of 198 answers right at a mean confidence of "
    assert headline([run], exactly([run])) == f"{begin}{said} (AUROC 0.700)."


def test_one_run_alone_and_one_of_which_all_others_gave_up() -> None:
    values = {"accuracy": 0.454, "confidence": 0.642, "ece": 0.188, "auroc": 0.716}
    alone = RunResult("x", values, 500, intervals={"gap": (0.15, 0.23), "auroc": (0.67, 0.76)})
    said = (
        "x gets 45.4% of 500 answers right at a mean confidence of 64.2%: overconfident (ECE 0.188); "
        "its confidence tells right from wrong (AUROC 0.716)"
    )
    assert headline([alone], exactly([alone])) == f"{said}."
    runs = [alone, result("y", 0.0, 0.0, collapsed="never right")]
    assert headline(runs, exactly(runs)) == f"{said}; y is never right."


def test_a_run_without_confidence_is_not_said_to_be_equal() -> None:
    silent = {"accuracy": 0.5, "ece": None, "brier": None, "auroc": None, "expected_reward": None}
    runs = [result("a", 0.65, 0.135), RunResult("b", silent, 40)]

    def differ(a: int, b: int, metric: str) -> Difference | None:
        return Difference(-0.15, -0.34, 0.04) if metric == "accuracy" else None

    assert headline(runs, differ) == (
        "a and b do not clearly differ (accuracy 0.650 and 0.500); b states no confidence."
    )


def test_too_few_answers_are_no_ground_for_a_judgement() -> None:
    values = {"accuracy": 1.0, "confidence": 0.7, "ece": 0.3, "auroc": None}
    alone = RunResult("x", values, 1, intervals={"gap": (-0.3, -0.3)})
    assert headline([alone], exactly([alone])) == (
        "x gets 100.0% of 1 answer right: too few to judge its confidence."
    )


def on_task(accuracy: float, gap: tuple[float, float], auroc: tuple[float, float]) -> RunResult:
    values = {"accuracy": accuracy, "confidence": accuracy + sum(gap) / 2, "ece": 0.1, "auroc": 0.5}
    return RunResult("x", values, 200, intervals={"gap": gap, "auroc": auroc})


def test_of_an_average_the_tasks_are_named_that_differ() -> None:
    good, bad = on_task(0.3, (-0.01, 0.01), (0.8, 0.9)), on_task(0.1, (0.05, 0.2), (0.3, 0.4))
    x = replace(on_task(0.2, (-0.01, 0.12), (0.55, 0.65)), parts={"sums": good, "reading": bad})
    assert headline([x], exactly([x])) == (
        "x gets 20.0% of 200 answers right at a mean confidence of 25.5%: neither over- nor underconfident on sums "
        "and overconfident on reading (ECE 0.100); its confidence tells right from wrong on sums and is higher "
        "when it is wrong on reading (AUROC 0.500)."
    )
    base = result("base", 0.2, 0.4)
    rival = replace(x, values={**x.values, "brier": 0.1, "expected_reward": 0.9})

    def on(value: float) -> Differ:
        return lambda a, b, metric: Difference(value, value - 0.05, value + 0.05) if metric == "ece" else None

    by_task = {"sums": on(-0.6), "reading": on(0.02), "letters": on(0.1)}
    assert headline([base, rival], on(-0.3), "", by_task) == (
        "x cuts ECE from 0.400 to 0.100 (not clearly on reading, the opposite on letters); "
        "on reading its confidence is higher when it is wrong."
    )


def test_a_curve_that_may_have_moved_is_not_said_to_stay() -> None:
    moves = {"reward": (0.4, 0.6, True), "accuracy": (0.275, 0.2, False), "ECE": (0.4, 0.4, False)}
    assert of_trainings([Trained("x", 48, 48.0, False, moves)]) == (
        "x after 48 updates: reward rises from 0.400 to 0.600, accuracy does not clearly change (0.275 and "
        "0.200) and ECE stays at 0.400."
    )


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
        assert report.sentence.startswith("honest gets ")
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
    assert sentence.startswith("So far, after 25 of 40 answers, run gets ")


def test_runs_that_have_answered_nothing_in_common_yet_are_not_called_silent(tmp_path: Path) -> None:
    folders = [simulated_run(tmp_path / name, "rlcr", {"t": 40}) for name in ("a", "b")]
    for folder, part in zip(folders, (slice(0, 4), slice(20, 24)), strict=True):
        lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
        (folder / "records.jsonl").write_text("".join(lines[part]))
    sentence = make_report(read_runs(folders)).sentence
    assert sentence == ("So far, after 8 of 80 answers: no question has been answered by every run yet.")


def test_an_unfinished_run_is_compared_on_what_it_answered(tmp_path: Path) -> None:
    """The first half of one run is not compared with the whole of another."""
    names = [f"t/{n:03}" for n in range(80)]

    def run(name: str, right: Callable[[int], bool], done: int) -> Path:
        records = [
            record(one, "t", confidence=0.5 + n % 3 / 10, verdict="correct" if right(n) else "wrong")
            for n, one in enumerate(names)
        ]
        folder = write_run(tmp_path / name, records, [problem(one, "?", "42") for one in names])
        lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
        (folder / "records.jsonl").write_text("".join(lines[:done]))
        return folder

    # Both are right in the second half alone, of which one has not begun.
    whole, half = run("whole", lambda n: n >= 20, 80), run("half", lambda n: n >= 20, 40)
    report = make_report(read_runs([half, whole]))
    assert "after 40 of 80 answers, on the questions that all of them answered, " in report.sentence
    assert "accuracy 0.500 and 0.500" in report.sentence
    rows = [row for table in report.headline.tables for row in table.rows]
    assert "best" not in {cell.mark for row in rows for cell in row}


def test_the_average_of_tasks_and_the_ece_of_what_is_drawn(tmp_path: Path) -> None:
    """Too sure on one task and not sure enough on the other: drawn together, it looks calibrated."""
    records, asked = [], []
    for task, right in (("hard", 2), ("easy", 8)):
        for n in range(100):
            name = f"{task}/{n}"
            verdict = "correct" if n % 10 < right else "wrong"
            records.append(record(name, task, confidence=0.5, verdict=verdict))
            asked.append(problem(name, "?", "42"))
    run = write_run(tmp_path / "run", records, asked)
    report = make_report(read_runs([run]))
    (figure,) = report.headline.figures
    assert figure.panels[0].subtitle.startswith("ECE 0.300 · pooled\N{NO-BREAK SPACE}0.000")
    assert "answers of all tasks" in figure.notes[0]
    assert "overconfident on hard" in report.sentence
    assert "underconfident on easy" in report.sentence


def test_a_run_with_other_tasks_is_not_forgotten(tmp_path: Path) -> None:
    a, b = (simulated_run(tmp_path / name, name, {"t": 60}) for name in ("base", "rlcr"))
    other = simulated_run(tmp_path / "other", "rlcr", {"u": 60})
    assert make_report(read_runs([other, a, b])).sentence.endswith("; other has other tasks.")


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
