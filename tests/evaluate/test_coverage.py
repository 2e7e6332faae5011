"""What numbers rest on: every table says on how many answers, and marks those that are not all."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.report.run_folders import problem, record, write_run

from rlcr.cli.show.columns import print_columns
from rlcr.cli.show.measurement import print_measurement
from rlcr.cli.show.results import print_comparison, print_results
from rlcr.confidence.comparison import compare_columns
from rlcr.evaluate import write_results
from rlcr.evaluate.compare import compare_runs
from rlcr.evaluate.forced import repeats
from rlcr.evaluate.results import Results, measure_records, run_samples
from rlcr.metrics import compare, macro_average, summary
from rlcr.report.page import make_report, render
from rlcr.report.reading import read_runs
from rlcr.runs.record import from_cells
from rlcr.runs.store import open_run

N = 36


def half_rated(folder: Path, verifier: str = "exact", **settings: Any) -> Path:
    """A run of 36 answers of which 18 state a confidence, and another one cannot be scored."""
    records = []
    for number in range(N):
        cells: dict[str, Any] = {"verdict": "wrong" if number % 3 else "correct", "verifier": verifier}
        if number % 2:
            cells |= {"confidence": None, "text": "<answer>42</answer>", "answer_probability": None}
        if number == 1:
            cells["verdict"] = "unscorable"
        records.append(record(f"t/{number}", "t", **cells))
    write_run(folder, records, [problem(f"t/{n}", f"{n}?", "42") for n in range(N)])
    stored = json.loads((folder / "run.json").read_text())
    stored["graded"] |= {"verifier": None, "judge": None, **settings}
    (folder / "run.json").write_text(json.dumps(stored))
    write_results(open_run(folder))
    return folder


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_summaries_say_how_many_rows_each_metric_rests_on() -> None:
    one = summary([1, 0, 1], [0.9, None, 0.8])
    assert (one.n, one.rated, one.rows("accuracy"), one.rows("brier")) == (3, 2, 3, 2)
    assert one.to_dict()["rated"] == 2
    both = compare([1, 0, 1], [0.9, None, 0.8], [1, 0, 1], [0.9, 0.1, 0.8])
    assert (both.rows("accuracy"), both.rows("ece"), both.to_dict()["rated"]) == ((3, 3), (2, 3), [2, 3])
    macro = macro_average({"a": one, "b": summary([1, 0], [0.5, 0.4])})
    assert (macro.n, macro.rated, macro.to_dict()["rated"]) == (5, 4, 4)


def test_the_table_of_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = half_rated(tmp_path / "run")
    results = measure_records(open_run(run).records(), open_run(run).described)
    print_results(results)
    shown = printed(capsys)
    files = [" ".join((run / f"results.{end}").read_text().split()) for end in ("md", "tex")]
    for text in (shown, *files):
        assert "35/36" in text  # scored
        assert "18/36" in text  # rated
    assert "verified by exact" in shown
    assert "* uses only some of the answers" in shown
    warning = "t: AUROC, Brier and ECE rest on 18 of 35 scored answers"
    assert f"warning: {warning}" in shown
    assert warning in files[0]
    row = next(line for line in (run / "results.md").read_text().splitlines() if "verbalised" in line)
    accuracy, auroc, brier, ece = (cell.strip() for cell in row.split("|")[5:9])
    assert all(cell.endswith("\\*") for cell in (accuracy, auroc, brier, ece))
    stored = json.loads((run / "results.json").read_text())["tasks"]["t"]
    assert (stored["completions"], stored["n"], stored["rated"]) == (36, 35, 18)


def test_nothing_is_marked_where_all_answers_count(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [record(f"t/{n}", "t", verdict=["correct", "wrong"][n % 2]) for n in range(8)]
    results = measure_records(map(from_cells, cells), {"model": "m", "method": "rlcr", "grading": "strict"})
    print_results(results)
    shown = printed(capsys)
    assert "*" not in shown
    assert "t verbalised 8 8 " in shown
    assert results.warnings == []


def test_metrics_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_measurement(run_samples(half_rated(tmp_path / "run"), "verbalised").measure(resamples=0))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    (accuracy,) = [line for line in lines if line.startswith("accuracy")]
    (brier,) = [line for line in lines if line.startswith("Brier ") and "skill" not in line]
    for line, rests_on in ((accuracy, "35/36"), (brier, "18/36")):
        assert "*" in line
        assert line.endswith(rests_on)


def test_comparisons_say_it_too_and_who_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = half_rated(tmp_path / "a"), half_rated(tmp_path / "b", "judge", judge_name="tiny")
    same = compare_runs(a, half_rated(tmp_path / "c"), resamples=10)
    print_comparison(same)
    shown = printed(capsys)
    assert "18/35 18/35" in shown
    assert "t: verified by exact in both" in shown
    other = compare_runs(a, b, resamples=10)
    print_comparison(other)
    assert "t: verified by exact in the first, judge tiny in the second" in printed(capsys)
    assert other.to_dict()["verifiers"] == {"t": ["exact", "judge tiny"]}
    assert any("who verified: exact against judge tiny" in note for note in other.notes)


def test_columns_of_confidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared = compare_columns(half_rated(tmp_path / "run"), resamples=10)
    stated = compared.tasks["t"][0]
    assert (stated.name, stated.rows, stated.scored) == ("verbalised", 18, 35)
    (other,) = [result for result in compared.tasks["t"] if result.name == "answer-probability"]
    assert other.pairs == 18
    print_columns(compared)
    assert "18/35" in printed(capsys)


def test_the_page(tmp_path: Path) -> None:
    a, b = half_rated(tmp_path / "a"), half_rated(tmp_path / "b", "judge", judge_name="tiny")
    compare_columns(a, resamples=10)
    report = make_report(read_runs([a, b]))
    page = render(report)
    assert "AUROC, Brier and ECE rest on 18 of 35 scored answers" in page
    assert "judge tiny" in page
    tables = {table.name: table for section in report.every_section() for table in section.every_table()}
    for name in ("headline", "confidence-sources", "differences", "columns-a-t", "columns-a-t-differences"):
        texts = [cell.text for row in tables[name].rows for cell in row]
        assert any(text.endswith("*") for text in texts), name
        assert any("18/3" in text for text in texts), name
        assert any("uses only some" in note for note in tables[name].notes), name
    assert any("was verified by judge tiny" in note for note in tables["differences"].notes)


# --- confidences extracted by force ------------------------------------------------------------------


def forced(texts: list[str], answers: list[str], format: str = "confidence") -> Results:
    cells = [
        record(
            f"t/{n}", "t", text=f"<answer>{answer}</answer>", answer=answer,
            confidence=0.12 if any(map(str.isdigit, text)) else None,
            forced_confidence=text, format=format, verdict=["correct", "wrong"][n % 2],
        )
        for n, (text, answer) in enumerate(zip(texts, answers, strict=True))
    ]  # fmt: skip
    return measure_records(map(from_cells, cells), {"model": "m", "method": "base", "grading": "strict"})


def test_forced_confidences_that_repeat_the_answer_are_called_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = [str(n) for n in range(10, 30)]
    results = forced([f" {answer}." for answer in answers[:15]] + [" 80"] * 5, answers)
    (warning,) = results.warnings
    assert "20 of 20 responses state no confidence, and 20 were EXTRACTED BY FORCE" in warning
    assert "15 of them only repeat the answer and are no confidences" in warning
    assert "The method does not fit this model" in warning
    assert results.to_dict()["tasks"]["t"]["forced_confidences"] == {
        "forced": 20, "unreadable": 0, "repeat_the_answer": 15,
    }  # fmt: skip
    print_results(results)
    assert warning in printed(capsys)


def test_forced_confidences_of_a_method_that_asks_for_them() -> None:
    """RLVR has no confidence tag: it is asked afterwards, and nothing is wrong with that."""
    answers = [str(n) for n in range(10, 30)]
    assert forced([" 80"] * 20, answers, "rlvr").warnings == []
    (echoes,) = forced([f" {answer}" for answer in answers], answers, "rlvr").warnings
    assert "20 of them only repeat the answer" in echoes
    # Without the tags, though they were asked for.
    (unfit,) = forced([" 80"] * 20, answers).warnings
    assert "0 of them only repeat the answer. The method does not fit" in unfit


def test_a_forced_text_without_a_confidence_is_none_that_was_extracted() -> None:
    answers = [str(n) for n in range(10, 30)]
    results = forced([" very high"] * 14 + [" 80"] * 6, answers)
    (warning,) = [one for one in results.warnings if "FORCE" in one]
    assert "20 of 20 responses state no confidence, and 6 were EXTRACTED BY FORCE; 0 of them" in warning
    assert results.to_dict()["tasks"]["t"]["forced_confidences"]["unreadable"] == 14
    nothing = forced([" sure"] * 20, answers).warnings
    assert any(
        "20 of 20 responses state no confidence, and none could be extracted" in one for one in nothing
    )
    # What repeats the answer, and is no number, was no confidence to begin with.
    echoed = forced([" Paris"] * 20, ["Paris"] * 20).to_dict()["tasks"]["t"]["forced_confidences"]
    assert echoed == {"forced": 20, "unreadable": 20, "repeat_the_answer": 0}


@pytest.mark.parametrize(
    ("text", "answer", "same"),
    [
        (" 12", "12", True), (" 12.\n\nSo", "12", True), ("12.00", "12", True), (" Paris, France", "Paris", True),
        (" 85", "12", False), (" 120", "12", False), ("", "", False), (" 50", "", False), ("%", "12", False),
    ],
)  # fmt: skip
def test_what_repeats_an_answer(text: str, answer: str, same: bool) -> None:
    assert repeats(text, answer) is same
