"""The response format and its one parser.

A response is a row of tagged parts, ``<think>…</think><answer>…</answer>…``. Which parts, is the
*tag set* (:data:`FORMATS`); how a model is asked for them is a *prompt* (:mod:`rlcr.prompts`).

Three readings of the same text:

``strict``   for training. All tags of the set, in order, once each, nothing but white space outside,
             and a confidence that is an ASCII decimal in [0, 1]. Otherwise the response is malformed
             and has no parts.
``lenient``  for evaluation. Reads what can be read and names every rule it had to bend
             (:attr:`Response.leniencies`). The last *top-level* block of a tag wins, so an
             ``<answer>`` quoted inside ``<analysis>`` is never graded. ``<ANSWER>`` is a tag too. Where
             there is none for the answer, ordinary text may hold it ("The answer is **17**.").
``paper``    the authors' evaluation reading, kept so that published numbers can be reproduced: the last
             block anywhere wins, and a confidence that cannot be read is 0.

Whatever ``strict`` accepts, ``lenient`` reads in the same way, and so does ``paper`` for the parts of the tag
set (it reads a confidence even where the set has none). Every reading takes time linear in the
length of the text, whatever the text is.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from rlcr.errors import RlcrError, named, nearest

log = logging.getLogger(__name__)

Mode = Literal["strict", "lenient", "paper"]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A tag set: the names of the parts of a response, in the order in which they must come."""

    name: str
    tags: tuple[str, ...]

    def render(self, between: str = "\n", /, **parts: str) -> str:
        r"""Write a well-formed response, one part a line, or with something else ``between`` the parts.

        >>> FORMATS["rlvr"].render(think="2 + 2", answer="4")
        '<think>2 + 2</think>\n<answer>4</answer>'
        """
        if set(parts) != set(self.tags):
            raise RlcrError(
                f"format {self.name} has the parts {', '.join(self.tags)}; got {', '.join(parts) or 'none'}"
            )
        return between.join(f"<{tag}>{parts[tag]}</{tag}>" for tag in self.tags)


FORMATS: dict[str, ResponseFormat] = {
    "rlvr": ResponseFormat("rlvr", ("think", "answer")),
    "confidence": ResponseFormat("confidence", ("think", "answer", "confidence")),
    "rlcr": ResponseFormat("rlcr", ("think", "answer", "analysis", "confidence")),
}
TAGS = FORMATS["rlcr"].tags


def get_format(name: str) -> ResponseFormat:
    """The tag set of that name."""
    if name not in FORMATS:
        raise RlcrError(f"unknown format {name!r}: {nearest(name, list(FORMATS))}")
    return FORMATS[name]


@dataclass(frozen=True, slots=True)
class Response:
    """A parsed response.

    ``spans`` gives, for each part that was found, the characters between its tags (loss masks and
    answer probability need them). ``fault`` is the first rule of the strict reading that the text
    breaks, empty when it is well-formed. ``leniencies`` names what the reading had to bend. ``error`` is
    set where the parser itself failed: nothing is known of such a text, so it is unscorable, not wrong.
    """

    text: str
    spans: Mapping[str, Span]
    confidence: float | None
    fault: str = ""
    leniencies: tuple[str, ...] = ()
    error: str = ""

    @property
    def well_formed(self) -> bool:
        """Whether the text passes the strict reading."""
        return not self.fault

    def part(self, tag: str) -> str | None:
        """The text of a part without surrounding white space, or None where it was not found."""
        if tag not in self.spans:
            return None
        start, end = self.spans[tag]
        return self.text[start:end].strip()

    @property
    def answer(self) -> str | None:
        """The text to be verified, or None."""
        return self.part("answer")


def parse(text: str, format: str = "rlcr", *, mode: Mode = "strict", think_open: bool = False) -> Response:
    """Read a response.

    ``think_open`` says that the prompt already ends with an opening ``<think>`` (some chat templates
    put it there), so that the response begins inside it.

    No text raises. One that the parser fails on, which is a bug, has :attr:`Response.error`: a run over
    thousands of completions must not end at the one that meets it.

    >>> r = parse("<think>6 x 7</think><answer>42</answer><confidence>0.9</confidence>", "confidence")
    >>> r.answer, r.confidence, r.well_formed
    ('42', 0.9, True)
    >>> parse("<answer>42</answer><confidence>90%</confidence>", "confidence").fault
    'missing <think>'
    >>> r = parse("<answer>42</answer><confidence>90%</confidence>", "confidence", mode="lenient")
    >>> r.answer, r.confidence, r.leniencies
    ('42', 0.9, ('missing-think', 'percent'))
    """
    tag_set = get_format(format)
    if mode not in get_args(Mode):
        raise RlcrError(f"unknown mode {mode!r}: {nearest(mode, list(get_args(Mode)))}")
    try:
        return _parse(text, tag_set, mode, think_open)
    except Exception as error:
        reason = f"the parser failed: {named(error)}"
        log.debug("%s", reason, exc_info=True)
        return Response(text, {}, None, fault=reason, error=reason)


def _parse(text: str, tag_set: ResponseFormat, mode: Mode, think_open: bool) -> Response:
    response = _parse_strict(text, tag_set, think_open)
    if mode == "paper":
        return _parse_paper(text, response.fault)
    if mode == "strict" or response.well_formed:
        return response
    return _parse_lenient(text, tag_set, think_open, response.fault)


def with_thought(thought: str, rest: str, *, finished: bool = True) -> str:
    """One text of a thought and what follows it, which servers with a reasoning parser hand over apart.

    >>> with_thought("6 x 7", "<answer>42</answer>")
    '<think>6 x 7</think><answer>42</answer>'
    """
    return f"<think>{thought}</think>{rest}" if finished else f"<think>{thought}{rest}"


# --- strict -----------------------------------------------------------------------------------------

_TAG = re.compile(r"<(/?)(think|answer|analysis|confidence)>")
_LOOSE_TAG = re.compile(r"<[ \t]?(/?)[ \t]?(think|answer|analysis|confidence)[ \t]?>", re.IGNORECASE)
_DECIMAL = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\Z")
# More digits than any float holds. The cap keeps a megabyte of digits from being converted.
_LONGEST_NUMBER = 400


def _parse_strict(text: str, tag_set: ResponseFormat, think_open: bool) -> Response:
    expected = [(slash, tag) for tag in tag_set.tags for slash in ("", "/")]
    spans: dict[str, Span] = {}
    position, inside, step = 0, None, 0
    if think_open and not text.lstrip().startswith("<think>"):
        inside, step = "think", 1
    for match in _TAG.finditer(text):
        slash, tag = match.groups()
        if tag not in tag_set.tags:
            if inside is None:
                return _malformed(text, f"<{slash}{tag}> is not a tag of format {tag_set.name}")
            continue
        if step == len(expected) or (slash, tag) != expected[step]:
            return _malformed(text, _tag_fault(slash, tag, expected, step))
        if slash:
            spans[tag] = (position, match.start())
            inside = None
        else:
            if not _blank(text[position : match.start()]):
                return _malformed(text, f"text before <{tag}>")
            inside = tag
        position = match.end()
        step += 1
    if step < len(expected):
        return _malformed(text, "missing <{}{}>".format(*expected[step]))
    if not _blank(text[position:]):
        return _malformed(text, f"text after </{tag_set.tags[-1]}>")
    if "confidence" not in tag_set.tags:
        return Response(text, spans, None)
    start, end = spans["confidence"]
    stated = text[start:end].strip()
    if len(stated) > _LONGEST_NUMBER or not _DECIMAL.match(stated) or float(stated) > 1:
        return _malformed(text, f"confidence {_shorten(stated)!r} is not a decimal from 0 to 1")
    return Response(text, spans, float(stated))


def _malformed(text: str, fault: str) -> Response:
    return Response(text, {}, None, fault)


def _blank(text: str) -> bool:
    return not text or text.isspace()


def _shorten(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _tag_fault(slash: str, tag: str, expected: list[tuple[str, str]], step: int) -> str:
    if (slash, tag) in expected[:step]:
        return f"<{slash}{tag}> more than once"
    return "missing <{}{}>".format(*expected[step])


# --- lenient ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Blocks:
    """All blocks of one tag at the top level of a text."""

    closed: list[Span] = field(default_factory=list)
    unclosed: list[Span] = field(default_factory=list)


#: A tag of a text: its name, whether it closes, where it starts and where it ends.
_Token = tuple[str, bool, int, int]


def _parse_lenient(text: str, tag_set: ResponseFormat, think_open: bool, fault: str) -> Response:
    tags = list(_LOOSE_TAG.finditer(text))
    tokens: list[_Token] = [(m[2].lower(), bool(m[1]), m.start(), m.end()) for m in tags]
    leniencies = [] if all(map(_TAG.fullmatch, (m[0] for m in tags))) else ["loose-tags"]
    if think_open and not text.lstrip().startswith("<think>"):
        tokens.insert(0, ("think", False, 0, 0))
    blocks, outside = _top_level_blocks(text, tokens)
    spans: dict[str, Span] = {}
    for tag in TAGS:
        block = blocks[tag]
        if block.closed:
            spans[tag] = block.closed[-1]
        elif block.unclosed:
            spans[tag] = block.unclosed[-1]
            leniencies.append(f"unclosed-{tag}")
        elif tag == "answer" and (untagged := _untagged_answer(text, outside)):
            spans[tag] = untagged
            leniencies.append(UNTAGGED_ANSWER)
        elif tag in tag_set.tags:
            leniencies.append(f"missing-{tag}")
        if len(block.closed) > 1:
            leniencies.append(f"repeated-{tag}")
        if tag in spans and tag not in tag_set.tags:
            leniencies.append(f"extra-{tag}")
    starts = [spans[tag][0] for tag in TAGS if tag in spans]
    if starts != sorted(starts):
        leniencies.append("wrong-order")
    if outside:
        leniencies.append("outside-text")
    confidence = None
    if "confidence" in spans:
        start, end = spans["confidence"]
        confidence, how = read_confidence(text[start:end])
        leniencies += [how] if how else []
    return Response(text, spans, confidence, fault, tuple(leniencies))


def _top_level_blocks(text: str, tokens: list[_Token]) -> tuple[dict[str, _Blocks], list[Span]]:
    """Find the blocks that are in no other block, and the text outside all of them.

    A block runs from an opening tag to the next closing tag of the same name; whatever is between
    belongs to it. An opening tag that is never closed opens nothing, so that a forgotten ``</think>``
    does not swallow the answer: its text runs to the next tag of any name.
    """
    # For each tag, the tokens that close it, nearest last, so that finding the next is one pop.
    closings: dict[str, list[int]] = {tag: [] for tag in TAGS}
    for index in reversed(range(len(tokens))):
        tag, closes, _, _ = tokens[index]
        if closes:
            closings[tag].append(index)

    blocks = {tag: _Blocks() for tag in TAGS}
    outside: list[Span] = []
    index, position = 0, 0
    while index < len(tokens):
        tag, closes, start, end = tokens[index]
        outside.append((position, start))
        position = end
        ahead = closings[tag]
        while ahead and ahead[-1] <= index:
            ahead.pop()
        if not closes and ahead:
            index = ahead[-1]
            blocks[tag].closed.append((end, tokens[index][2]))
            position = tokens[index][3]
        elif not closes:
            position = tokens[index + 1][2] if index + 1 < len(tokens) else len(text)
            blocks[tag].unclosed.append((end, position))
        index += 1
    outside.append((position, len(text)))
    return blocks, [span for span in outside if not _blank(text[slice(*span)])]


#: The leniency of an answer that stands in ordinary text. A model is still made to give one in its tag.
UNTAGGED_ANSWER = "untagged-answer"
_BOX = re.compile(r"\\boxed\{")
_SAYS_ANSWER = re.compile(
    r"(?:\banswer\b(?:[ \t]+(?:is|would be|must be)\b|[*_]{0,2}[ \t]*:)|####)(?:[ \t]*:)?[\s*_`]*",
    re.IGNORECASE,
)
_AROUND = " \t\r\n*_`"
#: A response of one line that is not longer is an answer and nothing else.
_LONGEST_ANSWER = 200


def _untagged_answer(text: str, outside: list[Span]) -> Span | None:
    r"""Where ordinary text outside the tags states an answer: the last ``\boxed{…}``, what follows the last
    "the answer is" or "Answer:" on its line, or a response of one line without any tag as a whole.
    """
    for start, end in reversed(outside):
        part = text[start:end]
        boxes, said = (list(pattern.finditer(part)) for pattern in (_BOX, _SAYS_ANSWER))
        if boxes:
            inside = boxes[-1].end()
            return _trimmed(text, start + inside, start + _closing_brace(part, inside))
        if said:
            line = part[said[-1].end() :].partition("\n")[0]
            begin = start + said[-1].end()
            if not _blank(line.strip(_AROUND)):
                return _trimmed(text, begin, begin + len(line))
    whole = text.strip()
    if outside == [(0, len(text))] and len(whole) <= _LONGEST_ANSWER and "\n" not in whole:
        return _trimmed(text, 0, len(text))
    return None


def _closing_brace(text: str, start: int) -> int:
    """Where the brace closes that was opened just before ``start``; the end of the text if it never does."""
    level = 1
    for place in range(start, len(text)):
        level += {"{": 1, "}": -1}.get(text[place], 0)
        if level == 0:
            return place
    return len(text)


def _trimmed(text: str, start: int, end: int) -> Span | None:
    """A stretch without the space, the emphasis and the full stop around it; None if nothing is left."""
    stretch = text[start:end]
    start += len(stretch) - len(stretch.lstrip(_AROUND))
    end -= len(stretch) - len(stretch.rstrip(_AROUND + "."))
    return (start, end) if start < end else None


_NUMBER = re.compile(
    r"(?<![\w.])(-?(?:0,[0-9]+|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?)"  # 0.85  .5  0,85  1e-2
    r"\s*(%|percent\b|(?:/|out of)\s*([0-9]{1,9}))?"  # 85%  8/10  8 out of 10
)


def read_confidence(text: str) -> tuple[float | None, str]:
    """Read a stated confidence, and name the leniency that it took.

    A decimal in [0, 1] is taken as it is; ``85%`` and numbers in (1, 100] are hundredths; ``8/10`` is a
    fraction; ``0,85`` has a decimal comma; otherwise the first number in the text counts. What is
    outside [0, 1] after that, or holds no ASCII number, cannot be read.

    >>> read_confidence(" 0.85 "), read_confidence("85"), read_confidence("8/10")
    ((0.85, ''), (0.85, 'scale-100'), (0.8, 'fraction'))
    >>> read_confidence("about 0.9, I think"), read_confidence("very sure"), read_confidence("-1")
    ((0.9, 'extra-text'), (None, 'unreadable-confidence'), (None, 'unreadable-confidence'))
    """
    stated = text.strip()
    if not stated:
        return None, "empty-confidence"
    match = _NUMBER.search(stated[:_LONGEST_NUMBER])
    if match is None:
        return None, "unreadable-confidence"
    number, suffix, denominator = match.groups()
    value, how = float(number.replace(",", ".")), "decimal-comma" if "," in number else ""
    if suffix in ("%", "percent"):
        value, how = value / 100, "percent"
    elif suffix:
        value, how = (value / int(denominator) if int(denominator) else math.nan), "fraction"
    elif 1 < value <= 100:
        value, how = value / 100, "scale-100"
    if not 0 <= value <= 1:  # also catches nan
        return None, "unreadable-confidence"
    return value, how or ("" if match.group() == stated else "extra-text")


# --- paper ------------------------------------------------------------------------------------------


def _parse_paper(text: str, fault: str) -> Response:
    """Read as the authors' evaluation does: the last complete block of each tag, wherever it is."""
    spans = {tag: span for tag in TAGS if (span := _last_block(text, tag)) is not None}
    start, end = spans.get("confidence", (0, 0))
    confidence, how = _paper_confidence(text[start:end])
    return Response(text, spans, confidence, fault, (how,) if how else ())


def _last_block(text: str, tag: str) -> Span | None:
    opening, closing = f"<{tag}>", f"</{tag}>"
    last, position = None, 0
    while (start := text.find(opening, position)) >= 0:
        start += len(opening)
        end = text.find(closing, start)
        if end < 0:
            break
        last, position = (start, end), end + len(closing)
    return last


def _paper_confidence(stated: str) -> tuple[float, str]:
    """Anything Python's float() takes, else the first number; (1, 100] is divided by 100; else 0."""
    try:
        value, how = float(stated[:_LONGEST_NUMBER]), ""
    except ValueError:
        match = re.search(r"-?\d+(?:\.\d+)?", stated[:_LONGEST_NUMBER])
        value, how = (float(match.group()), "extra-text") if match else (math.nan, "")
    if 1 < value <= 100:
        return value / 100, "scale-100"
    return (value, how) if 0 <= value <= 1 else (0.0, "default-confidence")
