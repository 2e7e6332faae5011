"""A tiny real model and tokenizer, built in a moment, for tests that need the real thing."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from rlcr.response import TAGS, get_format

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


TAG_TOKENS = [f"<{slash}{tag}>" for tag in TAGS for slash in ("", "/")]


def writing_tokenizer(*, chat_template: str | None = CHATML) -> Any:
    """The same tokenizer with a token for each tag."""
    tokenizer = tiny_tokenizer(chat_template=chat_template)
    tokenizer.add_tokens(TAG_TOKENS)
    return tokenizer


def writing_model(format: str = "rlcr", *, strength: float = 12.0, seed: int = 0, **settings: Any) -> Any:
    """A tiny model that mostly answers in the tags of a format whatever it is asked, with confidence 0 or 1.

    It has random weights but for its last layer, by which each token of such a response calls for the next
    one. It knows the tokens of :func:`writing_tokenizer`. ``strength`` is how much more likely that is, as a
    logit.
    """
    tokenizer = writing_tokenizer()
    model = tiny_model(seed=seed, vocab_size=len(tokenizer), **settings)
    parts = {"think": "", "answer": "4", "analysis": "", "confidence": "0"}
    tag_set = get_format(format)
    text = tag_set.render("", **{tag: parts[tag] for tag in tag_set.tags})
    response = tokenizer(text, add_special_tokens=False)["input_ids"]
    ends = [
        tokenizer(end, add_special_tokens=False)["input_ids"][-1] for end in ("assistant\n", "Assistant:")
    ]
    calls = [(end, response[0]) for end in ends]
    calls += list(pairwise([*response, tokenizer.eos_token_id]))
    zero, one = tokenizer.convert_tokens_to_ids(["0", "1"])
    calls += [(one if a == zero else a, one if b == zero else b) for a, b in calls if zero in (a, b)]
    with torch.no_grad():
        for (
            layer
        ) in model.model.layers:  # what a token calls for is in its embedding, and nearly all that is left
            layer.self_attn.o_proj.weight *= 0.01
            layer.mlp.down_proj.weight *= 0.01
        model.lm_head.weight *= 0.1
        for token, following in calls:
            embedding = model.model.embed_tokens.weight[token]
            model.lm_head.weight[following] += (
                strength * embedding / embedding.norm() / embedding.numel() ** 0.5
            )
    return model
