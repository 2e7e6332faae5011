"""Prompts carry every instruction of the paper, and become text with and without a chat template."""

from typing import Any

import jinja2
import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.prompts import PROMPTS, load_prompt, messages, opens_think, render
from rlcr.response import FORMATS

PROBLEM = Problem("1", "What is 2 + 2?", ("4",), "math", instruction="Answer with a number.")


class TemplateTokenizer:
    """A real chat template behind the two members of a tokenizer that rendering uses."""

    def __init__(self, chat_template: str | None) -> None:
        self.chat_template = chat_template

    def apply_chat_template(self, conversation: Any, *, tokenize: bool = True, **kwargs: Any) -> str:
        def refuse(message: str) -> None:
            raise jinja2.TemplateError(message)

        assert not tokenize
        assert self.chat_template
        template = jinja2.Environment().from_string(self.chat_template)
        return template.render(messages=conversation, refuse=refuse, **kwargs)


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ refuse('no system role') }}{% endif %}" + CHATML


@pytest.mark.parametrize("name", PROMPTS)
def test_every_prompt_shows_the_tags_of_its_format_closed_and_in_order(name: str) -> None:
    prompt = load_prompt(name)
    tags = FORMATS[prompt.format].tags if prompt.format else ("analysis",)
    for tag in FORMATS["rlcr"].tags:
        assert (f"<{tag}>" in prompt.text) == (tag in tags)
        assert prompt.text.count(f"<{tag}>") == prompt.text.count(f"</{tag}>")
    if prompt.format:
        example = next(line for line in prompt.text.splitlines() if line.startswith("<think>"))
        positions = [example.index(f"<{tag}>") for tag in tags]
        assert positions == sorted(positions)
    if "confidence" in tags:
        assert "from 0 to 1" in prompt.text


def test_the_prompts_differ_where_the_paper_says() -> None:
    texts = {name: load_prompt(name).text for name in PROMPTS}
    assert [f"\n{i}. " in texts["rlcr-long"] for i in range(1, 9)] == [True] * 7 + [False]
    assert texts["rlcr-careful"].startswith(texts["rlcr"])
    assert "arbitrary number" in texts["rlcr-careful"]
    assert "300 characters" in texts["expert"]
    assert "I don't know" in texts["abstain"]
    assert 'never answer "I don\'t know"' in texts["never-abstain"]


def test_rendering_through_a_chat_template() -> None:
    prompt = load_prompt("rlvr")
    text = render(prompt, PROBLEM, TemplateTokenizer(CHATML))
    assert text == (
        f"<|im_start|>system\n{prompt.text}<|im_end|>\n"
        "<|im_start|>user\nWhat is 2 + 2?\n\nAnswer with a number.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [m["role"] for m in messages(prompt, PROBLEM)] == ["system", "user"]


def test_a_template_that_refuses_a_system_message_gets_it_in_front_of_the_users() -> None:
    text = render(load_prompt("rlvr"), PROBLEM, TemplateTokenizer(NO_SYSTEM))
    assert text.startswith("<|im_start|>user\nYou answer a user's question.")
    assert "What is 2 + 2?" in text


def test_plain_text_without_a_template() -> None:
    prompt = load_prompt("rlcr")
    text = render(prompt, PROBLEM, TemplateTokenizer(None))
    assert text == render(prompt, PROBLEM)
    assert text.startswith(prompt.text)
    assert text.endswith("Assistant:")


def test_a_template_that_opens_think_is_noticed() -> None:
    assert opens_think(render(load_prompt("rlcr"), PROBLEM, TemplateTokenizer(CHATML + "<think>\n")))
    assert not opens_think(render(load_prompt("rlcr"), PROBLEM, TemplateTokenizer(CHATML)))


def test_a_prompt_of_the_users_own(tmp_path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("Think in <think></think>, answer in <answer></answer>.\n", encoding="utf-8")
    prompt = load_prompt(str(path), format="rlvr")
    assert prompt.text == "Think in <think></think>, answer in <answer></answer>."
    with pytest.raises(RlcrError, match="say which format"):
        load_prompt(str(path))
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(RlcrError, match="empty"):
        load_prompt(str(tmp_path / "empty.txt"), format="rlvr")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RlcrError, match="not UTF-8"):
        load_prompt(str(tmp_path / "binary.txt"), format="rlvr")
    with pytest.raises(RlcrError, match="did you mean rlcr-long"):
        load_prompt("rlcr-lnog")
