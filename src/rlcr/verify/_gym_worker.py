"""The process in which reasoning-gym runs: makes problems, checks that a problem is one of them, and scores.

Scorers call ``eval`` and sympy's parser on golds and metadata as well as on answers, so :func:`score` is only
for problems that were made here or have passed :func:`check`. Settings end up in ``eval`` too (operators and
variables do), so they are numbers and known words, and nothing else.

Run as ``python -m rlcr.verify._gym_worker`` by :mod:`rlcr.verify.gym`, which says why it exists, under the
limits of :mod:`rlcr.verify._process`.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import random
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_args

from rlcr.errors import RlcrError, nearest
from rlcr.verify._process import serve

MEMORY_BYTES = 4 * 1024**3

Entry = dict[str, Any]
Reply = dict[str, Any]

#: Datasets that leave ``answer`` empty, and where they keep a right one.
_EXAMPLES: dict[str, Callable[[Entry], str]] = {
    "graph_color": lambda entry: json.dumps(entry["metadata"]["possible_answer"]),
    "propositional_logic": lambda entry: entry["metadata"]["example_answer"],
    "rubiks_cube": lambda entry: entry["metadata"]["example_correct_answer"],
}

#: Datasets that cannot be tasks, and why.
REFUSED = {
    "codeio": "it runs bundled programs, some of which give another problem every time",
    "boxnet": "it has no right answer to check its verifier with",
    "rush_hour": "it has no right answer to check its verifier with",
    "composite": "it is a mixture of others: build those, one task each",
}

#: Datasets whose right answers can be listed. Their scorers call ``eval`` on any other answer, for part
#: credit that we have no use for; the last one takes every text for correct. So they are compared here.
_ACCEPTED: dict[str, Callable[[Entry], list[str]]] = {
    "binary_matrix": lambda entry: [entry["answer"]],
    "n_queens": lambda entry: entry["metadata"]["valid_answers"],
    "spiral_matrix": lambda entry: [entry["answer"]],
    "string_insertion": lambda entry: [entry["answer"]],
    "game_of_life_halting": lambda entry: [entry["answer"]],
}

#: Datasets whose scorer hands the answer to sympy's ``parse_expr``, which is ``eval`` too. Only formulas go
#: there: numbers, operators, one-letter variables, and functions and constants named here. Without quotes,
#: brackets, underscores and other names there is nothing to call. ``Integral`` is not among them: the scorer
#: differentiates the answer, so the question itself, written as an integral, would be right.
_PARSED = {
    "countdown",
    "intermediate_integration",
    "polynomial_multiplication",
    "puzzle24",
    "simple_integration",
}
_FORMULA = re.compile(r"[0-9A-Za-z+\-*/^().,\s]*")
_NAME = re.compile(r"[A-Za-z]+")
# N, O, Q and S are functions to sympy, and no variables.
_KNOWN_NAME = re.compile(r"[A-MPRT-Za-z]|pi|exp|log|ln|sqrt|Abs|a?(?:sin|cos|tan|cot|sec|csc)h?")

#: Datasets whose scorer gives 1.0 for "nan", by way of min(1.0, nan).
_FOND_OF_NAN = frozenset(("complex_arithmetic",))

#: Settings that take other words than those the dataset lists, and what these look like. All other texts must
#: be words that the dataset itself declares: operators are evaluated, and ``data_file`` is a path.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z]")
_FREE_WORDS = {
    "delimiter": re.compile(r"[ .,;:!?]"),
    "female_names": _WORD,
    "male_names": _WORD,
    "static_font": _WORD,
    "static_word": _WORD,
    "symbols": _VARIABLE,
    "variables": _VARIABLE,
}

#: How many more bad problems than good ones are tolerated.
_PATIENCE = 20


def make(dataset: str, settings: Entry, seed: int, size: int) -> Reply:
    """The first ``size`` problems of a dataset whose gold passes the scorer."""
    data = _dataset(dataset, json.dumps(settings), seed, size)
    problems: list[Entry] = []
    faults: list[str] = []
    index = 0
    while len(problems) < size:
        problem, fault = _make_one(dataset, data, seed, index)
        problems += [problem] if problem else []
        faults += [fault] if fault else []
        if len(faults) > len(problems) + _PATIENCE:
            raise RlcrError(
                f"gym {dataset}: most problems of seed {seed} cannot be used; the last {faults[-1]}"
            )
        index += 1
    return {"problems": problems}


def _make_one(dataset: str, data: Any, seed: int, index: int) -> tuple[Entry | None, str]:
    """A problem whose gold passes, or what is wrong with it."""
    # list_functions also draws from the global stream, which nothing else seeds.
    random.seed(seed + index)
    try:
        entry = data[index]
        gold = _EXAMPLES[dataset](entry) if dataset in _EXAMPLES else entry["answer"]
        metadata = pack(entry["metadata"])
        # As it will be scored later: from what survives JSON.
        restored = _entry(entry["question"], gold, json.loads(json.dumps(metadata)))
        passed = data.score_answer(gold, restored)
    except Exception as error:  # whatever it is, this problem is unusable
        return None, f"cannot be made: {error!r}"
    if passed != 1.0:
        return None, f"fails its own scorer: {gold!r} scores {passed}"
    return {"index": index, "question": entry["question"], "gold": gold, "metadata": metadata}, ""


def check(
    dataset: str, settings: Entry, seed: int, size: int, index: int, question: str, gold: str, metadata: Any
) -> Reply:
    """Is a problem the one that its seed gives? ``fault`` says what differs, and is empty if nothing does."""
    given = {"question": question, "gold": gold, "metadata": metadata}
    problem, fault = _remake(dataset, json.dumps(settings), seed, size, index)
    origin = f"problem {index} of {dataset}, seed {seed}"
    if problem is None:
        return {"fault": f"{origin}, {fault}"}
    # As text, since True == 1 == 1.0.
    differing = [name for name in given if _canonical(given[name]) != _canonical(problem[name])]
    return {"fault": f"not {origin}: {' and '.join(differing)} differ" if differing else ""}


@lru_cache(maxsize=256)
def _remake(dataset: str, settings: str, seed: int, size: int, index: int) -> tuple[Entry | None, str]:
    # Kept, since a problem that is refused comes back with its next answer.
    return _make_one(dataset, _dataset(dataset, settings, seed, size), seed, index)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def score(dataset: str, settings: Entry, question: str, gold: str, metadata: Any, answer: str) -> Reply:
    """The score of an answer, or ``raised`` where the scorer broke down. The problem has been checked."""
    entry = _entry(question, gold, metadata)
    if dataset in _ACCEPTED:
        return {"score": float(answer in _ACCEPTED[dataset](entry))}
    if dataset in _PARSED and answer != gold and not is_formula(answer):
        return {"score": 0.0}
    if dataset in _FOND_OF_NAN and "nan" in answer.lower():
        return {"score": 0.0}
    try:
        given = float(_scorer(dataset, json.dumps(settings)).score_answer(answer, entry))
    except MemoryError:  # much of it may still be taken: the process ends, and the next job gets a new one
        raise
    except Exception as error:  # what the parent says of it depends on whether the gold raises too
        return {"raised": f"{type(error).__name__}: {error}"[:200]}
    return {"score": given if math.isfinite(given) else 0.0}


def is_formula(text: str) -> bool:
    """Whether a text is safe to hand to sympy's parser: nothing in it but arithmetic and known functions.

    >>> [is_formula(text) for text in ("x**2*sin(3*x)/2 + C", "exit()", "x.args", "__import__('os')")]
    [True, False, False, False]
    """
    return bool(_FORMULA.fullmatch(text)) and all(map(_KNOWN_NAME.fullmatch, _NAME.findall(text)))


@lru_cache(maxsize=64)
def _dataset(dataset: str, settings: str, seed: int, size: int) -> Any:
    """The library's own object. One dataset (acre) gives other problems at another size."""
    import reasoning_gym

    config = _config(dataset, json.loads(settings))
    try:
        return reasoning_gym.create_dataset(dataset, **config, seed=seed, size=size)
    except Exception as error:  # each dataset has its own way to say that it does not like its settings
        raise RlcrError(
            f"gym {dataset}: the settings do not fit: {str(error) or type(error).__name__}"
        ) from error


def _scorer(dataset: str, settings: str) -> Any:
    # Some scorers read the settings; none reads the seed or the size.
    return _dataset(dataset, settings, 0, 500)


def _config(dataset: str, settings: Entry) -> Entry:
    """The settings, once the dataset is known to exist, to have them, and to take such values."""
    from reasoning_gym.factory import DATASETS

    if dataset in REFUSED:
        raise RlcrError(f"gym: {dataset} cannot be used: {REFUSED[dataset]}")
    if dataset not in DATASETS:
        usable = sorted(set(DATASETS) - set(REFUSED))
        raise RlcrError(f"gym: unknown dataset {dataset!r}: {nearest(dataset, usable)}")
    _, config = DATASETS[dataset]
    fields = {field.name: field for field in dataclasses.fields(config) if field.name not in ("seed", "size")}
    defaults = config()
    for name, value in settings.items():
        if name not in fields:
            raise RlcrError(f"gym {dataset}: unknown setting {name!r}: {nearest(name, sorted(fields))}")
        words = _declared_words(getattr(defaults, name)) | _declared_words(get_args(fields[name].type))
        if fault := _unfit(value, words, _FREE_WORDS.get(name)):
            raise RlcrError(f"gym {dataset}: the settings do not fit: {name} {fault}")
    return settings


def _declared_words(value: Any) -> set[str]:
    """The texts in a default value or in the arguments of a type: what a setting may name."""
    match value:
        case enum.Enum():
            return _declared_words([member.value for member in type(value)])
        case str():
            return {value}
        case list() | tuple():
            return {word for item in value for word in _declared_words(item)}
    return set()


def _unfit(value: Any, words: set[str], free: re.Pattern[str] | None) -> str:
    """Why a value from a file must not reach the library; empty if it may."""
    match value:
        case None | bool() | int():
            return ""
        case float() if math.isfinite(value):
            return ""
        case str() if value in words or (free and free.fullmatch(value)):
            return ""
        case list():
            return next(filter(None, (_unfit(item, words, free) for item in value)), "")
    known = ", ".join(map(repr, sorted(words))) or ("single words" if free else "numbers")
    return f"takes {known[:200]}, not {value!r:.60}"


def _entry(question: str, gold: str, metadata: Any) -> Entry:
    return {"question": question, "answer": gold, "metadata": unpack(metadata)}


def pack(value: Any) -> Any:
    """A value as plain JSON that :func:`unpack` restores: some scorers compare tuples or look up by number.

    What JSON has no form for (a fraction, say) becomes its text; no scorer reads such values.

    >>> pack({"size": (3, 4), "colours": {0: "red"}})
    {'size': {'$tuple': [3, 4]}, 'colours': {'$dict': [[0, 'red']]}}
    >>> unpack(pack({"size": (3, 4), "colours": {0: "red"}}))
    {'size': (3, 4), 'colours': {0: 'red'}}
    """
    match value:
        case None | bool() | int():
            return value
        case str():
            return str(value)
        case float():
            return float(value) if math.isfinite(value) else {"$float": str(float(value))}
        case list():
            return [pack(item) for item in value]
        case tuple():
            return {"$tuple": [pack(item) for item in value]}
        case dict() if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: pack(item) for key, item in value.items()}
        case dict():
            return {"$dict": [[pack(key), pack(item)] for key, item in value.items()]}
    return str(value)


def unpack(value: Any) -> Any:
    """The value that was packed."""
    match value:
        case list():
            return [unpack(item) for item in value]
        case {"$tuple": items}:
            return tuple(unpack(item) for item in items)
        case {"$dict": pairs}:
            return {unpack(key): unpack(item) for key, item in pairs}
        case {"$float": text}:
            return float(text)
        case dict():
            return {key: unpack(item) for key, item in value.items()}
    return value


_JOBS: dict[str, Callable[..., Reply]] = {"make": make, "check": check, "score": score}


def answer(job: dict[str, Any]) -> Reply:
    """The reply to one job of :mod:`rlcr.verify.gym`; a mistake of the user's is an ``error``."""
    try:
        return _JOBS[job.pop("do")](**job)
    except RlcrError as error:
        return {"error": str(error)}


def fault() -> str | None:
    """The self-test: a right answer and a wrong one."""
    problem = {"dataset": "chain_sum", "settings": {}, "question": "2 + 3 =", "gold": "5", "metadata": {}}
    for given, right in (("5", True), ("6", False)):
        reply = answer({"do": "score", "answer": given, **problem})
        if (reply.get("score") == 1.0) is not right:
            return f"chain_sum of reasoning-gym, where 2 + 3 = {given}, scores {reply}"
    return None


if __name__ == "__main__":
    import reasoning_gym  # noqa: F401 (slow, so it is done before the first job comes)

    serve(answer, memory=MEMORY_BYTES, fault=fault)
