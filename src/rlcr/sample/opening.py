"""From what a user types to a sampler."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Literal

from rlcr.errors import RlcrError
from rlcr.sample import Sampler

Mode = Literal["chat", "completion"]


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a model, where that is not the usual way. None is the usual way.

    Of a server: ``mode`` chat leaves the chat template to the server, completion sends text rendered with
    that of ``tokenizer`` (a folder or hub id), which is how a response can be continued on any server;
    ``concurrency`` requests at once; ``timeout`` in seconds for each. Of a local model: ``device`` and
    ``dtype``.
    """

    mode: Mode | None = None
    tokenizer: str | None = None
    concurrency: int | None = None
    timeout: float | None = None
    device: str | None = None
    dtype: str | None = None

    def given(self) -> dict[str, str | int | float]:
        """What is not left to the default."""
        return {name: value for name, value in asdict(self).items() if value is not None}


_LOCAL = ("device", "dtype")


def open_sampler(model: str, access: Access | None = None) -> Sampler:
    """A server's address (``http://host:port/v1``, with ``#name`` where it serves several), or a local model.

    Local is a Hugging Face folder, a hub id, a LoRA adapter or a GGUF file. Torch and the OpenAI client are
    imported only by the kind that needs them.
    """
    access = access or Access()
    if model.startswith(("http://", "https://")):
        return _open_server(model, access)
    if re.match(r"[\w.-]+:\d+(/|$)", model):
        raise RlcrError(f"{model}: if this is a server, write http://{model}")
    _refuse([name for name in access.given() if name not in _LOCAL], f"for servers; {model} is a local model")
    from rlcr.sample.local import LocalSampler

    return LocalSampler.load(model, device=access.device or "auto", dtype=access.dtype or "auto")


def _open_server(model: str, access: Access) -> Sampler:
    _refuse([name for name in access.given() if name in _LOCAL], f"for local models; {model} is a server")
    if access.tokenizer and access.mode == "chat":
        raise RlcrError("tokenizer is for completion mode: in chat mode the server has its own")
    from rlcr.sample.endpoint import EndpointSampler

    tokenizer = None
    if access.tokenizer:
        from rlcr.sample.loading import load_tokenizer

        tokenizer = load_tokenizer(access.tokenizer)
    url, _, name = model.partition("#")
    return EndpointSampler(
        url,
        name or None,
        mode=access.mode or "auto",
        tokenizer=tokenizer,
        concurrency=16 if access.concurrency is None else access.concurrency,
        timeout=600.0 if access.timeout is None else access.timeout,
    )


def _refuse(names: list[str], why: str) -> None:
    if names:
        raise RlcrError(f"{', '.join(names)}: {'is' if len(names) == 1 else 'are'} {why}")
