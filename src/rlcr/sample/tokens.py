"""The tokens of a prompt, and which characters of a decoded text each token covers.

Sampling, training and embedding tokenise prompts here and nowhere else (`encode_prompts`).

Answer probabilities and loss masks live on tokens, tags and answers on characters; this is the bridge. It
never tokenises a response again: from the sampled ids it makes both the text and the spans.

Three ways, in this order, each checked against the tokenizer's own decoding before it is believed:

* byte-level BPE (Llama 3, Qwen, OLMo, SmolLM): a token is a string of bytes, and the text is their UTF-8;
* pieces with byte fallback (Llama 2, Gemma, Mistral): a token is a word piece or one byte;
* anything else: by decoding growing windows. There, tokens that only together make text share its span.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from rlcr.prompts import Message, render_messages
from rlcr.sample import sendable

Span = tuple[int, int]

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
#: What a piece of invalid UTF-8 becomes while we count: a surrogate that holds its length in bytes. Valid
#: UTF-8 never decodes to a surrogate, so it cannot be mistaken for text.
_INVALID = 0xDC00
_MARK = "\ufffd".encode()


def _mark_invalid(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return chr(_INVALID + error.end - error.start), error.end


codecs.register_error("rlcr.mark_invalid", _mark_invalid)


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-ins for the 256 bytes that every byte-level BPE since GPT-2 uses."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


_ALPHABET = _byte_alphabet()


class TokenReader:
    """Reads tokens of one tokenizer; :func:`token_spans` keeps one for each tokenizer in use."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        added = getattr(tokenizer, "added_tokens_decoder", {})
        self.special = {i for i, token in added.items() if token.special}
        backend = getattr(tokenizer, "backend_tokenizer", None)
        decoder = repr(getattr(backend, "decoder", None))
        # The library offers no way to ask for the kind of decoder but its name.
        self.byte_level = decoder.startswith("ByteLevel(")
        self.byte_fallback = "ByteFallback(" in decoder
        self._raw: dict[int, bytes] = {}

    @cached_property
    def start(self) -> list[int]:
        """The tokens that the tokenizer puts before a text. Those that it puts behind would end a prompt."""
        probe = "Assistant:"
        bare, whole = (list(self.tokenizer(probe, add_special_tokens=x)["input_ids"]) for x in (False, True))
        starts = range(len(whole) - len(bare) + 1)
        return whole[: next((at for at in starts if whole[at : at + len(bare)] == bare), 0)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text, without special tokens and otherwise untouched."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def raw(self, token: int) -> bytes:
        """The bytes that a token adds to the text (nearly so, where a token has no bytes of its own)."""
        if (known := self._raw.get(token)) is None:
            known = self._raw[token] = b"" if token in self.special else self._read(token)
        return known

    def _read(self, token: int) -> bytes:
        if not self.byte_level and not self.byte_fallback:
            return self.decode([token]).encode("utf-8", "replace")
        piece = self.tokenizer.convert_ids_to_tokens(token)
        if piece is None:  # the model's vocabulary may be padded beyond the tokenizer's
            return b""
        if self.byte_level:
            # An added token may hold characters outside the alphabet; it then stands for itself.
            known = [_ALPHABET.get(char) for char in piece]
            return piece.encode() if None in known else bytes(byte for byte in known if byte is not None)
        match = _BYTE_PIECE.fullmatch(piece)
        return bytes([int(match[1], 16)]) if match else piece.replace("▁", " ").encode()

    def spans(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """The text of the tokens and each one's span of characters."""
        text = self.decode(ids)
        if self.byte_level:
            guess = _from_bytes([self.raw(token) for token in ids])
        elif self.byte_fallback:
            guess = self._from_pieces(ids)
        else:
            guess = self._from_windows(ids)
        decoded, spans = guess
        if decoded == text:
            return text, spans
        # Sentencepiece decoders strip the space that they put before the first word.
        stripped = len(decoded) - len(text)
        if stripped > 0 and decoded[stripped:] == text and not decoded[:stripped].strip(" "):
            return text, [(max(a - stripped, 0), max(b - stripped, 0)) for a, b in spans]
        return text, self._from_prefixes(ids, text)

    def _from_pieces(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """A run of byte tokens is UTF-8 if it is valid as a whole, else one mark for each byte."""
        pieces = [self.raw(token) for token in ids]
        start = 0
        while start < len(ids):
            stop = start + 1
            if self._is_byte(ids[start]):
                # Special tokens are gone before bytes are joined, so they do not end a run.
                while stop < len(ids) and (ids[stop] in self.special or self._is_byte(ids[stop])):
                    stop += 1
                if not _valid(b"".join(pieces[start:stop])):
                    pieces[start:stop] = [_MARK if piece else b"" for piece in pieces[start:stop]]
            start = stop
        return _from_bytes(pieces)

    def _is_byte(self, token: int) -> bool:
        if len(self.raw(token)) != 1:
            return False
        return _BYTE_PIECE.fullmatch(self.tokenizer.convert_ids_to_tokens(token)) is not None

    def _from_windows(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """Decode from one settled token before the open ones, so that words keep their leading space."""
        text, spans, length = [], [], 0
        settled = start = 0
        for stop in range(1, len(ids) + 1):
            before = self.decode(ids[settled:start])
            window = self.decode(ids[settled:stop])
            if window.endswith("\ufffd") and stop < len(ids) and stop - start < 8:
                continue  # perhaps the first bytes of a character
            piece = window[len(before) :]
            text.append(piece)
            spans += [(length, length + len(piece))] * (stop - start)
            length += len(piece)
            settled, start = start, stop
        return "".join(text), spans

    def _from_prefixes(self, ids: Sequence[int], text: str) -> list[Span]:
        """The last resort, quadratic: a token covers what the decoded prefix gains with it."""
        ends = [0]
        for stop in range(1, len(ids) + 1):
            prefix = self.decode(ids[:stop]).rstrip("\ufffd") if stop < len(ids) else text
            ends.append(max(ends[-1], min(len(prefix), len(text))))
        return list(pairwise(ends))


def _valid(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _from_bytes(pieces: list[bytes]) -> tuple[str, list[Span]]:
    """Join the bytes, decode, and find the characters that the bytes of each piece belong to."""
    marked = b"".join(pieces).decode("utf-8", "rlcr.mark_invalid")
    codes = np.frombuffer(marked.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    invalid = (codes >= _INVALID) & (codes < _INVALID + 8)
    widths = 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
    char_ends = np.cumsum(np.where(invalid, codes - _INVALID, widths))
    text = marked
    if invalid.any():
        text = "".join("\ufffd" if bad else char for char, bad in zip(marked, invalid.tolist(), strict=True))
    byte_ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    byte_starts = byte_ends - np.array([len(piece) for piece in pieces], dtype=np.int64)
    # The character of a byte is the first one that ends after it. A token without bytes gets an empty span
    # behind the last character begun before it.
    starts = np.searchsorted(char_ends, byte_starts, side="right")
    stops = np.searchsorted(char_ends, byte_ends - 1, side="right") + 1
    empty = byte_starts == byte_ends
    stops = np.where(byte_ends == 0, 0, stops)
    starts = np.where(empty, stops, starts)
    return text, list(zip(starts.tolist(), stops.tolist(), strict=True))


@lru_cache(maxsize=8)
def _reader(tokenizer: Any, size: int) -> TokenReader:
    return TokenReader(tokenizer)


def reader(tokenizer: Any) -> TokenReader:
    """The reader of a tokenizer; a new one after tokens were added to it."""
    return _reader(tokenizer, len(tokenizer))


def encode_prompts(conversations: Sequence[Sequence[Message]], tokenizer: Any) -> list[tuple[str, list[int]]]:
    """The text that the model continues, and its tokens, of each conversation."""
    texts = [sendable(render_messages(conversation, tokenizer)) for conversation in conversations]
    # A chat template writes its own special tokens; plain text gets the tokenizer's.
    start = [] if tokenizer.chat_template else reader(tokenizer).start
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
    return [(text, [*start, *ids]) for text, ids in zip(texts, encoded, strict=True)]


def token_spans(tokenizer: Any, token_ids: Sequence[int]) -> tuple[str, list[Span]]:
    """The decoded text (special tokens skipped) and the span of characters that each token covers.

    A token that holds a part of a character's bytes covers that character, so spans may overlap; special
    tokens have empty spans. The text is what ``tokenizer.decode`` gives with ``skip_special_tokens=True``
    and ``clean_up_tokenization_spaces=False``.
    """
    return reader(tokenizer).spans(token_ids)


def continuation_spans(
    tokenizer: Any, before_ids: Sequence[int], token_ids: Sequence[int]
) -> tuple[str, list[Span]]:
    """Text and spans of tokens that continue others: what they add, with the space of a first word.

    Decoded alone, the first word of a sentencepiece model would lose its space.
    """
    if not before_ids:
        return token_spans(tokenizer, token_ids)
    reads = reader(tokenizer)
    before = reads.decode(before_ids)
    text, spans = reads.spans([*before_ids, *token_ids])
    if not text.startswith(before):  # the cut went through a character
        return reads.spans(token_ids)
    shift = len(before)
    inner = [(max(a - shift, 0), max(b - shift, 0)) for a, b in spans[len(before_ids) :]]
    return text[shift:], inner
