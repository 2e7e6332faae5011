# pyright: basic
"""What can be known of a model without loading it or asking the network: its tokenizer and its shape."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.sample.loading import ONLY_DATA


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder with gated feed-forward layers and grouped-query attention."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    vocabulary: int
    tied: bool

    @property
    def parameters(self) -> int:
        """Weights without norms and biases, which are a thousandth of them."""
        return self.embeddings + self.layers * self.layer

    @property
    def embeddings(self) -> int:
        """Weights of the input and the output."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def input_embeddings(self) -> int:
        """Weights of the input that are not those of the output as well."""
        return 0 if self.tied else self.vocabulary * self.hidden

    @property
    def layer(self) -> int:
        """Weights of one layer."""
        attention = 2 * self.hidden * self.head_size * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden * self.feed_forward

    def adapter_parameters(self, rank: int) -> int:
        """Weights of low-rank adapters on all linear layers but the head: rank x (in + out) of each."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        ends = 2 * (self.hidden + queries) + 2 * (self.hidden + keys) + 3 * (self.hidden + self.feed_forward)
        return self.layers * rank * ends


#: Public models of the recipes, from their config.json, for machines that do not have it.
KNOWN: dict[str, Shape] = {
    "Qwen/Qwen2.5-7B": Shape(3584, 28, 28, 4, 128, 18944, 152064, False),
    "Qwen/Qwen3-8B": Shape(4096, 36, 32, 8, 128, 12288, 151936, False),
    "allenai/OLMo-2-1124-7B-Instruct": Shape(4096, 32, 32, 32, 128, 11008, 100352, False),
    "HuggingFaceTB/SmolLM2-135M-Instruct": Shape(576, 30, 9, 3, 64, 1536, 49152, True),
}


def find_shape(model: str) -> tuple[Shape | None, str]:
    """The shape of a model and where it is known from; None, and why, where it is not."""
    path = _local_file(model, "config.json")
    if path is None:
        known = KNOWN.get(model)
        return known, f"the published sizes of {model}" if known else "no config.json of the model offline"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        shape = Shape(
            hidden,
            config["num_hidden_layers"],
            heads,
            config.get("num_key_value_heads") or heads,
            config.get("head_dim") or hidden // heads,
            config["intermediate_size"],
            config["vocab_size"],
            bool(config.get("tie_word_embeddings", False)),
        )
    except (ValueError, KeyError, TypeError, OSError):
        return None, f"{path} does not give the sizes of a decoder"
    return shape, "config.json"


def find_tokenizer(model: str) -> tuple[Any | None, str]:
    """The tokenizer of a model if it is on this machine; None, and why, where it is not."""
    path = _local_file(model, "tokenizer_config.json")
    if path is None:
        return None, f"no tokenizer of {model} on this machine"
    try:
        from transformers import AutoTokenizer
    except ImportError:
        return None, 'transformers is not installed (pip install "rlcr[train]")'
    try:
        # By its folder: nothing is asked of the network, not even whether there is a newer one.
        return AutoTokenizer.from_pretrained(str(path.parent), local_files_only=True, **ONLY_DATA), model
    except Exception as error:
        raise RlcrError(f"{model}: its tokenizer cannot be loaded: {str(error).splitlines()[0]}") from error


def _local_file(model: str, name: str) -> Path | None:
    """A file of a model's folder, or of its snapshot in the hub's cache."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    place = cache / f"models--{model.replace('/', '--')}"
    try:
        commit = (place / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    path = place / "snapshots" / commit / name
    return path if path.is_file() else None
