"""A tokenizer and a model that need no download; tokens are made of bytes, so that texts come back whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

END, PAD = "<|im_end|>", "<|endoftext|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer(texts: Iterable[str] = ()) -> Any:
    """Bytes and three special tokens, with a chat template.

    What is common in ``texts`` gets tokens of its own: where a model computes, bytes would make sequences
    four times as long.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=2048, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator(texts, trainer)
    special = [AddedToken(token, normalized=False, special=True) for token in (END, PAD, "<|im_start|>")]
    inner.add_special_tokens(special)
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END, pad_token=PAD)
    made.chat_template = TEMPLATE
    return made


def model(vocabulary: int) -> Any:
    """A causal model of a few thousand random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=8192,
    )
    return LlamaForCausalLM(shape)
