"""What an engine calls a completion, as the text that the model wrote.

Engines hand over a text, a message, a list of messages, the output of a Responses API, or objects with the
same attributes; a thought may lie apart from its content; decoded tokens may end in
``<|im_end|><|endoftext|>``. Anything else is not the model's doing and raises ValueError, of which the core
makes an unscorable row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlcr.errors import described
from rlcr.response import with_thought

#: Where servers and chat templates put what a model thought before its content.
_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
#: The types of parts of a content, and of details, whose text is a thought.
_THOUGHT_TYPES = ("reasoning", "thinking", "reasoning.text", "reasoning.summary")

_TOKEN = (
    r"(?:<\|[^|<>\s]{1,60}\|>|<｜[^｜<>\s]{1,60}｜>|</?s>"
    r"|<(?:pad|eos|bos|unk|end_of_turn|start_of_turn)>|\[(?:PAD|EOS|BOS|CLS|SEP)\])"
)
_FIRST = re.compile(_TOKEN)
_LAST = re.compile(_TOKEN + r"\Z")
#: No token is longer than this, so the end of a text is looked for in so many characters.
_LONGEST = 64


def completion_text(completion: object, special_tokens: Sequence[str] = ()) -> str:
    """The text of a completion, in one piece and without special tokens at its ends.

    Of several messages the last one of the assistant counts, with the reasoning that led to it where that is
    an item of its own. ``special_tokens`` are cut beside those that are known by their looks.

    >>> completion_text({"role": "assistant", "reasoning_content": "2 + 2", "content": "<answer>4</answer>"})
    '<think>2 + 2</think><answer>4</answer>'
    >>> completion_text("<answer>4</answer><|im_end|>")
    '<answer>4</answer>'
    """
    return without_special(_joined(completion), special_tokens)


def without_special(text: str, special_tokens: Sequence[str] = ()) -> str:
    r"""A text without the special tokens it begins and ends with; those inside are the model's own doing.

    Untouched, white space too, where there are none.

    >>> without_special("<s> 4</s>\n<pad><pad>"), without_special(" 4 <|im_end|> 5 ")
    ('4', ' 4 <|im_end|> 5 ')
    """
    tokens = tuple(filter(None, special_tokens))
    start, end = 0, len(text)
    while (cut := _last_token(text, _right(text, end), tokens)) is not None:
        end = _right(text, cut)
    while (cut := _first_token(text, _left(text, start, end), end, tokens)) is not None:
        start = _left(text, cut, end)
    return text[start:end]


def _last_token(text: str, end: int, tokens: tuple[str, ...]) -> int | None:
    """Where the special token begins that ends at ``end``."""
    for token in tokens:
        if text.endswith(token, 0, end):
            return end - len(token)
    window = max(0, end - _LONGEST)
    found = _LAST.search(text[window:end])
    return window + found.start() if found else None


def _first_token(text: str, start: int, end: int, tokens: tuple[str, ...]) -> int | None:
    """Where the special token ends that begins at ``start``."""
    for token in tokens:
        if text.startswith(token, start, end):
            return start + len(token)
    found = _FIRST.match(text, start, end)
    return found.end() if found else None


def _right(text: str, end: int) -> int:
    while end > 0 and text[end - 1].isspace():
        end -= 1
    return end


def _left(text: str, start: int, end: int) -> int:
    while start < end and text[start].isspace():
        start += 1
    return start


def _joined(completion: object) -> str:
    completion = plain(completion)
    if isinstance(completion, str):
        return completion
    if isinstance(completion, (list, tuple)):
        of_responses = any(_get(item, "type") in ("message", "reasoning") for item in completion)
        return _message(_last_output(completion) if of_responses else _last_of_assistant(completion))
    return _message(completion)


def _last_output(items: Sequence[object]) -> object:
    """The last message among the items of a Responses API, with the reasoning that led to it."""
    thought, message = "", None
    for item in items:
        kind = _get(item, "type")
        if kind == "reasoning":
            content, summary = (_parts(_get(item, name), name) for name in ("content", "summary"))
            thought += "".join(content) or "".join(summary)
            continue
        if kind == "message":
            message = {"reasoning_content": thought, "content": _get(item, "content")}
        thought = ""  # what was thought before a tool was called is not about the answer
    if message is None and thought:
        return {"reasoning_content": thought, "content": ""}
    return message


def _last_of_assistant(messages: Sequence[object]) -> object:
    for message in reversed(messages):
        if _get(message, "role") in ("assistant", None):
            return message
    raise ValueError(f"the completion has no message of the assistant among {len(messages)}")


def _message(message: object) -> str:
    has_content = "content" in message if isinstance(message, Mapping) else hasattr(message, "content")
    if not has_content:
        raise ValueError(f"the completion is no text: {described(message)}")
    thought, text = _parts(_get(message, "content"), "content")
    for name in _THOUGHTS:
        thought = thought or "".join(_parts(_get(message, name), name))
    if not thought or text.lstrip().startswith("<think>"):
        return text
    return with_thought(thought, text, finished=bool(text))


def _parts(content: object, what: str) -> tuple[str, str]:
    """The thought and the text of a content: a text, nothing, or a list of parts."""
    if content is None:
        return "", ""
    if isinstance(content, str):
        return "", content
    if not isinstance(content, (list, tuple)):
        raise ValueError(f"the completion's {what} is no text: {described(content)}")
    thoughts, texts = [], []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif _get(part, "type") in _THOUGHT_TYPES or _get(part, "thought") is True:
            thoughts.append(_thought(part))
        elif isinstance(text := _get(part, "text"), str):
            texts.append(text)
        else:
            thoughts.append(_thought(part))
    return "".join(thoughts), "".join(texts)


def _thought(part: object) -> str:
    """What a part of a content holds of a thought, under any of its names."""
    for name in (*_THOUGHTS, "text", "summary"):
        value = _get(part, name)
        if isinstance(value, (str, list, tuple)) and (found := "".join(_parts(value, name))):
            return found
    return ""


def _get(value: object, name: str) -> Any:
    return plain(value.get(name) if isinstance(value, Mapping) else getattr(value, name, None))


def plain(value: object) -> Any:
    """A numpy value as Python's own: Parquet files come back as arrays."""
    return value.tolist() if hasattr(value, "tolist") and hasattr(value, "dtype") else value  # pyright: ignore[reportAttributeAccessIssue]
