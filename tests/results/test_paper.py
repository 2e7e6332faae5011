"""The paper's tables as typed in: what is wrong with them is known and listed, so a slip of ours fails here."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from results.paper import __main__ as command
from results.paper.checks import CHECKS, Outcome, brier_range, run_checks
from results.paper.recompute import recompute
from results.paper.tables import FILE, Place, load

from rlcr.errors import RlcrError
from rlcr.files import file_sha256
from rlcr.metrics import accuracy, brier, ece

# Every cell was compared with the source of the paper, by a parser of its LaTeX, when this was taken.
CELLS = 708
DIGEST = "2e1d868157d7e54ed05dcdfdd0fe33245a09385193734324225577a7ba3e921d"

KNOWN = {
    "bold": {
        "hotpotqa-math500-gsm8k / Base / MATH-500 / accuracy",
        "hotpotqa-math500-gsm8k / RLCR / MATH-500 / accuracy",
        "hotpotqa-hotpotqa / RLVR / HotpotQA / accuracy",
        "hotpotqa-hotpotqa / RLVR / HotpotQA-Modified / accuracy",
        "math-commonsenseqa-gpqa / Answer prob / CommonsenseQA / brier",
    },
    "quotes": {"sft-prompt / SFT+RLCR, other prompt / OOD / accuracy"},
    "half-widths": {"math-commonsenseqa-gpqa / RLVR / CommonsenseQA / accuracy"},
    "overconfidence": {
        "main-math / RLVR / OOD / ece",
        "sft-prompt / RLVR / OOD / ece",
        "math-simpleqa-triviaqa / RLVR / TriviaQA / ece",
        "math-commonsenseqa-gpqa / RLVR / CommonsenseQA / ece",
        "math-commonsenseqa-gpqa / RLVR / GPQA / ece",
        "math-math500-gsm8k / RLVR / MATH-500 / ece",
        "math-bigmath-hotpotqa / RLVR / HotpotQA / ece",
    },
}

# Printed minus what the stored outputs give, where that is not rounding.
DIFFERENT = {
    # RLVR trained on Big-Math: the accuracy is of other outputs than AUROC, Brier and ECE.
    "main-math / RLVR / Math / accuracy": 3.16,
    "main-math / RLVR / OOD / accuracy": 2.293,
    "sft-prompt / RLVR / Math / accuracy": 3.16,
    "sft-prompt / RLVR / OOD / accuracy": 2.293,
    "math-simpleqa-triviaqa / RLVR / SimpleQA / accuracy": 0.984,
    "math-simpleqa-triviaqa / RLVR / TriviaQA / accuracy": 3.15,
    "math-commonsenseqa-gpqa / RLVR / CommonsenseQA / accuracy": 2.732,
    "math-math500-gsm8k / RLVR / MATH-500 / accuracy": 5.6,
    "math-math500-gsm8k / RLVR / GSM8K / accuracy": 0.38,
    "math-bigmath-hotpotqa / RLVR / Big-Math / accuracy": 3.4,
    "math-bigmath-hotpotqa / RLVR / HotpotQA / accuracy": 4.6,
    # Rounded the wrong way.
    "hotpotqa-math500-gsm8k / Base / GSM8K / ece": 0.005,
    "hotpotqa-math500-gsm8k / Answer prob / GSM8K / auroc": 0.005,
    "math-simpleqa-triviaqa / RLCR / SimpleQA / accuracy": -0.067,
    "math-math500-gsm8k / Base / GSM8K / ece": 0.005,
    "math-math500-gsm8k / RLVR / GSM8K / auroc": 0.005,
    "math-math500-gsm8k / BCE classifier / GSM8K / accuracy": -0.075,
    "math-math500-gsm8k / Answer prob / GSM8K / accuracy": -0.075,
}


def discrepancies(outcomes: dict[str, Outcome]) -> dict[str, set[str]]:
    return {
        name: {str(finding.place) for finding in outcome.findings}
        for name, outcome in outcomes.items()
        if outcome.findings
    }


def test_every_cell_is_as_it_was_compared_with_the_paper() -> None:
    cells = [cell for cell in load().cells.values() if not cell.spanned]
    lines = [
        f"{cell.place} {cell.number.printed} {cell.half_width and cell.half_width.printed} {cell.bold}"
        for cell in cells
    ]
    assert len(cells) == CELLS
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == DIGEST


def test_the_discrepancies_are_the_known_ones() -> None:
    assert discrepancies(run_checks(load())) == KNOWN


def test_every_average_of_two_tables_is_checked() -> None:
    """Seven methods on HotpotQA and nine on Math (with the repeats of other tables): no average goes unseen."""
    checked = {name: outcome.checked for name, outcome in run_checks(load()).items()}
    assert checked["averages"] == 134
    assert all(checked[name] > 0 for name in CHECKS)


@pytest.mark.parametrize(
    ("check", "place", "before", "after"),
    [
        ("averages", "main-hotpotqa / RLCR / OOD / accuracy", '"*56.2 *0.68', '"*65.2 *0.68'),
        ("averages", "main-hotpotqa / Probe / OOD / brier", "0.53 0.38 0.38", "0.53 0.36 0.38"),
        ("averages", "main-math / Base / Math / ece", "0.40 0.39", "0.40 0.37"),
        ("bold", "main-hotpotqa / RLCR / HotpotQA / brier", "62.1 0.69 *0.21", "62.1 0.69 0.21"),
        ("bold", "qwen3 / RLVR / HotpotQA / ece", "0.36 0.36", "0.36 *0.36"),
        ("repeats", "log-score / RLCR / HotpotQA / auroc", '"62.1 *0.69 *0.21', '"62.1 *0.96 *0.21'),
        ("quotes", "ablation / RLCR without analysis / HotpotQA / tokens", "61.7 113", "61.7 131"),
        (
            "whole questions",
            "hotpotqa-math500-gsm8k / Base / MATH-500 / accuracy",
            '"46.8±4.30',
            '"46.9±4.30',
        ),
        ("half-widths", "math-simpleqa-triviaqa / RLCR / TriviaQA / accuracy", "61.0±2.13", "61.0±3.13"),
        ("ranges", "olmo2 / Base / HotpotQA / brier", "0.55 0.78", "0.55 7.8"),
        ("brier bounds", "olmo2 / RLCR / HotpotQA / brier", "*0.58 *0.24 *0.09", "*0.58 *0.42 *0.09"),
        ("brier bounds", "qwen3 / RLVR / OOD / brier", "0.62 0.28 0.29", "0.62 0.06 0.29"),
        (
            "constant confidence",
            "hotpotqa-hotpotqa / RLVR / HotpotQA-Modified / brier",
            "0.54±0.05 0.54",
            "0.45±0.05 0.54",
        ),
        ("overconfidence", "olmo2 / RLVR / HotpotQA / ece", "0.38 0.38", "0.38 0.83"),
    ],
)
def test_a_slip_is_found(tmp_path: Path, check: str, place: str, before: str, after: str) -> None:
    text = FILE.read_text(encoding="utf-8")
    table = text.index(f"\n  {place.split(' / ')[0]}:\n")
    assert before in text[table:]
    file = tmp_path / "tables.yaml"
    file.write_text(text[:table] + text[table:].replace(before, after, 1), encoding="utf-8")
    assert place in discrepancies(run_checks(load(file)))[check] - KNOWN.get(check, set())


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "39.7 0.54 0.53 0.53",
            "39.7 0.54 0.53",
            "main-hotpotqa / Base / HotpotQA: 3 cells for the 4 columns",
        ),
        ("39.7 0.54", "39,7 0.54", "main-hotpotqa / Base / HotpotQA / accuracy: '39,7' is not a cell"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named(tmp_path: Path, before: str, after: str, message: str) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text(FILE.read_text(encoding="utf-8").replace(before, after, 1), encoding="utf-8")
    with pytest.raises(RlcrError, match=message):
        load(file)


def test_the_rows_that_an_accuracy_spans_have_it() -> None:
    cells = load().cells
    spanned = cells[Place("main-math", "Probe", "OOD", "accuracy")]
    assert (spanned.number.printed, spanned.bold, spanned.spanned) == ("52.5", True, True)


def test_brier_keeps_to_its_range_and_reaches_both_ends() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 60))
        confidence = rng.choice(rng.random(int(rng.integers(1, 6))), n)
        correct = rng.random(n) < rng.choice([confidence, 1 - confidence, np.full(n, rng.random())])
        low, high = brier_range(accuracy(correct), ece(correct, confidence))
        assert low - 1e-9 <= brier(correct, confidence) <= high + 1e-9
    # All wrong at 0.3: the least. A tenth wrong and sure, the others right half the time at 0.5: the largest.
    assert brier_range(0.0, 0.3)[0] == pytest.approx(brier([0, 0], [0.3, 0.3]))
    correct, confidence = [0] * 2 + [0, 1] * 9, [1.0] * 2 + [0.5] * 18
    assert ece(correct, confidence) == pytest.approx(0.1)
    assert brier_range(0.45, 0.1, width=0.0)[1] == pytest.approx(brier(correct, confidence))


def test_stored_outputs_give_the_printed_cells(shared_data: Path) -> None:
    cells = recompute(load(), shared_data / "rlcr_outputs", resamples=0)
    assert len(cells) == 472
    different = {str(each.cell.place): each.difference for each in cells if not each.agrees}
    assert different == {place: pytest.approx(by, abs=6e-4) for place, by in DIFFERENT.items()}
    sources = [each.source for each in cells]
    assert {source: sources.count(source) for source in sources} == {
        "average": 122,
        "metrics": 302,
        "completions": 16,
        "verdicts": 32,
    }


def test_what_is_recorded_is_of_these_tables() -> None:
    recorded = json.loads(command.OUT.read_text(encoding="utf-8"))
    assert recorded["cells"] == CELLS
    assert recorded["tables_sha256"] == file_sha256([FILE]), "run `make paper`"
    findings = {
        name: {each["cell"] for each in check["findings"]} for name, check in recorded["checks"].items()
    }
    assert {name: cells for name, cells in findings.items() if cells} == KNOWN
    cells = recorded["recomputed"]["cells"]
    assert {place for place, cell in cells.items() if "differs" in cell} == set(DIFFERENT)
    assert {place for place, cell in cells.items() if "half_width_differs" in cell} == {
        "hotpotqa-commonsenseqa-gpqa / RLCR / CommonsenseQA / auroc",
        "hotpotqa-math500-gsm8k / Answer prob / MATH-500 / auroc",
    }


def test_the_command_without_outputs_keeps_what_was_recomputed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads(command.OUT.read_text(encoding="utf-8"))
    out = tmp_path / "paper.json"
    out.write_text(json.dumps(before), encoding="utf-8")
    monkeypatch.setattr(command, "OUT", out)
    monkeypatch.delenv("RLCR_DATA", raising=False)
    command.main()
    after = json.loads(out.read_text(encoding="utf-8"))
    assert after["recomputed"] == before["recomputed"]
    assert after["checks"] == before["checks"]
    out.write_text(json.dumps(before | {"tables_sha256": "of other tables"}), encoding="utf-8")
    command.main()
    assert "recomputed" not in json.loads(out.read_text(encoding="utf-8"))
    printed = capsys.readouterr().out
    assert "averages: 134 checked, 0 found" in printed
    assert "nothing recomputed: set RLCR_DATA" in printed
