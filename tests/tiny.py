"""A tiny real model and tokenizer, built in a moment, for tests that need the real thing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS = [
    "<think>so the sum of the numbers is then divided by two</think><answer>42</answer>",
    "<analysis>the answer seems right, I am quite sure</analysis><confidence>0.85</confidence>",
    "What is the sum of 12 and 30? naïve café über 日本語 テキスト 🙂👍🏽 é",
]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@lru_cache
def _trained() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    return tokenizer.to_str()


def tiny_tokenizer(*, chat_template: str | None = CHATML) -> Any:
    """A byte-level BPE tokenizer of about 400 tokens with a chat template (or none)."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_trained()),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = chat_template
    return tokenizer


def tiny_model(kind: str = "llama", *, seed: int = 0, vocab_size: int | None = None, **settings: Any) -> Any:
    """A model of two small layers with grouped-query attention and random weights, as transformers makes it.

    Its weights are larger than usual, so that what it writes varies.
    """
    options: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "vocab_size": vocab_size or len(tiny_tokenizer()),
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "initializer_range": 0.2,
    }
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **(options | settings))
    return AutoModelForCausalLM.from_config(config).eval()
