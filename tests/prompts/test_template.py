"""Arguments of chat templates: set once, kept with the model, refused where the template has none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sample.endpoints import GREEDY, ask, echo, patient
from tests.servers import ModelServer
from tests.tiny import CHATML, tiny_model, tiny_tokenizer

from rlcr.errors import RlcrError
from rlcr.prompts import render_messages
from rlcr.prompts.template import set_arguments
from rlcr.sample.loading import load_tokenizer
from rlcr.sample.local import LocalSampler
from rlcr.sample.opening import Access, Typed, open_sampler

#: As Qwen3's: no thinking is an empty thought in front of the response.
THINKING = (
    CHATML + "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}"
)
HELLO = [{"role": "user", "content": "Hello"}]


def test_an_argument_is_the_templates_default_from_then_on(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer(chat_template=THINKING)
    assert not render_messages(HELLO, tokenizer).endswith("<think></think>")
    set_arguments(tokenizer, {"enable_thinking": False}, "it")
    assert (
        render_messages(HELLO, tokenizer)
        == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think></think>"
    )
    # Wherever its folder goes, and whoever renders with it.
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(str(tmp_path))
    assert render_messages(HELLO, again).endswith("<think></think>")
    # What is said later wins.
    set_arguments(again, {"enable_thinking": True}, "it")
    assert not render_messages(HELLO, again).endswith("<think></think>")


def test_values_of_every_kind() -> None:
    tokenizer = tiny_tokenizer(chat_template="{{ a }}|{{ b }}|{{ c }}|{{ d is none }}")
    set_arguments(tokenizer, {"a": 'x "y"', "b": 2, "c": 0.5, "d": None}, "it")
    assert render_messages(HELLO, tokenizer) == 'x "y"|2|0.5|True'


def test_what_the_template_does_not_use_is_refused() -> None:
    with pytest.raises(
        RlcrError, match="the template of my/model does not use enable_thinking: leave it out"
    ):
        set_arguments(tiny_tokenizer(), {"enable_thinking": False}, "my/model")
    with pytest.raises(
        RlcrError, match="my/base has no chat template, so that enable_thinking cannot be set"
    ):
        set_arguments(tiny_tokenizer(chat_template=None), {"enable_thinking": False}, "my/base")


def test_a_local_model_is_opened_with_it(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer(chat_template=THINKING).save_pretrained(tmp_path)
    sampler = open_sampler(Typed(str(tmp_path)), Access(chat_template={"enable_thinking": False}))
    assert isinstance(sampler, LocalSampler)
    assert render_messages(HELLO, sampler.tokenizer).endswith("<think></think>")


def test_a_server_is_told_in_chat_mode() -> None:
    with ModelServer(echo) as server:
        list(patient(server, chat_template={"enable_thinking": False}).sample([ask(1)], GREEDY))
        list(patient(server).sample([ask(1)], GREEDY))
        told, plain = (seen.body for seen in server.calls)
    assert told["chat_template_kwargs"] == {"enable_thinking": False}
    assert "chat_template_kwargs" not in plain


def test_completion_mode_needs_a_template_to_give_it_to() -> None:
    access = Access(mode="completion", chat_template={"enable_thinking": False})
    with pytest.raises(RlcrError, match="completion mode renders with --tokenizer's template: give"):
        open_sampler(Typed("http://127.0.0.1:9/v1#m"), access)
