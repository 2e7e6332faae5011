"""System prompts, and how a problem becomes the text that a model continues.

A prompt asks for a tag set (:data:`rlcr.response.FORMATS`). The texts lie beside this file, one each, in
our own words with every instruction of the paper's; any command takes the path of another one instead.
Differences from the paper: its long prompt closes ``<answer>`` with ``</analysis>`` and its simple
confidence prompt closes ``<think>`` with ``<//think>``; ours close every tag properly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rlcr.errors import RlcrError, nearest
from rlcr.problem import Problem
from rlcr.response import get_format

#: Each prompt and the tag set it asks for. ``expert`` asks for a lone analysis, which is no response.
PROMPTS: dict[str, str | None] = {
    "rlvr": "rlvr",
    "rlcr": "rlcr",
    "rlcr-long": "rlcr",
    "rlcr-no-analysis": "confidence",
    "rlcr-careful": "rlcr",
    "rlcr-short": "confidence",
    "rlvr-short": "rlvr",
    "base": "confidence",
    "abstain": "rlvr",
    "never-abstain": "rlvr",
    "expert": None,
}

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A system prompt and the tag set that it asks for (None for ``expert``)."""

    name: str
    text: str
    format: str | None


def load_prompt(name_or_path: str, *, format: str | None = None) -> Prompt:
    """One of our prompts by name, or the user's own from a text file.

    A file does not say which tag set it asks for, so ``format`` must.

    >>> load_prompt("rlcr-long").format
    'rlcr'
    """
    if name_or_path in PROMPTS:
        text = (Path(__file__).parent / f"{name_or_path}.txt").read_text(encoding="utf-8")
        return Prompt(name_or_path, text.strip(), PROMPTS[name_or_path])
    path = Path(name_or_path)
    if not path.is_file():
        raise RlcrError(f"no prompt or file named {name_or_path!r}: {nearest(name_or_path, list(PROMPTS))}")
    if format is None:
        raise RlcrError(f"{path}: say which format this prompt asks for (rlvr, confidence or rlcr)")
    try:
        text = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise RlcrError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    if not text:
        raise RlcrError(f"{path}: the prompt file is empty")
    return Prompt(str(path), text, get_format(format).name)


def user_message(problem: Problem) -> str:
    """The question, then the task's own line.

    >>> user_message(Problem("1", "2 + 2?", ("4",), "math", instruction="Answer with a number."))
    '2 + 2?\\n\\nAnswer with a number.'
    """
    return f"{problem.question}\n\n{problem.instruction}" if problem.instruction else problem.question


def messages(prompt: Prompt, problem: Problem) -> list[Message]:
    """The conversation to send to a chat model or endpoint."""
    return [{"role": "system", "content": prompt.text}, {"role": "user", "content": user_message(problem)}]


class ChatTokenizer(Protocol):
    """What we need of a Hugging Face tokenizer."""

    chat_template: Any

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any:
        """Render a conversation with the model's template."""
        ...


def render(prompt: Prompt, problem: Problem, tokenizer: ChatTokenizer | None = None) -> str:
    r"""The text that the model continues: through its chat template, or plain where it has none.

    >>> print(render(Prompt("p", "Be brief.", "rlvr"), Problem("1", "2 + 2?", ("4",), "math")))
    Be brief.
    <BLANKLINE>
    User: 2 + 2?
    <BLANKLINE>
    Assistant:
    """
    return render_messages(messages(prompt, problem), tokenizer)


def render_messages(conversation: Sequence[Message], tokenizer: ChatTokenizer | None = None) -> str:
    r"""The text that the model continues, of any conversation that ends with the user.

    >>> render_messages([{"role": "user", "content": "Hello"}])
    'User: Hello\n\nAssistant:'
    """
    if tokenizer is None or not tokenizer.chat_template:
        names = {"system": "", "user": "User: ", "assistant": "Assistant: "}
        turns = [names[message["role"]] + message["content"] for message in conversation]
        return "\n\n".join([*turns, "Assistant:"])
    # A template comes with jinja2; the plain path does not need it.
    from jinja2 import TemplateError

    options = {"tokenize": False, "add_generation_prompt": True}
    try:
        return tokenizer.apply_chat_template(list(conversation), **options)
    except TemplateError:
        if len(conversation) < 2 or conversation[0]["role"] != "system":
            raise
        # Some templates (Gemma's) refuse a system message: it then leads the user's.
        system, user, *rest = conversation
        merged = {"role": user["role"], "content": f"{system['content']}\n\n{user['content']}"}
        return tokenizer.apply_chat_template([merged, *rest], **options)


def opens_think(rendered: str) -> bool:
    """Whether the rendered prompt already ends inside ``<think>``: see ``think_open`` of the parser."""
    return rendered.rstrip().endswith("<think>")
