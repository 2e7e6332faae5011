"""The methods of the paper, as ways to evaluate a model: a prompt, a tag set, and an extraction pipeline.

The pipeline is one for all of them. The response is read leniently; where no answer can be read the model is
made to give one by a forced continuation, and likewise for the confidence, which models trained without a
confidence tag (RLVR) never state by themselves. Forced replies are read here too. Every repair is counted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from rlcr.errors import RlcrError, nearest
from rlcr.response import UNTAGGED_ANSWER, Response, parse, read_confidence
from rlcr.verify import Grading

#: What the paper appends to a response without a valid answer or confidence, and the tokens it allows.
FORCED_ANSWER = "Thinking time ended. My final answer is"
FORCED_CONFIDENCE = (
    "Thinking time ended. My verbalized confidence in my answer as a number between 0 and 100 is equal to"
)
FORCED_TOKENS = {"answer": 50, "confidence": 20}

#: Beside the weights of a trained model: the method it was trained for.
METHOD_FILE = "rlcr.json"
#: Likewise, the prompt it was trained with, where that was the user's own.
PROMPT_FILE = "rlcr-prompt.txt"


@dataclass(frozen=True, slots=True)
class Method:
    """A prompt and the tag set it asks for, by which a model is evaluated."""

    name: str
    prompt: str
    format: str
    about: str


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("base", "base", "confidence", "a model that was not trained to state confidence"),
        Method("rlvr", "rlvr", "rlvr", "trained on correctness; its confidence is asked for afterwards"),
        Method("rlcr", "rlcr", "rlcr", "trained with a calibration reward, simple prompt"),
        Method("rlcr-long", "rlcr-long", "rlcr", "the same with the seven guidelines for the analysis"),
        Method("rlcr-no-analysis", "rlcr-no-analysis", "confidence", "the same without the analysis"),
        Method("rlvr-with-analysis", "rlcr-long", "rlcr", "an RLVR model asked to analyse as RLCR does"),
        Method("rlcr-careful", "rlcr-careful", "rlcr", "warned not to put arbitrary numbers in the answer"),
        Method("rlcr-short", "rlcr-short", "confidence", "without the analysis, in one line; small models"),
        Method("rlvr-short", "rlvr-short", "rlvr", "RLVR's tags, asked for in one line; small models"),
        Method("abstention", "never-abstain", "rlvr", "trained to abstain, told never to"),
    )
}


def get_method(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise RlcrError(f"unknown method {name!r}: {nearest(name, list(METHODS))}")
    return METHODS[name]


def stored_method(model: str) -> Method | None:
    """The method that a training run stored with its model, with its own prompt if it had one; else None."""
    path = Path(model) / METHOD_FILE
    if not path.is_file():
        return None
    try:
        method = get_method(json.loads(path.read_text(encoding="utf-8"))["method"])
    except (ValueError, KeyError, TypeError):
        raise RlcrError(f'{path}: expected {{"method": NAME}}; give --method instead') from None
    prompt = path.with_name(PROMPT_FILE)
    return replace(method, prompt=str(prompt)) if prompt.is_file() else method


def needs_answer(response: Response) -> bool:
    """Whether a leniently read response holds no valid answer, in its tag and not cut off."""
    return not response.answer or not {"unclosed-answer", UNTAGGED_ANSWER}.isdisjoint(response.leniencies)


def needs_confidence(response: Response) -> bool:
    """Whether a leniently read response holds no confidence that can be read."""
    return response.confidence is None


def forced_prefix(part: str, text: str, forced_answer: str | None) -> str:
    """What the model is made to continue for an answer or a confidence, after what was forced before."""
    if part == "confidence" and forced_answer is not None:
        text += f"\n\n{FORCED_ANSWER}{forced_answer}"
    return f"{text}\n\n{FORCED_ANSWER if part == 'answer' else FORCED_CONFIDENCE}"


def read_forced_answer(text: str) -> str:
    r"""The answer in a forced continuation: inside tags if it has them, else its first line.

    >>> read_forced_answer(" 42.\n\nSo that"), read_forced_answer(": <answer>42</answer>")
    ('42', '42')
    """
    start, end = forced_answer_span(text)
    return text[start:end]


def forced_answer_span(text: str) -> tuple[int, int]:
    """Where :func:`read_forced_answer` reads: the characters of the answer."""
    tagged = parse(text, "rlvr", mode="lenient")
    if tagged.answer and UNTAGGED_ANSWER not in tagged.leniencies:
        return answer_span(tagged)
    line = re.split(r"\n|</?[a-z]+>", text.strip().removeprefix(":").strip(), maxsplit=1)[0]
    answer = line.strip().removesuffix(".")
    # Only white space and a colon come before it, so that the first place is the place.
    start = text.find(answer)
    return start, start + len(answer)


def answer_span(response: Response) -> tuple[int, int]:
    """The characters of a response's answer, without the white space around it."""
    start, end = response.spans["answer"]
    start += len(response.text[start:end]) - len(response.text[start:end].lstrip())
    return start, start + len(response.answer or "")


def read_forced_confidence(text: str, grading: Grading = "strict") -> float | None:
    """The confidence in a forced continuation, which was asked for on a scale of 0 to 100.

    The authors read "1" there as certainty. Strictly it is one in a hundred; a number below 1 that has a
    decimal point ("0.9") is taken as a share, since nine tenths of a percent is never meant.

    >>> read_forced_confidence(" 85."), read_forced_confidence("1"), read_forced_confidence("1", "paper")
    (0.85, 0.01, 1.0)
    >>> read_forced_confidence("0.9"), read_forced_confidence(" unsure")
    (0.9, None)
    """
    if grading == "paper":
        return parse(f"<confidence>{text}</confidence>", mode="paper").confidence
    value, how = read_confidence(text)
    stated = re.search(r"[0-9][0-9.]*", text)
    if value == 1.0 and how in ("", "extra-text") and stated and stated.group().rstrip(".") == "1":
        return 0.01
    return value
