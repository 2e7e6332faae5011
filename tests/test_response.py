"""The parser: what strict accepts, what lenient forgives and calls by name, and that it is always linear."""

import os
import random
import time
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcr import response as response_module
from rlcr.errors import RlcrError
from rlcr.evaluate.methods import read_forced_answer, read_forced_confidence
from rlcr.response import FORMATS, TAGS, Mode, get_format, parse, read_confidence

MODES: tuple[Mode, ...] = get_args(Mode)
GOOD = "<think>a</think><answer>b</answer><analysis>c</analysis><confidence>0.7</confidence>"

# Text with all that can trip a parser: tags, halves of tags, digits of other scripts, NUL, emoji.
PIECES = [
    *(f"<{slash}{tag}>" for tag in TAGS for slash in ("", "/")),
    "0.5",
    "9" * 400,
    "/",
    "1",
    "90%",
    "nan",
    "-1",
    "1e999",
    "٠.٥",
    "０",
    "<",
    "</",
    "<answer",
    "\0",
    "👩‍🔬",
    " ",
    "\n",
    "text",
]
pieces = st.sampled_from(PIECES)
tagged_text = st.lists(pieces, max_size=30).map("".join)
any_text = st.one_of(tagged_text, st.text(max_size=200))
format_names = st.sampled_from(list(FORMATS))


@pytest.mark.parametrize("stated", ["0", "1", ".5", "0.85", "1.0", " 0.7 ", "\n0.70\n", "0.", "00.5"])
def test_strict_takes_ascii_decimals(stated: str) -> None:
    response = parse(GOOD.replace("0.7", stated))
    assert response.well_formed
    assert response.confidence == float(stated)


@pytest.mark.parametrize(
    "stated",
    ["", " ", "nan", "inf", "-0", "+1", "1.01", "90", "90%", "0.9 (high)", "1e-1", "0x1", "0_1", "٠.٥", "０.５",
     "½", "0,5", "0.5.5", "high", "1" * 500, "0." + "0" * 500],
)  # fmt: skip
def test_strict_refuses_all_other_confidences(stated: str) -> None:
    response = parse(GOOD.replace("0.7", stated))
    assert not response.well_formed
    assert (response.answer, response.confidence, dict(response.spans)) == (None, None, {})
    assert "confidence" in response.fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "missing <think>"),
        ("b", "missing <think>"),
        (GOOD + "!", "text after </confidence>"),
        ("!" + GOOD, "text before <think>"),
        (GOOD.replace("</answer>", "</answer>!"), "text before <analysis>"),
        (GOOD + GOOD, "<think> more than once"),
        (GOOD.replace("b", "<answer>b</answer>"), "<answer> more than once"),
        (GOOD.replace("c", "<answer>no</answer>"), "<answer> more than once"),
        (GOOD.replace("</answer>", ""), "missing </answer>"),
        (GOOD.replace("<analysis>c</analysis>", ""), "missing <analysis>"),
        (GOOD.replace("<answer>b</answer>", "") + "<answer>b</answer>", "missing <answer>"),
        ("\0" + GOOD, "text before <think>"),
        (GOOD.replace("<answer>", "<Answer>"), "missing <answer>"),
    ],
)
def test_strict_names_the_first_fault(text: str, fault: str) -> None:
    assert parse(text).fault == fault


def test_tags_of_other_sets_are_text_inside_a_part_and_faults_outside() -> None:
    inside = "<think>a <confidence>0.5</confidence></think><answer>b</answer>"
    assert parse(inside, "rlvr").part("think") == "a <confidence>0.5</confidence>"
    outside = "<think>a</think><answer>b</answer><confidence>0.5</confidence>"
    assert parse(outside, "rlvr").fault == "<confidence> is not a tag of format rlvr"


def test_spans_are_the_text_between_the_tags() -> None:
    text = "<think> a </think>\n<answer> b </answer>"
    response = parse(text, "rlvr")
    assert {tag: text[start:end] for tag, (start, end) in response.spans.items()} == {
        "think": " a ",
        "answer": " b ",
    }
    assert response.answer == "b"


@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_a_think_opened_by_the_prompt(mode) -> None:
    rest = GOOD.removeprefix("<think>")
    response = parse(rest, mode=mode, think_open=True)
    assert response.well_formed
    assert response.part("think") == "a"
    assert response.spans["think"] == (0, 1)
    # A model that writes the tag all the same is read as well.
    assert parse(GOOD, mode=mode, think_open=True).well_formed
    assert not parse(rest, mode=mode).well_formed


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FORMATS)
def test_a_think_after_a_whole_response_is_one_too_many_also_where_the_prompt_opened_the_first(
    name: str, mode: Mode
) -> None:
    format = FORMATS[name]
    parts = {"think": "x", "answer": "4", "analysis": "a", "confidence": "0.9"}
    whole = format.render(**{tag: parts[tag] for tag in format.tags})
    response = parse(whole.removeprefix("<think>") + "<think>", name, mode=mode, think_open=True)
    assert (response.fault, response.error) == ("<think> more than once", "")
    assert response.answer == (None if mode == "strict" else "4")


@pytest.mark.parametrize("mode", MODES)
def test_a_text_that_the_parser_fails_on_is_neither_read_nor_raised(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(text: str, *_: object) -> None:
        raise IndexError(f"no {text}\nhere")

    monkeypatch.setattr(response_module, "_parse_strict", failing)
    response = parse("x", mode=mode)
    assert response.error == response.fault == "the parser failed: IndexError: no x here"
    assert (response.answer, response.confidence, dict(response.spans)) == (None, None, {})
    # A mistake of the caller is not one of the text.
    with pytest.raises(RlcrError, match="unknown format"):
        parse("x", "rlxr", mode=mode)


def test_lenient_last_top_level_block_wins_and_paper_takes_the_last_anywhere() -> None:
    text = (
        "<think>t</think><answer>1</answer><answer>2</answer>"
        "<analysis>not <answer>3</answer>, <confidence>0.1</confidence></analysis><confidence>0.6</confidence>"
    )
    lenient = parse(text, mode="lenient")
    assert (lenient.answer, lenient.confidence) == ("2", 0.6)
    assert lenient.leniencies == ("repeated-answer",)
    assert parse(text, mode="paper").answer == "3"


@pytest.mark.parametrize(
    ("text", "answer", "confidence", "leniencies"),
    [
        # A forgotten </think> must not swallow the answer.
        ("<think>t <answer>1</answer><confidence>0.5</confidence>", "1", 0.5, ("unclosed-think", "missing-analysis")),
        # Cut off in the middle of the answer: its text runs to the end.
        ("<think>t</think><answer>1", "1", None, ("unclosed-answer", "missing-analysis", "missing-confidence")),
        # An answer closed by the wrong tag.
        ("<think>t</think><answer>1</analysis><analysis>a</analysis><confidence>1</confidence>", "1", 1.0,
         ("unclosed-answer",)),
        ("<confidence>1</confidence><answer>1</answer>", "1", 1.0,
         ("missing-think", "missing-analysis", "wrong-order")),
        ("So: <answer>1</answer> done", "1", None,
         ("missing-think", "missing-analysis", "missing-confidence", "outside-text")),
        ("nothing\nat all", None, None,
         ("missing-think", "missing-answer", "missing-analysis", "missing-confidence", "outside-text")),
    ],
)  # fmt: skip
def test_lenient_reads_on_and_names_what_it_bent(text, answer, confidence, leniencies) -> None:
    response = parse(text, mode="lenient")
    assert (response.answer, response.confidence, response.leniencies) == (answer, confidence, leniencies)


@pytest.mark.parametrize(
    ("stated", "value", "how"),
    [
        ("0.85", 0.85, ""),
        ("100.", 1.0, "scale-100"),
        ("1", 1.0, ""),
        ("85 %", 0.85, "percent"),
        ("0.5%", 0.005, "percent"),
        ("8 / 10", 0.8, "fraction"),
        ("9 out of 10", 0.9, "fraction"),
        ("1 percent", 0.01, "percent"),
        ("8/" + "9" * 390, 8 / 999_999_999, "fraction"),
        ("3/0", None, "unreadable-confidence"),
        ("0,85", 0.85, "decimal-comma"),
        ("0.9 (high)", 0.9, "extra-text"),
        ("I am 95% sure", 0.95, "percent"),
        ("1e-2", 0.01, ""),
        ("1e999", None, "unreadable-confidence"),
        ("150", None, "unreadable-confidence"),
        ("-0.3", None, "unreadable-confidence"),
        ("nan", None, "unreadable-confidence"),
        ("٠.٥", None, "unreadable-confidence"),
        ("", None, "empty-confidence"),
    ],
)
def test_lenient_confidence(stated: str, value: float | None, how: str) -> None:
    assert read_confidence(stated) == (value, how)


@pytest.mark.parametrize(
    ("stated", "value"),
    [("0.85", 0.85), ("100.", 1.0), ("90%", 0.9), ("0.5%", 0.5), ("nan", 0.0), ("-1", 0.0), ("high", 0.0), ("", 0.0),
     ("150", 0.0), ("1e-1", 0.1), ("so 70 of 100", 0.7)],
)  # fmt: skip
def test_paper_confidence(stated: str, value: float) -> None:
    assert parse(f"<confidence>{stated}</confidence>", mode="paper").confidence == value


@given(
    name=format_names,
    parts=st.lists(st.text(max_size=50).filter(lambda t: "<" not in t), min_size=4, max_size=4),
    confidence=st.floats(0, 1).map(lambda q: f"{q:.6f}"),
)
def test_a_rendered_response_parses_back_to_its_parts(name: str, parts: list[str], confidence: str) -> None:
    format = FORMATS[name]
    written = dict(zip(TAGS, parts, strict=True)) | {"confidence": confidence}
    response = parse(format.render(**{tag: written[tag] for tag in format.tags}), name)
    assert response.well_formed
    for tag in format.tags:
        assert response.part(tag) == written[tag].strip()
    assert response.confidence == (float(confidence) if "confidence" in format.tags else None)


@given(text=any_text, name=format_names, think_open=st.booleans())
def test_what_strict_accepts_the_others_read_alike(text: str, name: str, think_open: bool) -> None:
    strict = parse(text, name, think_open=think_open)
    lenient = parse(text, name, mode="lenient", think_open=think_open)
    paper = parse(text, name, mode="paper", think_open=think_open)
    for response in (strict, lenient, paper):
        assert not response.error
        assert response.fault == strict.fault
        assert response.confidence is None or 0 <= response.confidence <= 1
    if strict.well_formed:
        assert lenient == strict
        assert paper.answer == strict.answer
        assert strict.confidence in (None, paper.confidence)


@given(
    name=format_names,
    body=st.text(alphabet="<>/answerthink 0.5", max_size=60),
    confidence=st.sampled_from(["0", ".5"]),
    more=tagged_text,
    think_open=st.booleans(),
)
def test_responses_that_are_nearly_all_well_formed(name, body, confidence, more, think_open) -> None:
    parts = {"think": body, "answer": "x", "analysis": body, "confidence": confidence}
    text = FORMATS[name].render(**{tag: parts[tag] for tag in FORMATS[name].tags})
    if think_open:
        text = text.removeprefix("<think>")
    strict = parse(text, name, think_open=think_open)
    if strict.well_formed:
        assert parse(text, name, mode="lenient", think_open=think_open) == strict
    for mode in MODES:
        assert not parse(text + more, name, mode=mode, think_open=think_open).error


@pytest.mark.slow
def test_fuzz() -> None:
    """Every reading of random texts, for RLCR_FUZZ_SECONDS (60): no crash, and a confidence is one.

    Half of the texts are rows of pieces, half are whole responses with a few pieces put in, taken out or
    repeated: from rows alone hardly ever comes a whole response, after which the parser has other ways to go.
    """
    rng = random.Random(os.environ.get("RLCR_FUZZ_SEED", "0"))
    end = time.monotonic() + float(os.environ.get("RLCR_FUZZ_SECONDS", "60"))
    inputs = 0
    while time.monotonic() < end:
        for _ in range(100):
            text = fuzzed(rng)
            for name in FORMATS:
                for mode in MODES:
                    for think_open in (False, True):
                        response = parse(text, name, mode=mode, think_open=think_open)
                        inputs += 1
                        assert not response.error, (text, name, mode, think_open)
                        assert response.confidence is None or 0 <= response.confidence <= 1, (text, name)
                        assert all(0 <= start <= stop <= len(text) for start, stop in response.spans.values())
            assert isinstance(read_forced_answer(text), str)
            for grading in ("strict", "paper"):
                confidence = read_forced_confidence(text, grading)
                assert confidence is None or 0 <= confidence <= 1, text
    print(f"{inputs:,} readings")


def fuzzed(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return "".join(rng.choices(PIECES, k=rng.randrange(30)))
    format = rng.choice(list(FORMATS.values()))
    row = [piece for tag in format.tags for piece in (f"<{tag}>", rng.choice(PIECES), f"</{tag}>")]
    row = row[rng.random() < 0.5 :]  # as after a prompt that opens <think>
    for _ in range(rng.randrange(4)):
        place = rng.randrange(len(row) + 1)
        end = place + rng.randrange(2)
        row[place:end] = rng.choice([[], [rng.choice(PIECES)], row[place : place + 3] * 2])
    return "".join(row)


MEGABYTE = 1_000_000
ADVERSARIAL = {
    "unclosed": "<answer>" * 100_000,
    "closings": "</answer>" * 100_000,
    "nested": "<think>" * 60_000 + "</think>" * 60_000,
    "pairs": "<answer>1</answer>" * 55_000,
    "all tags open": "<think><answer><analysis><confidence>" * 27_000,
    "open, then closed": "<think><answer><analysis>" * 20_000 + "</analysis></answer></think>" * 18_000,
    "NUL": "\0" * MEGABYTE,
    "angle brackets": "<" * MEGABYTE,
    "white space": " " * MEGABYTE,
    "digits of other scripts": GOOD.replace("0.7", "٣０" * (MEGABYTE // 2)),
    "ASCII digits": GOOD.replace("0.7", "0." + "3" * MEGABYTE),
    "spaces in the confidence": GOOD.replace("0.7", " " * MEGABYTE + "x"),
}


@pytest.mark.parametrize("mode", ["strict", "lenient", "paper"])
@pytest.mark.parametrize("text", ADVERSARIAL.values(), ids=ADVERSARIAL.keys())
def test_linear_on_any_input(text: str, mode) -> None:
    # A megabyte usually takes 0.3 s, and a quadratic parser would take many minutes: the bound lies between
    # the two with room for a slow and busy machine.
    started = time.process_time()
    parse(text, mode=mode)
    assert time.process_time() - started < 20


def test_unknown_names_say_what_is_known() -> None:
    with pytest.raises(RlcrError, match="unknown format 'confidnce': did you mean confidence"):
        get_format("confidnce")
    with pytest.raises(RlcrError, match="unknown mode"):
        parse("x", mode="loose")  # pyright: ignore[reportArgumentType]
    with pytest.raises(RlcrError, match="has the parts think, answer"):
        FORMATS["rlvr"].render(think="x")


# --- ordinary text ----------------------------------------------------------------------------------

ORDINARY = {
    "The answer is **17**.": "17", "**17**": "17", "17.": "17", "Answer: 17": "17", "**Answer:** 17": "17",
    "#### 17": "17", r"We get \boxed{\frac{1}{2}}, as asked.": r"\frac{1}{2}", "(B)": "(B)", "B) library": "B) library",
    "First this.\nThe answer is 3.\nNo: the final answer is\n\n**17**\n": "17",
    "<think>so</think>\nFinal answer: **B) library**\n<confidence>0.8</confidence>": "B) library",
    "<ANSWER>17</ANSWER>": "17", "< Answer >17</ Answer >": "17",
    # Not an answer: thoughts, text without one, an answer that never comes.
    "<think>The answer is 5": None, "Some text.\nAnd more.": None, "First line.\nThe answer is": None, r"\boxed{}": None,
    "x" * 201: None,
    # What stands in its tag is the answer, whatever else is said.
    "<answer>3</answer> So the answer is 4.": "3",
}  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), ORDINARY.items(), ids=list(map(repr, ORDINARY)))
def test_lenient_reading_finds_answers_in_ordinary_text(text: str, answer: str | None) -> None:
    response = parse(text, mode="lenient")
    assert response.answer == answer
    if answer is not None:
        counted = {"untagged-answer", "loose-tags"} & set(response.leniencies)
        assert len(counted) == (0 if "<answer>" in text else 1)
    strict = parse(text)
    assert (strict.answer, strict.well_formed) == (None, False)


def test_a_prompt_that_opened_the_thought_leaves_no_ordinary_text() -> None:
    assert parse("Hm. The answer is 5.", mode="lenient", think_open=True).answer is None


def test_strict_tags_are_lower_case() -> None:
    response = parse(GOOD.replace("answer", "ANSWER"))
    assert (response.well_formed, response.fault) == (False, "missing <answer>")
