"""What engines post to a reward service, and what they want back. JSON values in, JSON values out.

The shapes are told apart by their keys, in this order:

    responses_create_params, response   NeMo-Gym's ``verify``; gold in ``expected_answer`` (or ``gold``)
    rows                                our own: completions with their golds, any number of them
    query, prompts, labels              OpenRLHF (:mod:`rlcr.adapters.openrlhf`)
    prompt, response, label             slime, ``--rm-url``; the reply is a number

In our own an unknown key is an error; engines post keys that are their own business.

What is unscorable has the reward null in our own shape, is masked in NeMo-Gym's, and has the scorer's
constant in the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcr.adapters.core import Rewarded, Row, Scorer
from rlcr.adapters.openrlhf import reply
from rlcr.errors import described, nearest, shortened
from rlcr.verify.gym import ORIGIN

Json = dict[str, Any]

_OPENRLHF = ("query", "prompts", "labels")
_SLIME = ("prompt", "response", "label")
_NEMO_GYM = ("responses_create_params", "response")
_ROWS = ("rows",)
SHAPES: dict[str, tuple[str, ...]] = {
    "nemo-gym": _NEMO_GYM,
    "rows": _ROWS,
    "openrlhf": _OPENRLHF,
    "slime": _SLIME,
}
_ROW = ("completion", "gold", "question", "choices", "verifier", "think_open", "id")
#: What a row of a gym problem carries besides (:mod:`rlcr.verify.gym`).
_GYM = (*ORIGIN, "metadata")


class BadRequest(ValueError):
    """A body that no engine posts; the message says what is wrong with it."""


def shape_of(body: object) -> str:
    """The name of a body's shape.

    >>> shape_of({"prompt": "2 + 2?", "response": "4", "label": "4"})
    'slime'
    """
    if not isinstance(body, Mapping):
        raise BadRequest(f"expected a JSON object, found {described(body)}")
    for name, keys in SHAPES.items():
        if all(key in body for key in keys):
            return name
    known = "; ".join(f"{', '.join(keys)} ({name})" for name, keys in SHAPES.items())
    found = ", ".join(sorted(map(str, body))[:10]) or "none"
    raise BadRequest(f"no known set of keys: found {found}; known are {known}")


def answer(body: Json, scorer: Scorer) -> object:
    """The reply to a body of any shape."""
    return _ANSWERS[shape_of(body)](body, scorer)


def _openrlhf(body: Json, scorer: Scorer) -> object:
    queries, prompts, labels = (_list(body, key) for key in _OPENRLHF)
    if not len(queries) == len(prompts) == len(labels):
        raise BadRequest(f"{len(queries)} queries, {len(prompts)} prompts and {len(labels)} labels")
    return reply(scorer, queries, prompts, labels)


def _slime(body: Json, scorer: Scorer) -> object:
    (found,) = scorer.score([Row.labelled(body["response"], body["prompt"], body["label"])])
    return found.total


def _nemo_gym(body: Json, scorer: Scorer) -> object:
    more = body.get("verifier_metadata")
    about = {**(more if isinstance(more, Mapping) else {}), **body}
    golds = [about[key] for key in ("expected_answer", "gold") if key in about]
    if not golds:
        raise BadRequest("a NeMo-Gym body needs the gold in expected_answer (or gold)")
    gold = next((one for one in golds if one is not None), None)
    kept = ("question", "verifier", "think_open", "id", "choices")
    row = Row.of(_output(body["response"]), gold, {key: about[key] for key in kept if key in about})
    (found,) = scorer.score([row])
    logged = {name: value for name, value in found.to_dict().items() if value is not None}
    masked: Json = {} if found.scorable else {"mask_sample": True, "failure_reason": found.reason}
    return {**body, **logged, "reward": found.total, **masked}


def _rows(body: Json, scorer: Scorer) -> object:
    _check_keys(body, _ROWS, "the body")
    rows = []
    for number, given in enumerate(_list(body, "rows")):
        if not isinstance(given, Mapping):
            raise BadRequest(f"row {number}: expected an object, found {described(given)}")
        known = (*_ROW, *_GYM) if given.get("verifier") == "gym" else _ROW
        _check_keys(given, known, f"row {number}")  # first: "golds" is rather misspelt than missing
        missing = [key for key in ("completion", "gold") if key not in given]
        if missing:
            raise BadRequest(f"row {number}: has no {' and no '.join(missing)}")
        rest = {key: value for key, value in given.items() if key not in ("completion", "gold")}
        rows.append(Row.of(given["completion"], given["gold"], rest))
    found = scorer.score(rows)
    return {
        "rewards": [one.total if one.scorable else None for one in found],
        "rows": list(map(_whole, found)),
    }


def _whole(found: Rewarded) -> Json:
    """All that is known of a completion, as JSON."""
    return {
        **found.to_dict(),
        "reward": found.total if found.scorable else None,
        "correct": found.correct,
        "well_formed": found.well_formed,
        "scorable": found.scorable,
        "reason": found.reason,
        "answer": found.answer,
    }


_ANSWERS = {"openrlhf": _openrlhf, "nemo-gym": _nemo_gym, "slime": _slime, "rows": _rows}


def _check_keys(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in given:
        if key not in known:
            raise BadRequest(f"{where}: unknown key {shortened(key, 80)!r}; {nearest(key[:80], list(known))}")


def _list(body: Json, key: str) -> list[Any]:
    if not isinstance(body[key], list):
        raise BadRequest(f"{key}: expected a list, found {described(body[key])}")
    return body[key]


def _output(response: object) -> list[Any]:
    """The items that a Responses API gave out, of which the core takes the last message."""
    output = response.get("output") if isinstance(response, Mapping) else None
    if not isinstance(output, list):
        raise BadRequest("response: expected an object of the Responses API, with a list `output`")
    return output
