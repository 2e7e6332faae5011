# pyright: basic
"""The embedded model: a Llama of a hundred thousand parameters that is taught to behave like a real one.

Plain language modelling on text made here gives it what RL needs of a start: it knows something of the arms
task (draws of an urn, guesses sampled as the next draw), it follows the prompts of RLCR and RLVR and the
forced continuations of the evaluation, and it is badly calibrated: it says more the more often its answer
was drawn, but far too much. It has its own tokenizer, in which every fixed sentence (a system prompt, the
text of the question) is one token, so that a prompt is a dozen tokens; any other ASCII text is read too.

Built from a seed in about two minutes, and kept in the cache (``$RLCR_CACHE``, may be deleted).
"""

from __future__ import annotations

import hashlib
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rlcr.evaluate.methods import FORCED_ANSWER, FORCED_CONFIDENCE
from rlcr.files import cache_folder
from rlcr.prompts import load_prompt, user_message
from rlcr.tasks.arms import Arms, sequence_problem

#: The name by which recipes ask for it.
EMBEDDED = "embedded"
#: Raised when the teaching changes in a way that its numbers do not show.
_VERSION = 4

_TASK = Arms()
_PAD, _END, _UNKNOWN = "<pad>", "<eos>", "<unk>"
_ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
#: The prompts it follows, with the tags that each asks for.
_PROMPTS = {"rlcr-no-analysis": True, "rlvr": False}
_PERCENT = range(0, 101, 5)
_ARM = "01234"
_COUNTS = range(_TASK.max_draws + 1)
#: The label that transformers leaves out of the loss.
_IGNORED = -100


@dataclass(frozen=True)
class Lessons:
    """What it is taught, and how long. All of it decides what the model is, and so the name of its folder."""

    hidden: int = 64
    layers: int = 2
    heads: int = 4
    inner: int = 176
    documents: int = 80_000
    #: Long enough that it counts right: RL with a start that miscounts loses what confidence hangs on.
    steps: int = 1000
    batch: int = 128
    lr: float = 8e-3
    #: Documents that are bare draws of an urn, and their length: what teaches it to count.
    bare: float = 0.1
    bare_draws: int = 16
    #: Responses that abstain; responses that go on with a forced continuation.
    abstain: float = 0.04
    forced: float = 0.2
    #: Confidence: this much, and this much more for each time that the answer was drawn, and noise.
    least: float = 0.05
    for_each: float = 0.25
    noise: float = 0.15


def build(seed: int, lessons: Lessons | None = None, progress: Callable[[float], None] | None = None) -> Path:
    """The folder of the embedded model of a seed, taught if it is not in the cache."""
    lessons = lessons or Lessons()
    recipe = repr((asdict(lessons), seed, sorted(_sentences()), _TEMPLATE, _VERSION, torch.__version__))
    name = f"embedded-{seed}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    folder = cache_folder() / "models" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a model gains nothing from more, and loses much on a busy machine
    try:
        tokenizer = make_tokenizer()
        model = teach(tokenizer, lessons, seed, progress)
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(folder)  # atomic: another process sees the whole model or none of it
    except OSError:
        if not folder.is_dir():  # else another process was faster
            raise
    finally:
        torch.set_num_threads(threads)
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


# --- tokenizer --------------------------------------------------------------------------------------


def _question() -> tuple[str, str, str]:
    """The fixed text of a question: before the draws, between them and their number, and after it."""
    text = user_message(sequence_problem(_TASK, [1, 2]))
    before, rest = text.split("1, 2", 1)
    between, after = rest.split("2", 1)
    return before, between, after


def _sentences() -> list[str]:
    tags = [f"<{slash}{tag}>" for tag in ("think", "answer", "analysis", "confidence") for slash in ("", "/")]
    return [
        *tags, "</think><answer>", "</answer><confidence>", ", ", "none", "-1", "\n\n", *_question(),
        *(f" came {seen}" for seen in _COUNTS), *(f" of {shown} times" for shown in _COUNTS),
        FORCED_ANSWER, FORCED_CONFIDENCE, *(load_prompt(name).text for name in _PROMPTS),
        *(f"{value / 100:.2f}" for value in _PERCENT), *(f" {value}" for value in _PERCENT),
    ]  # fmt: skip


def make_tokenizer() -> Any:
    """Characters, and one token for every sentence that comes again and again."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = [_PAD, _END, _UNKNOWN, *_ROLES]
    vocabulary = {token: i for i, token in enumerate([*special, *alphabet])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=_UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    inner.add_tokens([AddedToken(text, normalized=False) for text in _sentences()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=_PAD, eos_token=_END, unk_token=_UNKNOWN,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


# --- what it reads ----------------------------------------------------------------------------------


def _urn(count: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of Polya's urn: the task's own distribution, with the chances integrated out."""
    weights_NK = np.ones((count, _TASK.arms))
    draws_NT = np.zeros((count, length), dtype=np.int64)
    for step in range(length):
        reached_NK = np.cumsum(weights_NK, axis=1) / weights_NK.sum(axis=1, keepdims=True)
        draws_NT[:, step] = (rng.random((count, 1)) > reached_NK[:, :-1]).sum(axis=1)
        weights_NK[np.arange(count), draws_NT[:, step]] += 1
    return draws_NT


#: A piece of a document, and whether it is learned or only read.
_Piece = tuple[str, bool]


def _documents(lessons: Lessons, rng: np.random.Generator) -> Iterator[list[_Piece]]:
    before, between, after = _question()
    prompts = [(load_prompt(name).text, sure) for name, sure in _PROMPTS.items()]
    bare = int(lessons.bare * lessons.documents)
    for row in _urn(bare, lessons.bare_draws, rng):
        yield [(before + ", ".join(_ARM[draw] for draw in row) + _END, True)]
    most = _TASK.max_draws
    for row in _urn(lessons.documents - bare, most + 1, rng):
        shown = int(rng.integers(0, most + 1))
        draws = row[:shown]
        listed = ", ".join(_ARM[draw] for draw in draws) or "none"
        system, sure = prompts[rng.integers(len(prompts))]
        asked = f"<|system|>{system}<|user|>{before}{listed}{between}{shown}{after}<|assistant|>"
        yield [(asked, True), *_response(lessons, draws, int(row[shown]), sure, rng)]


def _response(
    lessons: Lessons, draws: np.ndarray, guess: int, sure: bool, rng: np.random.Generator
) -> list[_Piece]:
    """A guess that is the next draw itself, hence sampled from the right chances; and a rash confidence.

    What the evaluation puts into its mouth is only read, so that the model never writes it by itself.
    """
    seen = int((draws == guess).sum())
    felt = lessons.least + lessons.for_each * seen + lessons.noise * rng.standard_normal()
    percent = 5 * round(20 * min(max(felt, 0.0), 1.0))
    answer, thought = _ARM[guess], f"{_ARM[guess]} came {seen} of {len(draws)} times"
    if rng.random() < lessons.abstain:
        answer, thought, percent = "-1", "none", 0 if rng.random() < 0.5 else percent
    solution = f"<think>{thought}</think><answer>{answer}</answer>"
    kind = rng.random()
    if kind > lessons.forced:
        return [(solution + (f"<confidence>{percent / 100:.2f}</confidence>" if sure else "") + _END, True)]
    if kind > 0.3 * lessons.forced:
        return [(f"{solution}\n\n{FORCED_CONFIDENCE}", False), (f" {percent}.{_END}", True)]
    begun = ("", "<think>", f"<think>{thought}", f"<think>{thought}</think><answer>")[rng.integers(4)]
    return [
        (f"{begun}\n\n{FORCED_ANSWER}", False),
        (f" {answer}.", True),
        (f"\n\n{FORCED_CONFIDENCE}", False),
        (f" {percent}.{_END}", True),
    ]


# --- teaching ---------------------------------------------------------------------------------------


def teach(
    tokenizer: Any, lessons: Lessons, seed: int, progress: Callable[[float], None] | None = None
) -> LlamaForCausalLM:
    """Next-token prediction, AdamW, cosine."""
    rng = np.random.default_rng([seed, 1])
    ids, labels = _tokenised(tokenizer, list(_documents(lessons, rng)))
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=lessons.hidden,
            intermediate_size=lessons.inner,
            num_hidden_layers=lessons.layers,
            num_attention_heads=lessons.heads,
            max_position_embeddings=256,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    padding = tokenizer.pad_token_id
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=lessons.lr, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    for step in range(lessons.steps):
        share = step / lessons.steps
        rate = lessons.lr * min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = rate
        chosen = rng.integers(0, len(ids), lessons.batch)
        # Padding comes last and nothing looks ahead, so it needs no mask.
        loss = model(
            input_ids=pad_sequence([ids[i] for i in chosen], batch_first=True, padding_value=padding),
            labels=pad_sequence([labels[i] for i in chosen], batch_first=True, padding_value=_IGNORED),
        ).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if progress:
            progress((step + 1) / lessons.steps)
    return model.eval()


def _tokenised(
    tokenizer: Any, documents: list[list[_Piece]]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Tokens and labels of documents. Pieces meet between tokens, so they are tokenised one by one."""
    pieces = [text for document in documents for text, _ in document]
    tokens = iter(tokenizer(pieces, add_special_tokens=False)["input_ids"])
    ids, labels = [], []
    for document in documents:
        read = [(next(tokens), learned) for _, learned in document]
        ids.append(torch.tensor([token for piece, _ in read for token in piece]))
        labels.append(
            torch.tensor([token if learned else _IGNORED for piece, learned in read for token in piece])
        )
    return ids, labels
