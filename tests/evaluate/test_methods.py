"""The extraction pipeline, on crafted replies and on the authors' stored outputs."""

from pathlib import Path

import pytest
from tests.published import stored_rows

from rlcr.errors import RlcrError
from rlcr.evaluate.methods import (
    METHODS,
    get_method,
    needs_answer,
    needs_confidence,
    read_forced_answer,
    read_forced_confidence,
    stored_method,
)
from rlcr.prompts import load_prompt
from rlcr.response import parse


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_every_method_asks_for_the_tags_it_reads(method) -> None:
    assert load_prompt(method.prompt).format == method.format


@pytest.mark.parametrize(
    ("text", "answer", "confidence"),
    [
        ("<think>t</think><answer>4</answer><confidence>0.5</confidence>", False, False),
        ("<think>t</think><answer>4</answer>", False, True),
        ("<think>t</think><answer> </answer><confidence>0.5</confidence>", True, False),
        ("<think>t</think><answer>cut of", True, True),
        ("<think>t</think><answer>4</answer><confidence>sure</confidence>", False, True),
        ("", True, True),
    ],
)
def test_what_needs_a_repair(text: str, answer: bool, confidence: bool) -> None:
    response = parse(text, "confidence", mode="lenient")
    assert (needs_answer(response), needs_confidence(response)) == (answer, confidence)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (" Paris.", "Paris"),
        (": Paris\n\nBecause", "Paris"),
        (" <answer> Paris </answer> and", "Paris"),
        (" Paris</answer>", "Paris"),
        (" 3.14", "3.14"),
        (" 1 < x < 3", "1 < x < 3"),
        ("$x<5$", "$x<5$"),
        ("", ""),
    ],
)
def test_forced_answers(reply: str, answer: str) -> None:
    assert read_forced_answer(reply) == answer


@pytest.mark.parametrize(
    ("reply", "strict", "paper"),
    [
        (" 85", 0.85, 0.85),
        (" 85.", 0.85, 0.85),
        (" 85%", 0.85, 0.85),
        (" 1", 0.01, 1.0),
        (" 1.", 0.01, 1.0),
        (" 1%", 0.01, 1.0),
        (" 0.9", 0.9, 0.9),
        (" 0", 0.0, 0.0),
        ("... 1", 0.01, 1.0),
        (" 100. I am", 1.0, 1.0),
        (" 250", None, 0.0),
        (" unsure", None, 0.0),
    ],
)
def test_forced_confidences_on_the_scale_of_a_hundred(reply: str, strict: float | None, paper: float) -> None:
    assert read_forced_confidence(reply) == strict
    assert read_forced_confidence(reply, "paper") == paper


@pytest.mark.parametrize("run", ["commonsenseqa", "math-500"])
def test_the_authors_forced_replies_read_as_they_read_them(shared_data: Path, run: str) -> None:
    """Their outputs end with the forced reply in tags; without it, every RLVR response needs one."""
    rows = stored_rows(shared_data, run)
    different = 0
    for row in rows:
        response, _, forced = row["RLVR-output_0"].rpartition("<confidence>")
        forced = forced.removesuffix("</confidence>")
        assert needs_confidence(parse(response, "rlvr", mode="lenient"))
        assert read_forced_confidence(forced, "paper") == row["RLVR-confidence_levels"][0]
        different += read_forced_confidence(forced) != row["RLVR-confidence_levels"][0]
    # The strict reading agrees but for a handful.
    assert different <= 0.01 * len(rows)


def test_methods_stored_with_checkpoints(tmp_path: Path) -> None:
    assert stored_method(str(tmp_path)) is None
    (tmp_path / "rlcr.json").write_text('{"method": "rlvr"}')
    assert stored_method(str(tmp_path)) == METHODS["rlvr"]
    (tmp_path / "rlcr.json").write_text("[]")
    with pytest.raises(RlcrError, match=r"rlcr\.json"):
        stored_method(str(tmp_path))
    with pytest.raises(RlcrError, match="did you mean rlcr-long"):
        get_method("rlcr-lng")


def test_an_answer_without_its_tag_is_still_asked_for() -> None:
    response = parse("The answer is **17**.", "rlvr", mode="lenient")
    assert response.answer == "17"
    assert needs_answer(response)
    assert read_forced_answer(" 42.\n\nSo the answer is 43.") == "42"
