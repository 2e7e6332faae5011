"""From what a user types to a sampler."""

from __future__ import annotations

import re
from typing import Any

from rlcr.errors import RlcrError
from rlcr.sample import Sampler


def open_sampler(model: str, **options: Any) -> Sampler:
    """A server's address (``http://host:port/v1``, with ``#name`` where it serves several), or a local model.

    Local is a Hugging Face folder, a hub id, a LoRA adapter or a GGUF file. Torch and the OpenAI client are
    imported only by the kind that needs them.
    """
    if model.startswith(("http://", "https://")):
        from rlcr.sample.endpoint import EndpointSampler

        url, _, name = model.partition("#")
        return EndpointSampler(url, name or None, **options)
    if re.match(r"[\w.-]+:\d+(/|$)", model):
        raise RlcrError(f"{model}: if this is a server, write http://{model}")
    from rlcr.sample.local import LocalSampler

    return LocalSampler.load(model, **options)
