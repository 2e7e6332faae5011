"""What goes over the wire to an OpenAI-compatible server: request bodies and replies. No network in here.

What servers do differently, and what we make of it:

*Log-probabilities.* Ours are those of the untempered model. vLLM returns these (its ``--logprobs-mode`` is
``raw_logprobs`` unless set), and at temperature 0 everybody does. SGLang divides by the temperature unless
``SGLANG_RETURN_ORIGINAL_LOGPROB`` is set, and OpenAI does not say what theirs are: do not compare across
servers at other temperatures than 0 and 1. NaN, infinities and values above 0 (but for rounding) are no
log-probabilities: the completion then has none, as where a server returns none. Token ids are not asked for:
most servers refuse the question.

*Spans.* Exact, or there are none: where the tokens a server reports cannot be laid over its text, the
completion has no logprobs. An end token, or what a stop string cut off, covers an empty span at the end.

*Reasoning.* A server with a reasoning parser splits ``<think>…</think>`` off into a field of its own. We put
it back in front, so that there is one response to parse. White space the server dropped there is lost.

*Stop strings.* Some servers leave the stop string in the text, most cut it off. We always cut it off.

*Token counts.* One choice has the server's own count. Of several, each has the number of its logprobs, or
without these an equal share of the total.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rlcr.metrics.likelihood import sound_logprobs
from rlcr.prompts import ChatTokenizer, render_messages
from rlcr.response import with_thought
from rlcr.sample import Completion, Request, Sampling, Span, sendable

Json = dict[str, Any]


class Refusal(NamedTuple):
    """A field that a server may refuse, and how its refusal reads."""

    field: str
    pattern: re.Pattern[str]


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


#: What we then do without: see `body`.
REFUSALS: dict[str, Refusal] = {
    "logprobs": Refusal("logprobs", _any("logprobs")),
    "plain": Refusal("top_k", _any(r"\btop_k\b", r"\brepetition_penalty\b")),
    "seed": Refusal("seed", _any(r"\bseed\b")),
    "max_tokens": Refusal("max_tokens", _any("max_tokens.*not supported", "use .?max_completion_tokens")),
    "n": Refusal("n", _any("['\"`]n['\"`]", r"\bn (must|should|>)", "one completion choice")),
}
PREFILL_REFUSED = _any("continue_final_message", "add_generation_prompt", "prefill", "(last|final) message")
NO_CHAT_TEMPLATE = _any("chat.?template")
TOO_LONG = _any("context", "max_tokens", "max_completion_tokens", "too long")

#: A reply that counts more is broken.
_MOST_TOKENS = 10**9
#: OpenAI marks a token that is no whole text like this: ``bytes:\xf0\x9f``.
_BYTES_TOKEN = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)", re.IGNORECASE)


class BrokenReplyError(ValueError):
    """A reply that lacks what a reply must have. Worth asking again."""


def reply_limit(max_tokens: int, n: int) -> int:
    """The bytes that an honest reply may have: far more than tokens take with all that is said of each."""
    return (4 << 20) + 1024 * max_tokens * n


def body(
    model: str,
    request: Request,
    sampling: Sampling,
    *,
    prompt: str | None,
    first: int,
    n: int,
    refused: Collection[str],
) -> Json:
    """The JSON to send for samples ``first`` to ``first + n - 1``: a raw completion if there is a ``prompt``.

    >>> request = Request("q1", ({"role": "user", "content": "Hi"},))
    >>> b = body("m", request, Sampling(16), prompt=None, first=0, n=1, refused={"logprobs", "plain"})
    >>> sorted(b)
    ['max_tokens', 'messages', 'model', 'temperature', 'top_p']
    """
    limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
    fields: Json = {
        "model": model,
        limit: sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
    }
    if "plain" not in refused:
        # vLLM and SGLang otherwise take the model's generation_config.json, which for many chat models
        # holds a top_k and a repetition penalty that nobody asked for.
        fields |= {"top_k": -1, "repetition_penalty": 1.0}
    if sampling.stop:
        fields["stop"] = list(map(sendable, sampling.stop))
    if n > 1:
        fields["n"] = n
    if sampling.temperature > 0 and "seed" not in refused:
        fields["seed"] = derived_seed(sampling.seed, request.key, first)
    if prompt is not None:
        fields["prompt"] = sendable(prompt + request.prefix)
        if "logprobs" not in refused:
            fields["logprobs"] = 1  # some servers take 0 for "none"
        return fields
    fields["messages"] = [message | {"content": sendable(message["content"])} for message in request.messages]
    if "logprobs" not in refused:
        fields["logprobs"] = True
    if request.prefix:
        fields["messages"].append({"role": "assistant", "content": sendable(request.prefix)})
        fields |= {"continue_final_message": True, "add_generation_prompt": False}
    return fields


def derived_seed(seed: int, key: str, sample: int) -> int:
    """The seed of a sample: it depends on nothing but the run's, the request's key and the sample's number.

    A server that is asked for n samples counts on from the seed (vLLM does), so that a sample has the same
    one whichever call it comes with. 31 bits: some servers take no more.

    >>> derived_seed(0, "q1", 5) - derived_seed(0, "q1", 2)
    3
    """
    digest = hashlib.sha256(f"{seed}\0{key}".encode("utf-8", "surrogatepass")).digest()
    return ((int.from_bytes(digest[:4], "big") >> 1) + sample) % 2**31


def prompt_text(request: Request, tokenizer: ChatTokenizer | None) -> str:
    """The text for a raw completion, without the start token that the server's tokenizer puts in front."""
    text = render_messages(request.messages, tokenizer)
    start, encode = getattr(tokenizer, "bos_token", None), getattr(tokenizer, "encode", None)
    if start and encode is not None and encode("")[:1] == [getattr(tokenizer, "bos_token_id", None)]:
        text = text.removeprefix(start)
    return text


def completions(
    reply: object, request: Request, sampling: Sampling, *, first: int, n: int, think_open: bool | None
) -> list[Completion]:
    """The completions in a reply, at least one and at most ``n``, numbered from ``first``.

    ``think_open`` is None where the server rendered the prompt: then a text that closes ``<think>`` before
    it opens one tells.
    """
    choices = _in_order(_field(reply, "choices", list))[:n]
    if not choices:
        raise BrokenReplyError("the reply has no choices")
    assert isinstance(reply, Mapping)
    usage = {} if reply.get("usage") is None else _field(reply, "usage", dict)
    total, prompt_tokens = _count(usage, "completion_tokens"), _count(usage, "prompt_tokens")
    completions: list[Completion] = []
    for number, choice in enumerate(choices):
        text, finish = _text(choice, sampling.stop)
        tokens, logprobs = _tokens(choice)
        spans = _spans(text, tokens)
        # The remainder of the division goes to the first ones, so that the sum is the server's.
        share = total // len(choices) + (number < total % len(choices))
        completions.append(
            Completion(
                key=request.key,
                sample=first + number,
                text=text,
                finish_reason=finish,
                logprobs=() if spans is None else tuple(logprobs),
                token_spans=spans or (),
                prompt_tokens=prompt_tokens,
                completion_tokens=len(tokens) if tokens and len(choices) > 1 else share or len(tokens),
                think_open=_begins_inside_think(request.prefix + text) if think_open is None else think_open,
            )
        )
    return completions


def model_names(reply: object) -> list[str]:
    """The names in a reply to ``/models``."""
    return [_field(entry, "id", str) for entry in _field(reply, "data", list)]


def _field(value: object, name: str, kind: type) -> Any:
    member = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(member, kind):
        raise BrokenReplyError(f"the reply has no {name!r}")
    return member


def _in_order(choices: list[Any]) -> list[Any]:
    """The choices by their index, each once, since servers may return them as they finish."""
    indexes = [choice.get("index") if isinstance(choice, Mapping) else None for choice in choices]
    if not all(type(index) is int for index in indexes):
        return choices
    first: dict[int, Any] = {}
    for choice in choices:
        first.setdefault(choice["index"], choice)
    return [first[index] for index in sorted(first)]


def _count(usage: Mapping[str, Any], name: str) -> int:
    """A number of tokens; 0 where the server does not say."""
    value = usage.get(name)
    if value is None:
        return 0
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool) or not 0 <= value <= _MOST_TOKENS:
        raise BrokenReplyError(f"the reply's {name} is no count")
    return int(value)


def _text(choice: object, stop: Sequence[str]) -> tuple[str, Literal["stop", "length"]]:
    reason = _field(choice, "finish_reason", str)
    if reason in ("abort", "error"):
        raise BrokenReplyError(f"the server gave up on this completion ({reason})")
    finish: Literal["stop", "length"] = "length" if reason in ("length", "max_tokens") else "stop"
    assert isinstance(choice, Mapping)
    if "message" in choice:
        message = _field(choice, "message", dict)
        text = message.get("content") or ""
        if not isinstance(text, str):
            raise BrokenReplyError("the reply's content is no text")
        if thought := message.get("reasoning_content") or message.get("reasoning"):
            if not isinstance(thought, str):
                raise BrokenReplyError("the reply's reasoning is no text")
            text = with_thought(thought, text, finished=bool(text) or finish != "length")
    else:
        text = _field(choice, "text", str)
    cuts = [at for at in map(text.find, stop) if at >= 0]
    return (text[: min(cuts)], "stop") if cuts else (text, finish)


def _tokens(choice: Mapping[str, Any]) -> tuple[list[bytes], list[float]]:
    """The sampled tokens and their logprobs, both empty where one of them is missing or unsound."""
    logprobs = choice.get("logprobs") or {}
    try:
        if content := logprobs.get("content"):  # chat, and llama.cpp everywhere
            pairs = [
                (_token_bytes(entry["token"], entry.get("bytes")), _logprob(entry["logprob"]))
                for entry in content
            ]
        else:
            texts = map(_token_bytes, logprobs.get("tokens") or ())
            values = map(_logprob, logprobs.get("token_logprobs") or ())
            pairs = list(zip(texts, values, strict=True))
        sound = sound_logprobs(logprob for _, logprob in pairs)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise BrokenReplyError("the reply has malformed logprobs") from None
    return ([token for token, _ in pairs], sound) if sound else ([], [])


def _logprob(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a log-probability is a number")
    return float(value)


def _token_bytes(token: str, data: Sequence[int] | None = None) -> bytes:
    if data is not None:
        if not isinstance(data, list):  # of a number, bytes() makes that many zeros
            raise TypeError("bytes are a list")
        return bytes(data)
    if marked := _BYTES_TOKEN.fullmatch(token):
        return bytes.fromhex(marked[1].replace("\\x", ""))
    return token.encode("utf-8", "replace")


def _spans(text: str, tokens: Sequence[bytes]) -> tuple[Span, ...] | None:
    spans = token_spans(text, tokens)
    if spans is None and text.startswith("<think>"):
        # Put there by us, and in the prompt rather than among the tokens.
        inner = token_spans(text.removeprefix("<think>"), tokens)
        shift = len("<think>")
        spans = inner and tuple((start + shift, end + shift) for start, end in inner)
    return spans


def token_spans(text: str, tokens: Sequence[bytes]) -> tuple[Span, ...] | None:
    """The characters of ``text`` that each token covers, or None where the tokens are not those of the text.

    A character that is split across tokens is covered by each of them. The bytes of such tokens may come
    whole (OpenAI), as nothing until the character is complete (vLLM), or as U+FFFD (others).

    >>> token_spans("a🙂b", [b"a", b"\\xf0\\x9f", b"\\x99\\x82b", b"<|end|>"])
    ((0, 1), (1, 2), (1, 3), (3, 3))
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    spans: list[list[int]] = []
    at = 0  # characters covered so far
    parts: list[int] = []  # tokens that hold a part of the character to come

    def close_parts(end: int) -> None:
        for token in parts:
            spans[token][1] = max(end, spans[token][1])
        parts.clear()

    for number, token in enumerate(tokens):
        if token.isascii() and token and not parts:  # nearly always, and several times as fast
            piece = token.decode()
            if text.startswith(piece, at):
                spans.append([at, at := at + len(piece)])
                continue
        before = decoder.getstate()[0]
        piece = decoder.decode(token)
        split = bool(decoder.getstate()[0])  # the token ends inside a character
        spans.append([at, at])
        if not piece:
            parts.append(number)
            continue
        if not text.startswith(piece, at):
            rest = text[at:] if len(piece) > len(text) - at else None
            head, replaced, _ = piece.partition("�")
            if rest is not None and piece.startswith(rest):  # the end token, or cut by a stop string
                piece = rest
            elif replaced and text.startswith(head, at):  # a part of a character; the server hides which
                at += len(head)
                spans[number][1] = at
                parts.append(number)
                continue
            else:
                position = text.find(piece, at, at + 4 * len(parts) + len(piece)) if parts else -1
                if position < 0 or not _beyond_ascii(text[at:position]):
                    decoder.reset()
                    continue  # a special token that the text leaves out; if not, the text will be left over
                close_parts(position)
                at = position
        inside = next((i for i, character in enumerate(piece) if ord(character) > 127), None)
        close_parts(at if inside is None else at + inside + 1)
        # Where the token does not complete what was begun, the U+FFFD for that is not the token's.
        spans[number][0] = at + 1 if before and _breaks_off(before, token) else at
        at += len(piece)
        spans[number][1] = at
        if split:
            parts.append(number)
    if at < len(text) and parts and _beyond_ascii(text[at:]):  # cut off inside a character
        close_parts(len(text))
        at = len(text)
    return tuple((start, end) for start, end in spans) if at == len(text) else None


def _breaks_off(begun: bytes, token: bytes) -> bool:
    try:
        (begun + token).decode()
    except UnicodeDecodeError as error:
        return error.end <= len(begun)
    return False


def _beyond_ascii(text: str) -> bool:
    return all(ord(character) > 127 for character in text)


def _begins_inside_think(text: str) -> bool:
    opened, closed = text.find("<think>"), text.find("</think>")
    return closed >= 0 and not 0 <= opened < closed
