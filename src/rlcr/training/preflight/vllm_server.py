"""Is a vLLM server up, and was it started so that a trainer can use it? Asked before a model is loaded."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from rlcr.errors import RlcrError
from rlcr.training.recipes.settings import Recipe

_SECONDS = 30


def serve_line(recipe: Recipe) -> str:
    """The line that starts a server for a recipe.

    >>> from rlcr.training.recipes import load_recipe
    >>> print(serve_line(load_recipe("hotpotqa-rlcr").recipe))
    VLLM_SERVER_DEV_MODE=1 vllm serve Qwen/Qwen2.5-7B --max-model-len 4608 --logprobs-mode processed_logprobs --weight-transfer-config '{"backend": "nccl"}'
    """  # noqa: E501 (a line to copy)
    return (
        f"VLLM_SERVER_DEV_MODE=1 vllm serve {recipe.model} --max-model-len {recipe.vllm_length}"
        """ --logprobs-mode processed_logprobs --weight-transfer-config '{"backend": "nccl"}'"""
    )


def check_vllm_server(recipe: Recipe, device: str) -> None:
    """Raise if the recipe names a server that cannot sample for it, and say how to start one that can."""
    server = recipe.vllm.server if recipe.vllm else None
    if server is None:
        return
    if device != "cuda":
        raise RlcrError(
            f"vllm.server: the trainer sends its weights from GPU to GPU (NCCL), but trains on {device}:"
            " leave out vllm.server, and vLLM samples inside the trainer"
        )
    start = f"start it with: {serve_line(recipe)}"
    config = _config(server.rstrip("/"), start)
    model = config.get("model_config") or {}
    if config.get("weight_transfer_config") is None:
        raise RlcrError(f"vllm.server: {server} cannot be given new weights; {start}")
    if model.get("logprobs_mode") != "processed_logprobs":
        raise RlcrError(
            f"vllm.server: {server} states probabilities before the temperature (--logprobs-mode"
            f" {model.get('logprobs_mode')}), which cannot be compared with the trainer's; {start}"
        )
    held = model.get("max_model_len")
    if isinstance(held, int) and held < recipe.vllm_length:
        raise RlcrError(
            f"vllm.server: {server} holds {held:,} tokens of prompt and completion, the recipe needs"
            f" {recipe.vllm_length:,}; {start}"
        )


def _config(server: str, start: str) -> dict[str, Any]:
    """The server's configuration, which it tells only in its development mode."""
    try:
        with urllib.request.urlopen(f"{server}/server_info?config_format=json", timeout=_SECONDS) as reply:
            found = json.load(reply)
    except urllib.error.HTTPError as error:
        raise RlcrError(
            f"vllm.server: {server} does not tell its configuration (HTTP {error.code}); {start}"
        ) from None
    except (OSError, ValueError) as error:
        raise RlcrError(f"vllm.server: no vLLM answers at {server} ({error}); {start}") from None
    config = found.get("vllm_config") if isinstance(found, dict) else None
    if not isinstance(config, dict):
        raise RlcrError(f"vllm.server: {server} does not tell its configuration; {start}")
    return config
