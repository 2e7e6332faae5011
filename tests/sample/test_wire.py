"""The wire format: tokens and their spans, broken replies, seeds."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import pytest
from tests.sample.endpoints import GREEDY, ask, patient
from tests.servers import ModelServer, model_reply

from rlcr.sample import Sampling, wire

EMOJI = "plain é 🙂🙃 naïve 日本"


@pytest.mark.parametrize("mode", ["chat", "completion"])
@pytest.mark.parametrize("style", ["bytes", "vllm", "replaced"])
def test_spans_where_characters_are_split_across_tokens(style: Any, mode: Any) -> None:
    with ModelServer(lambda _: EMOJI, tokens=style) as server:
        [one] = patient(server, mode=mode).sample([ask(1)], GREEDY)
    assert one.text == EMOJI
    assert len(one.logprobs) == len(one.token_spans) > 0
    covered = [set(range(a, b)) for a, b in one.token_spans]
    assert set().union(*covered) == set(range(len(EMOJI)))
    assert all(a[0] <= b[0] for a, b in pairwise(one.token_spans))
    for at, character in enumerate(EMOJI):
        holders = [one.token_spans[i] for i, span in enumerate(covered) if at in span]
        if character in "🙂🙃日本":  # each in two halves
            assert len(holders) >= 2
            if style == "bytes":
                assert len(holders) == 2
                assert holders[1] == (at, at + 1)
        elif style == "bytes" and character.isascii() and EMOJI[at + 1 : at + 2].isascii():
            assert len(holders) == 1


def test_spans_against_a_slow_oracle() -> None:
    """Cut random text, also invalid UTF-8, into random bytes: a token covers its bytes' characters."""
    import random

    draw = random.Random(0)
    for _ in range(1000):
        characters = [draw.choice("ab é🙂日�\n").encode() for _ in range(draw.randint(0, 12))]
        # A character cut short before one that does not go on with it decodes to one U+FFFD.
        characters = [
            c[: draw.randint(2, 3)] if len(c) == 4 and draw.random() < 0.3 else c for c in characters
        ]
        data = b"".join(characters)
        text = data.decode("utf-8", "replace")
        owner = [at for at, character in enumerate(characters) for _ in character]
        cuts = sorted(draw.randint(0, len(data)) for _ in range(draw.randint(0, 6)))
        bounds = [(a, b) for a, b in pairwise([0, *cuts, len(data)]) if a < b]
        tokens = [data[a:b] for a, b in bounds]
        spans = tuple((owner[a], owner[b - 1] + 1) for a, b in bounds)
        assert wire.token_spans(text, tokens) == spans, (text, tokens)
        end = (len(text), len(text))
        assert wire.token_spans(text, [*tokens, b"<|im_end|>"]) == (*spans, end)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("abc", [b"ab"]), ("abc", [b"x", b"y"]), ("héllo", [b"h", "�".encode(), b"xx"]), ("a", [])],
)
def test_tokens_of_another_text_have_no_spans(text: str, tokens: list[bytes]) -> None:
    assert wire.token_spans(text, tokens) is None


def test_a_text_cut_inside_a_character() -> None:
    assert wire.token_spans("a�", [b"a", b"\xf0\x9f"]) == ((0, 1), (1, 2))


def test_a_special_token_in_the_middle_covers_nothing() -> None:
    assert wire.token_spans("ab", [b"a", b"<|x|>", b"b"]) == ((0, 1), (1, 1), (1, 2))


def test_a_real_model_behind_the_server() -> None:
    """Text, spans and logprobs are those of the model, which writes invalid UTF-8 too."""
    pytest.importorskip("transformers")
    import torch
    from tests.tiny import tiny_model, tiny_tokenizer

    from rlcr.sample.tokens import token_spans

    tokenizer, model = tiny_tokenizer(), tiny_model()
    conversation = list(ask(1).messages)
    prompt = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    wrote = model.generate(ids, max_new_tokens=24, do_sample=False)[0]
    new = wrote[ids.shape[1] :]
    with torch.no_grad():
        logprobs = model(wrote[None]).logits[0, ids.shape[1] - 1 : -1].log_softmax(-1)
    text, spans = token_spans(tokenizer, new.tolist())
    with ModelServer(model_reply(model, tokenizer)) as server:
        [one] = patient(server, tokenizer=tokenizer).sample([ask(1)], Sampling(24))
    assert one.text == text
    assert list(one.token_spans) == spans
    assert one.logprobs == pytest.approx(logprobs.gather(1, new[:, None])[:, 0].tolist(), abs=1e-4)


def test_a_broken_reply_is_asked_for_again_and_then_named() -> None:
    request = ask(1)
    good = {"choices": [{"finish_reason": "stop", "message": {"content": None}}], "usage": None}
    [one] = wire.completions(good, request, GREEDY, first=0, n=1, think_open=None)
    assert (one.text, one.completion_tokens) == ("", 0)
    for broken, missing in [
        ([], "choices"),
        ({"choices": []}, "no choices"),
        ({"choices": [{"message": {}}]}, "finish_reason"),
        ({"choices": [{"finish_reason": "stop"}]}, "text"),
        ({"choices": [{"finish_reason": "stop", "message": {"content": ["x"]}}]}, "no text"),
        ({"choices": [{"finish_reason": "abort", "text": "x"}]}, "gave up"),
        ({"choices": [{"finish_reason": "stop", "text": "x", "logprobs": {"tokens": ["x"]}}]}, "logprobs"),
    ]:
        with pytest.raises(wire.BrokenReplyError, match=missing):
            wire.completions(broken, request, GREEDY, first=0, n=1, think_open=None)


def test_seeds_do_not_repeat() -> None:
    seeds = {wire.derived_seed(s, f"q{k}", n) for s in range(3) for k in range(30) for n in range(30)}
    assert len(seeds) == 2700
    assert max(seeds) < 2**31
    assert wire.derived_seed(0, "a", 1) == (int(hashlib.sha256(b"0\0a").hexdigest()[:8], 16) >> 1) + 1
