"""Arguments of a chat template, such as Qwen3's ``enable_thinking``, as part of the template itself.

They are written in front of it as defaults. So whoever renders with this tokenizer renders alike: the
sampler, the trainer, and whoever serves the trained model from its folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rlcr.errors import RlcrError
from rlcr.prompts import ChatTokenizer

#: What an argument may be.
Argument = bool | int | float | str | None


def set_arguments(tokenizer: ChatTokenizer, arguments: Mapping[str, Argument] | None, model: str) -> None:
    """Give a tokenizer's template its arguments; raises if it does not use them.

    ``model`` is whose it is, for messages.
    """
    if not arguments:
        return
    template: Any = tokenizer.chat_template
    if not isinstance(template, str):
        what = "several chat templates" if template else "no chat template"
        raise RlcrError(f"chat_template: {model} has {what}, so that {', '.join(arguments)} cannot be set")
    tokenizer.chat_template = with_arguments(template, arguments, model)


def with_arguments(template: str, arguments: Mapping[str, Argument], model: str) -> str:
    """A template with other defaults; one that was given before gives way.

    >>> with_arguments("{% if loud %}HEY{% endif %}", {"loud": True}, "it")
    '{%- set loud = loud | default(true) -%}{% if loud %}HEY{% endif %}'
    """
    for name in reversed(list(arguments)):
        if not re.search(rf"\b{re.escape(name)}\b", template):
            raise RlcrError(
                f"chat_template: the template of {model} does not use {name}: leave it out"
                " (chat_template=null in a recipe)"
            )
        template = f"{{%- set {name} = {name} | default({_literal(arguments[name])}) -%}}{template}"
    return template


def _literal(value: Argument) -> str:
    return "none" if value is None else json.dumps(value)
