"""The one core of all adapters: what a completion is worth, whatever engine asks.

    Scorer(reward="rlcr", verifier="math").score([Row(completion, gold), …])   totals, parts, verdicts
    Scorer(…).grade([Row(completion, gold), …])                                records, as `rlcr score` makes

``score`` is for training and reads strictly; ``grade`` is for evaluation and reads leniently. Both are the
functions that `rlcr train` and `rlcr score` call (:mod:`rlcr.reward`, :mod:`rlcr.evaluate.grade`), on what
engines hand over: texts, messages, numpy values, JSON.

No completion makes it raise. One that is no text (NaN, None, a number) is unscorable, since no model writes
that; so is a row whose gold or extras are of the wrong kind. A mistake in the settings raises
:class:`~rlcr.errors.RlcrError`, when the scorer is made where that is possible; one in what a row sets for
itself (a verifier that does not exist) names the row.

A scorer holds its settings and nothing else: it can be pickled for a Ray worker and used from any thread; the
processes that compare formulas are shared by all of them. In a coroutine use :meth:`Scorer.score_async`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

from rlcr.adapters.texts import completion_text, plain
from rlcr.errors import RlcrError, described, named, nearest, shortened
from rlcr.evaluate.grade import grade
from rlcr.problem import Problem, as_texts
from rlcr.prompts import opens_think
from rlcr.response import Response, parse
from rlcr.reward import Reward, Scored, get_reward
from rlcr.runs.record import Record, Sampled
from rlcr.tasks.plumbing.choices import letter_and_text
from rlcr.tasks.plumbing.options import named_option, options_of
from rlcr.verify import BadProblem, get_verifier

log = logging.getLogger(__name__)

T = TypeVar("T")

#: What becomes of a completion that nobody can judge: no total at all, or a constant.
Unscorable = Literal["exclude"] | float


@dataclass(frozen=True, slots=True)
class Row:
    """One completion with what is needed to judge it, as an engine hands it over.

    ``completion`` is a text, a message or a list of messages. ``gold`` is a text, a number or a list of
    aliases. ``extras`` are those of a :class:`~rlcr.problem.Problem`: ``choices`` for multiple choice, a
    mapping or a list. ``verifier`` and ``think_open`` are the scorer's where None.
    """

    completion: object
    gold: object
    question: str = ""
    extras: object = None
    verifier: str | None = None
    think_open: bool | None = None
    id: str = ""

    @classmethod
    def of(cls, completion: object, gold: object, about: object) -> Row:
        """A row of which an engine passes a mapping with the rest: the fields above by name, and extras.

        >>> Row.of("…", "B", {"verifier": "choice", "choices": ["bank", "library"]}).verifier
        'choice'
        """
        if not isinstance(about, Mapping):
            return cls(completion, gold, extras=about)
        extras = dict(about)
        own = {name: extras.pop(name, None) for name in ("question", "verifier", "think_open", "id")}
        return cls(
            completion,
            gold,
            question=own["question"],
            extras=extras,
            verifier=own["verifier"],
            think_open=own["think_open"],
            id="" if own["id"] is None else str(own["id"]),
        )

    @classmethod
    def labelled(cls, completion: object, prompt: object, label: object) -> Row:
        """A row of an engine that knows prompts and labels.

        A label is the gold, or an object (as JSON, or already read) with ``gold`` and what else a row has;
        one without ``gold`` makes its row unscorable. The prompt, where it is a text, says whether it ends
        inside ``<think>``.

        >>> row = Row.labelled("2</think>…", "1 + 1? <think>", '{"gold": "2", "verifier": "math"}')
        >>> row.gold, row.verifier, row.think_open
        ('2', 'math', True)
        """
        about: dict[str, Any] = {}
        if isinstance(prompt, str) and opens_think(prompt):
            about["think_open"] = True
        if isinstance(label, str) and label.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):  # a set or a formula is no JSON
                label = json.loads(label)
        if isinstance(label, Mapping) and "gold" in label:
            rest = {name: value for name, value in label.items() if name != "gold"}
            return cls.of(completion, label["gold"], about | rest)
        return cls.of(completion, label, about)


@dataclass(frozen=True, slots=True)
class Rewarded:
    """What a completion is worth.

    ``total`` is None only for an unscorable completion under ``unscorable="exclude"``. ``parts`` are finite,
    before weights, and the same ones for every completion of a scorer.
    """

    total: float | None
    parts: Mapping[str, float]
    confidence: float | None
    correct: bool | None
    """None where unscorable."""
    scorable: bool
    well_formed: bool
    reason: str
    """Why it is malformed, wrong or unscorable, where that is not obvious."""
    answer: str | None

    def to_dict(self) -> dict[str, float | None]:
        """Numbers for an engine's log: always the same keys, never NaN.

        Verdict and confidence are None where there are none, so that no mean takes them for 0.
        """
        return {
            "reward": self.total,
            **self.parts,
            "correct": None if self.correct is None else float(self.correct),
            "confidence": self.confidence,
            "unscorable": float(not self.scorable),
        }


@dataclass(frozen=True)
class Scorer:
    """A reward with what it needs to know about the completions of a data set.

    ``reward`` names a preset of :data:`rlcr.reward.REWARDS`; ``format`` and ``weights`` change its tag set
    and the weights of its parts. ``verifier`` compares answers where a row names none. ``think_open`` says
    that prompts end inside ``<think>``. ``unscorable`` is "exclude", for engines that leave out a completion
    without a reward, or the constant that the others get; both are logged. ``special_tokens`` are cut from
    the ends of completions beside those that are known by their looks.

    >>> scorer = Scorer(verifier="math")
    >>> text = "<think>…</think><answer>0.5</answer><analysis>…</analysis><confidence>0.8</confidence>"
    >>> one = scorer.score_one(text + "<|im_end|>", "1/2")
    >>> one.total, one.parts["correctness"], one.confidence, one.scorable
    (0.98, 1.0, 0.8, True)
    >>> scorer.score_one(float("nan"), "1/2").reason
    "the completion is no text: float 'nan'"
    """

    reward: str = "rlcr"
    verifier: str = "exact"
    format: str | None = None
    weights: Mapping[str, float] | None = None
    think_open: bool = False
    unscorable: Unscorable = "exclude"
    special_tokens: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._reward()
        get_verifier(self.verifier)
        given: object = self.unscorable
        constant = isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given)
        if not constant and given != "exclude":
            raise RlcrError(f'unscorable: expected "exclude" or a finite number, got {given!r}')
        if isinstance(self.special_tokens, str) or not isinstance(self.think_open, bool):
            raise RlcrError("special_tokens is a list of texts, and think_open is true or false")

    @classmethod
    def of(cls, settings: Mapping[str, Any], **defaults: Any) -> Scorer:
        """A scorer from an engine's settings, over the adapter's defaults; an unknown name raises.

        >>> Scorer.of({"verifier": "math"}, unscorable=0.0).unscorable
        0.0
        """
        known = [one.name for one in fields(cls)]
        for name in settings:
            if name not in known:
                raise RlcrError(f"unknown setting {name!r}: {nearest(str(name), known)}")
        return cls(**{**defaults, **settings})

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of the reward, in order."""
        return tuple(self._reward().weights)

    def score(self, rows: Sequence[Row]) -> list[Rewarded]:
        """The reward of each completion, in order. All are verified at once: a large batch is fastest."""
        return _apart(self._score, self._take_all(rows))

    def _score(self, taken: Sequence[_Taken]) -> list[Rewarded]:
        reward = self._reward()
        responses = [
            _broken(one.text_fault)
            if one.text_fault
            else parse(one.text, reward.format, think_open=one.think_open)
            for one in taken
        ]
        scored = reward.judge(responses, [one.problem for one in taken])
        return [self._rewarded(number, one, scored) for number, one in enumerate(taken)]

    def _rewarded(self, number: int, taken: _Taken, scored: Scored) -> Rewarded:
        response, verdict = scored.responses[number], scored.verdicts[number]
        # A malformed response is not right, even where its gold is broken and the verdict says that.
        total, correct, reason = float(scored.rewards.total[number]), bool(verdict.correct), response.fault
        scorable = bool(scored.rewards.scorable[number])
        if not scorable:
            reason = taken.gold_fault or verdict.reason
            total, correct = None if self.unscorable == "exclude" else float(self.unscorable), None
            _note(reason, total)
        elif response.well_formed:
            reason = verdict.reason
        return Rewarded(
            total=total,
            parts={name: float(values[number]) for name, values in scored.rewards.parts.items()},
            confidence=response.confidence,
            correct=correct,
            scorable=scorable,
            well_formed=response.well_formed,
            reason=reason,
            answer=response.answer,
        )

    def score_one(
        self,
        completion: object,
        gold: object,
        *,
        question: str = "",
        extras: object = None,
        verifier: str | None = None,
        think_open: bool | None = None,
    ) -> Rewarded:
        """The reward of one completion."""
        return self.score([Row(completion, gold, question, extras, verifier, think_open)])[0]

    async def score_async(self, rows: Sequence[Row]) -> list[Rewarded]:
        """:meth:`score` in a thread of its own, so that an event loop goes on while formulas are compared."""
        return await asyncio.to_thread(self.score, rows)

    def grade(self, rows: Sequence[Row]) -> list[Record]:
        """Records as `rlcr score` makes them: read leniently, with the verdict on the answer."""
        return _apart(self._grade, self._take_all(rows))

    def _grade(self, taken: Sequence[_Taken]) -> list[Record]:
        format = self._reward().format
        samples = [
            Sampled(
                id=one.problem.id, sample=0, task="", format=format, text=one.text, think_open=one.think_open
            )
            for one in taken
        ]
        records = grade(samples, [one.problem for one in taken], "strict", None)
        for number, one in enumerate(taken):
            if fault := one.text_fault or one.gold_fault:
                records[number] = replace(records[number], verdict="unscorable", reason=fault)
            if records[number].correct is None:
                _note(records[number].reason, None)
        return records

    def _reward(self) -> Reward:
        return get_reward(self.reward, format=self.format, weights=self.weights)

    def _take_all(self, rows: Sequence[Row]) -> list[_Taken]:
        """Rows in our own terms; a mistake in what one of them asks for is raised with its place."""
        taken: list[_Taken] = []
        for number, row in enumerate(rows):
            try:
                taken.append(self._take(row))
            except RlcrError as error:
                name = f" ({shortened(str(row.id), 80)})" if row.id else ""
                raise RlcrError(f"row {number}{name}: {error}") from None
        return taken

    def _take(self, row: Row) -> _Taken:
        text, text_fault, gold, extras, gold_fault = "", "", (), {}, ""
        try:
            text = completion_text(row.completion, self.special_tokens)
        except ValueError as error:
            text_fault = str(error)
        except Exception as error:  # an object of an engine may do anything when it is read
            text_fault = f"the completion cannot be read: {named(error)}"
        verifier = self.verifier if row.verifier in (None, "") else row.verifier
        get_verifier(verifier)
        try:
            gold, extras = _with_options(_golds(row.gold), _extras(row.extras), verifier)
        except ValueError as error:
            gold_fault = str(error)  # without a gold every verifier says unscorable
        except Exception as error:
            gold_fault = f"gold or extras cannot be read: {named(error)}"
        question = row.question if isinstance(row.question, str) else ""
        problem = Problem(str(row.id), question, gold, verifier, extras=extras)
        think_open = self.think_open if row.think_open is None else _true_or_false(row.think_open)
        return _Taken(text, problem, think_open, text_fault, gold_fault)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A row in our own terms, with what is wrong with it."""

    text: str
    problem: Problem
    think_open: bool
    text_fault: str
    gold_fault: str

    def without_gold(self, fault: str) -> _Taken:
        """The same with a problem that no verifier can score, for this reason."""
        problem = replace(self.problem, gold=(), verifier="exact")
        return replace(self, problem=problem, gold_fault=fault)


def _apart(judge: Callable[[Sequence[_Taken]], list[T]], taken: Sequence[_Taken]) -> list[T]:
    """What is judged of rows, by halves where a verifier refuses a problem, until only that one is left."""
    try:
        return judge(taken)
    except BadProblem as error:
        if len(taken) == 1:
            return judge([taken[0].without_gold(str(error))])
        half = len(taken) // 2
        return [*_apart(judge, taken[:half]), *_apart(judge, taken[half:])]


def _broken(fault: str) -> Response:
    """A row that nothing is known of, in the way in which the parser says so."""
    return Response("", {}, None, fault=fault, error=fault)


def _golds(gold: object) -> tuple[str, ...]:
    if isinstance(gold, Mapping):
        keys = shortened(", ".join(map(str, gold)), 80) or "none"
        raise ValueError(
            f"as gold expected a text, found an object without the key gold: its keys are {keys}"
        )
    try:
        return as_texts(plain(gold))
    except ValueError as error:
        raise ValueError(f"as gold {error}") from None


def _extras(extras: object) -> dict[str, Any]:
    extras = plain(extras)
    if extras is None:
        return {}
    if not isinstance(extras, Mapping):
        raise ValueError(f"extras: expected a mapping, found {described(extras)}")
    return {str(name): plain(value) for name, value in extras.items() if value is not None}


def _true_or_false(think_open: object) -> bool:
    """What a row says of its prompt: the text "false" must not count as true."""
    if plain(think_open) not in (True, False):
        raise RlcrError(f"think_open: expected true or false, found {described(think_open)}")
    return bool(think_open)


def _with_options(
    golds: tuple[str, ...], extras: dict[str, Any], verifier: str
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Golds and extras with the options by letter, as every task with options has them."""
    if "choices" not in extras:
        return golds, extras
    choices = extras["choices"]
    if isinstance(choices, Mapping):
        # A table of rows with different options fills up the missing ones with nulls.
        choices = {str(label): plain(text) for label, text in choices.items() if text is not None}
    try:
        options = options_of(choices)
    except ValueError as error:
        raise ValueError(f"choices: {error}; found {described(extras['choices'])}") from None
    letters = named_option(golds, options) if verifier == "choice" else None
    if letters:
        golds = tuple(letter_and_text(letter, options.texts) for letter in letters)
    return golds, extras | {"choices": options.texts}


_count = itertools.count(1)  # whose next() no other thread can interrupt


def _note(reason: str, total: float | None) -> None:
    """Log an unscorable completion: the 1st, 10th, 100th, …, so that no log is flooded."""
    count = next(_count)
    if count == 10 ** (len(str(count)) - 1):
        outcome = "left out" if total is None else f"given {total:g}"
        log.warning("%d unscorable so far, %s; the last one: %s", count, outcome, reason or "no reason given")


def needs_constant(scorer: Scorer, engine: str) -> Scorer:
    """The scorer, for an engine that has to give every completion a number."""
    if scorer.unscorable == "exclude":
        raise RlcrError(f"{engine} cannot leave out a completion: set unscorable to a number, such as 0")
    return scorer
