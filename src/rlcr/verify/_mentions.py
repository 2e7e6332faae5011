"""Which options does a sentence choose? For answers that are more than a letter and a text.

A sentence mentions options by letter: in brackets anywhere ("(B)", "b)"), bare only where a letter stands for
itself ("B or C", "it is B.", "Option B"), since "vitamin C" and "a bank" are text. A text counts as a mention
after "the answer is" or "but", and when "or" or "and" joins it to another mention. What stands inside the
text of an option ("city or town", "not healthy", "hepatitis B") says nothing about the choice.

A mention is denied by words before it ("not (A)", "neither", "rather than") or after it ("(A) is incorrect",
"(A) cannot be right"); two such words cancel out. Of an option that is mentioned twice, the last time counts.
If several remain, the sentence chooses the one it ends in after "so", "but", "the answer is" and the like,
unless it hedges ("but it could be C"); otherwise it chooses several. Options that are only described ("C is
loud") are chosen only if there is no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_MASK = "§"
#: Words that join mentions stand this near; looking no further keeps the time linear in the text.
_NEAR = 40
_LETTER = re.compile(
    r"(?<![A-Za-z(\[])[(\[]?(?P<marked>[A-Za-z])\s*[)\]]"
    r"|\b(?i:option|choice|answer)(?i: is)?\s*:?\s+[\"'“*]*(?P<named>[A-Z])(?![\w'’])"
    r"|(?<![\w'’.§-])(?P<bare>[A-Z])(?![\w'’-])"
)
# Words between which a bare letter is an option, and not a part of a name or a sentence's first word.
_BEFORE_BARE = re.compile(
    r"(?:^|[.;:,!?/&\n§()\[\]–—]|\b(?:or|and|nor|not|but|either|neither|both|than|of|is|be|it's|isn't|so|therefore|"
    r"thus|hence|pick|choose|select|with|say|think|between|probably|definitely|maybe|perhaps|also|then|n't))[\s\"'“*]*$",
    re.IGNORECASE,
)
_AFTER_BARE = re.compile(
    r"[\s\"'”*]*(?:$|[.;:,!?/&\n§)–—]|(?:or|and|nor|not|but|is|isn't|are|was|rather|instead|because|since|as|can|"
    r"cannot|can't|could|would|seems|looks|does|doesn't|which)\b)",
    re.IGNORECASE,
)
_LINK = re.compile(r"[\s\W]*(?:(?:and|or|nor|either)\b|[,/&])?[\s\W]*", re.IGNORECASE)
_JOINT = re.compile(r"\W*(?:and|or|nor)\W*", re.IGNORECASE)
_JOINS_TEXT = re.compile(r"\W*(?:and|or|nor|[/&])\W*(?:(?:the|an?)\s+)?", re.IGNORECASE)
_LEADS_TO_TEXT = re.compile(
    r"(?:\b(?:answer|choice|option)(?: is| would be| must be)?:?|\bbut(?: rather| it is)?:?)\s+"
    r"(?:(?:the|an?)\s+)?$",
    re.IGNORECASE,
)
_ARTICLE = re.compile(rf"A\s+{_MASK}")
_CLAUSE = re.compile(r"[.;,!?\n]|(?<!thing )(?<!all )\bbut\b|\bbecause\b|\bsince\b", re.IGNORECASE)
_NEUTRAL = re.compile(
    r"\b(?:no (?:doubt|question)|without (?:a |any )?doubt|not only|not (?:\w+ )?(?:sure|certain)"
    r"|nothing but)\b",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:not|never|neither|nor|none|cannot|wrong|incorrect(?:ly)?|false|invalid|unlikely|impossible|except|unlike|"
    r"exclud\w+|eliminat\w+|reject\w*|rul(?:ed?|es|ing) out|rather than|instead of|other than|"
    r"(?:anything|everything|all) but)\b|n['’]t\b",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"[\W_]*(?:which |that |it )?(?:is|isn['’]t|are|aren['’]t|was|wasn['’]t|were|seems|looks|sounds|can|"
    r"cannot|can['’]t|could|couldn['’]t|would|wouldn['’]t|does|doesn['’]t|do|did|didn['’]t|has|should|must|may)\b",
    re.IGNORECASE,
)
# "C is loud" describes an option, "C is the best answer" chooses it.
_APPROVAL = re.compile(
    r"\s*(?:(?:the|an?|also|most|more|very|probably|clearly|definitely)\s+)*"
    r"(?:correct|right|true|answer|best|good|better|likely|possible|plausible|it\b|the one)",
    re.IGNORECASE,
)
_PLAIN_NO = re.compile(r"[\W_]*(?:wrong|incorrect|false|no)\b", re.IGNORECASE)
_CONCLUSION = re.compile(
    r"(?<!\bor )(?<!\band )(?<!\bor the )(?<!\band the )"
    r"(?:\b(?:answer|choice|option)\b(?:\s+(?:is|would be|must be|should be|has to be)\b|\s*:)"
    r"|\b(?:so|therefore|thus|hence|finally|overall|but(?! also)|choose|pick|select|"
    r"go(?:ing)? with)\b)",
    re.IGNORECASE,
)
_HEDGE = re.compile(r"\b(?:also|possibl[ey]|could|might|maybe|perhaps)\b", re.IGNORECASE)


@dataclass
class _Mention:
    start: int
    end: int
    letter: str
    by_letter: bool = False
    denied: bool = False
    described: bool = False


def chosen(text: str, choices: Mapping[str, str], *, only_these: bool) -> set[str] | None:
    """The letters of the options that a sentence chooses; None if it mentions no option at all.

    ``only_these``: there are no other options than ``choices``.

    >>> options = {"A": "bank", "B": "library"}
    >>> [chosen(text, options, only_these=True) for text in ("not (A), but (B)", "not (B)", "no idea")]
    [{'B'}, set(), None]
    """
    # One space for many, but the end of a line stays one.
    text = re.sub(r"\s+", lambda space: "\n" if "\n" in space[0] else " ", text)
    masked, texts = _mask(text, choices)
    mentions = _mentions(masked, texts, set(choices) if only_these else None)
    if not mentions:
        return None
    _deny(masked, mentions)
    last = {mention.letter: mention for mention in mentions}
    affirmed = [mention for mention in last.values() if not mention.denied]
    affirmed = [mention for mention in affirmed if not mention.described] or affirmed
    if len(affirmed) > 1:
        for conclusion in reversed(list(_CONCLUSION.finditer(masked))):
            if concluded := [mention for mention in affirmed if mention.end > conclusion.end()]:
                hedged = _HEDGE.search(masked, conclusion.end())
                affirmed = affirmed if hedged else concluded
                break
    return {mention.letter for mention in affirmed}


def _mask(text: str, choices: Mapping[str, str]) -> tuple[str, list[_Mention]]:
    """The sentence with the texts of options blotted out, and where they were."""
    texts: list[_Mention] = []
    for letter, option in sorted(choices.items(), key=lambda choice: -len(choice[1])):
        if len(words := " ".join(option.split())) > 1:
            pattern = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)", re.IGNORECASE)
            texts += [_Mention(*match.span(), letter) for match in pattern.finditer(text)]
            text = pattern.sub(lambda match: _MASK * len(match[0]), text)
    return text, texts


def _mentions(masked: str, texts: list[_Mention], known: set[str] | None) -> list[_Mention]:
    """All mentions in order; one by letter reaches to the end of the text that follows it."""
    mentions: list[_Mention] = []
    # The texts are blotted out, so nothing overlaps.
    for mention in sorted([*_by_letter(masked, known), *texts], key=lambda mention: mention.start):
        if mention.by_letter:
            mentions.append(mention)
            continue
        gap = masked[mentions[-1].end : mention.start] if mentions else None
        if gap is not None and not re.search(r"\w", gap):
            mentions[-1].end = mention.end
        elif (gap and len(gap) <= _NEAR and _JOINS_TEXT.fullmatch(gap)) or (
            _LEADS_TO_TEXT.search(_just_before(masked, mention.start))
            and _AFTER_BARE.match(masked, mention.end)
        ):
            mentions.append(mention)
    return mentions


def _just_before(masked: str, place: int) -> str:
    return masked[max(0, place - _NEAR) : place]


def _by_letter(masked: str, known: set[str] | None) -> Iterator[_Mention]:
    for match in _LETTER.finditer(masked):
        group = match.lastgroup or "bare"
        letter = match[group].upper()
        # "A and F" names two options even where there is no F; "(s)" and "I" are options only if they exist.
        doubtful = match[group].islower() or letter == "I"
        if doubtful and letter not in (known or ()) and (known is not None or letter == "I"):
            continue
        if group == "bare" and not _stands_for_itself(masked, match):
            continue
        yield _Mention(match.start(group), match.end(), letter, by_letter=True)


def _stands_for_itself(masked: str, letter: re.Match[str]) -> bool:
    if _ARTICLE.match(masked, letter.start()):
        return False
    return bool(
        _BEFORE_BARE.search(_just_before(masked, letter.start())) and _AFTER_BARE.match(masked, letter.end())
    )


def _deny(masked: str, mentions: list[_Mention]) -> None:
    """Mark the mentions that are denied or merely described."""
    ends = [0, *(mention.end for mention in mentions)]
    gaps = [masked[end : mention.start] for end, mention in zip(ends, mentions, strict=False)]
    gaps.append(masked[ends[-1] :])
    for number, mention in enumerate(mentions):
        joined = number > 0 and len(gaps[number]) <= _NEAR and _JOINT.fullmatch(gaps[number])
        mention.denied = _is_negative(_CLAUSE.split(gaps[number])[-1])
        mention.denied |= bool(joined) and mentions[number - 1].denied
    for number in reversed(range(len(mentions))):
        after = gaps[number + 1]
        verb = _VERB.match(after)
        if _PLAIN_NO.match(after) or (verb and _is_negative(_predicate(after, verb))):
            mentions[number].denied = True
            # "(A), (C) and (D) are wrong"
            while number and len(gaps[number]) <= _NEAR and _LINK.fullmatch(gaps[number]):
                number -= 1
                mentions[number].denied = True
        elif verb:
            mentions[number].described = not _APPROVAL.match(after, verb.end())


def _predicate(after: str, verb: re.Match[str]) -> str:
    """The verb and the next three words of its clause: further on, the sentence speaks of something else."""
    return " ".join([verb[0], *_CLAUSE.split(after[verb.end() :])[0].split()[:3]])


def _is_negative(words: str) -> bool:
    return len(_NEGATIVE.findall(_NEUTRAL.sub(" ", words))) % 2 == 1
