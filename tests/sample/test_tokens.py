"""Token spans are exact: checked against the tokenizer's decoding and against a count of bytes, one by one."""

import random
from itertools import pairwise
from typing import Any

import pytest
from tests.tiny import tiny_tokenizer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rlcr.sample.tokens import TokenReader, continuation_spans, token_spans

TEXTS = [
    "",
    "plain words",
    "<answer>42</answer>",
    "emoji 🙂👍🏽👩‍👩‍👧 and flags 🇩🇪",
    "日本語テキスト 中文 한국어",
    "combining e\u0301 a\u0308\u0323 and \u0915\u094d\u0937\u093f",
    "a genuine \ufffd mark",
    "\x00\x7f\x80 controls \r\n\t",
]


def decode(tokenizer, ids) -> str:
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def sentencepiece_like() -> Any:
    """A Llama-2 kind of tokenizer: pieces with byte fallback, a space put before the first word."""
    words = ["▁", "a", "b", "▁a", "▁the", "the", "▁answer", "é", "▁日", "<", ">", "\n"]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, [("▁", "a")], byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


def wordpiece() -> Any:
    """A tokenizer whose tokens have no bytes of their own."""
    pieces = ["[UNK]", "[PAD]", "run", "##ning", "the", "##s", "fox", "é", "."]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    tokenizer.add_special_tokens(["[UNK]", "[PAD]"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")


def spans_byte_by_byte(tokenizer, ids) -> list[tuple[int, int]]:
    """The slow oracle for byte-level tokens: walk over characters and the bytes they came from."""
    reads = TokenReader(tokenizer)
    data = b"".join(map(reads.raw, ids))
    char_of_byte: list[int] = []
    at = char = 0
    while at < len(data):
        width = 1
        for end in range(at + 4, at, -1):  # the longest piece that is one valid character
            try:
                if len(data[at:end].decode()) == 1:
                    width = end - at
                    break
            except UnicodeDecodeError:
                pass
        else:  # invalid: as many bytes as Python replaces by one mark
            for end in range(min(at + 3, len(data)), at, -1):
                if data[at:end].decode(errors="replace") == "\ufffd":
                    width = end - at
                    break
        char_of_byte += [char] * width
        at, char = at + width, char + 1
    spans, position, last = [], 0, 0
    for token in ids:
        covered = char_of_byte[position : position + len(reads.raw(token))]
        position += len(covered)
        last = covered[-1] + 1 if covered else last
        spans.append((covered[0], last) if covered else (last, last))
    return spans


@pytest.mark.parametrize("text", TEXTS)
def test_every_character_of_encoded_text_is_covered_by_its_tokens(text: str) -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    found, spans = token_spans(tokenizer, ids)
    assert found == text
    assert spans == spans_byte_by_byte(tokenizer, ids)
    assert {i for a, b in spans for i in range(a, b)} == set(range(len(text)))
    assert all(a <= c and b <= d for (a, b), (c, d) in pairwise(spans))


def test_random_tokens_including_invalid_utf8_and_special_ones() -> None:
    tokenizer = tiny_tokenizer()
    rng = random.Random(0)
    for _ in range(300):
        ids = [rng.randrange(len(tokenizer)) for _ in range(rng.randrange(40))]
        text, spans = token_spans(tokenizer, ids)
        assert text == decode(tokenizer, ids)
        assert spans == spans_byte_by_byte(tokenizer, ids)
        assert all(a == b for (a, b), token in zip(spans, ids, strict=True) if token < 3)


def test_random_single_bytes() -> None:
    tokenizer = tiny_tokenizer()
    rng = random.Random(1)
    singles = [i for i in range(3, 259) if len(TokenReader(tokenizer).raw(i)) == 1]
    assert len(singles) == 256
    high = [i for i in singles if TokenReader(tokenizer).raw(i)[0] >= 0x80]
    for _ in range(300):
        ids = rng.choices(high, k=30) + rng.choices(singles, k=5)
        text, spans = token_spans(tokenizer, ids)
        assert text == decode(tokenizer, ids)
        assert spans == spans_byte_by_byte(tokenizer, ids)


def test_a_character_split_over_tokens_belongs_to_each() -> None:
    tokenizer = tiny_tokenizer()
    reads = TokenReader(tokenizer)
    byte = {reads.raw(i): i for i in range(3, 259)}
    ids = [byte[b"a"], *(byte[bytes([b])] for b in "🙂".encode()), byte[b"b"]]
    assert token_spans(tokenizer, ids) == ("a🙂b", [(0, 1), (1, 2), (1, 2), (1, 2), (1, 2), (2, 3)])


def test_added_tokens_and_ids_beyond_the_vocabulary() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<think>", "two words", "日本"])
    ids = [*tokenizer("x<think>two words日本")["input_ids"], len(tokenizer) + 5]
    text, spans = token_spans(tokenizer, ids)
    assert text == decode(tokenizer, ids) == "x<think>two words日本"
    assert spans[-4:] == [(1, 8), (8, 17), (17, 19), (19, 19)]


def test_pieces_with_byte_fallback() -> None:
    tokenizer = sentencepiece_like()
    ids = tokenizer.convert_tokens_to_ids(
        ["▁the", "▁answer", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "a", "</s>"]
    )
    text, spans = token_spans(tokenizer, ids)
    assert text == "the answer🙂a"
    assert spans == [(0, 3), (3, 10), (10, 11), (10, 11), (10, 11), (10, 11), (11, 12), (12, 12)]
    rng = random.Random(0)
    for _ in range(300):
        ids = [rng.choice((rng.randrange(259), rng.randrange(259, len(tokenizer)))) for _ in range(12)]
        text, spans = token_spans(tokenizer, ids)
        assert text == decode(tokenizer, ids)
        assert {i for a, b in spans for i in range(a, b)} == set(range(len(text)))
        for token, (a, b) in zip(ids, spans, strict=True):
            piece = tokenizer.convert_ids_to_tokens(token)
            if token >= 259 and a > 0:
                assert text[a:b] == piece.replace("▁", " ")


def test_any_other_tokenizer() -> None:
    tokenizer = wordpiece()
    rng = random.Random(0)
    for _ in range(50):
        ids = [rng.randrange(len(tokenizer)) for _ in range(15)]
        text, spans = token_spans(tokenizer, ids)
        assert text == decode(tokenizer, ids)
        assert {i for a, b in spans for i in range(a, b)} == set(range(len(text)))
    ids = tokenizer("the running foxs")["input_ids"]
    text, spans = token_spans(tokenizer, ids)
    assert [text[a:b].strip() for a, b in spans] == ["the", "run", "ning", "fox", "s"]


def test_a_continuation_keeps_the_space_of_its_first_word() -> None:
    tokenizer = sentencepiece_like()
    the, answer = tokenizer.convert_tokens_to_ids(["▁the", "▁answer"])
    assert token_spans(tokenizer, [answer])[0] == "answer"
    assert continuation_spans(tokenizer, [the], [answer, answer]) == (" answer answer", [(0, 7), (7, 14)])


def test_long_texts_take_linear_time() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer("the sum 🙂 日本 " * 4000)["input_ids"]
    text, spans = token_spans(tokenizer, ids)
    assert len(ids) > 30_000
    assert spans[-1][1] == len(text)
