"""From a model's name to a sampler.

Prompts and the API key go only to a server whose address the user gave. A run folder may come from someone
else, who decides what its ``run.json`` says: a name that was read from a file is `Stored`, and a server so
named is opened only if the user lists it in ``RLCR_ENDPOINTS`` (base URLs, separated by commas). This holds
for servers on this machine too: a port may belong to another user.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from rlcr.errors import RlcrError
from rlcr.prompts.template import Argument, set_arguments
from rlcr.sample import Sampler

Mode = Literal["chat", "completion"]
ENDPOINTS = "RLCR_ENDPOINTS"


@dataclass(frozen=True, slots=True)
class Typed:
    """A model that the user named, in this command or in the code that calls us."""

    model: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A model that a file names. ``option`` is how the user can name it instead."""

    model: str
    file: Path
    option: str

    def check_server(self) -> None:
        """Raise unless the user lists the server among their own."""
        address = _address(self.model)
        known = [_address(url.strip()) for url in os.environ.get(ENDPOINTS, "").split(",")]
        if address is None or address not in known:
            raise RlcrError(
                f"{self.file} names the server {self.model!r}, and nothing is sent to an address that only a"
                f" file names: give it as {self.option}, or list it in {ENDPOINTS}"
            )


def _address(model: str) -> tuple[str, str, int | None, str] | None:
    """What must be the same for two addresses to be one; None for what is no address."""
    try:
        parts = urlsplit(model)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # a port that is no number
        return None
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a model, where that is not the usual way. None is the usual way.

    Of a server: ``mode`` chat leaves the chat template to the server, completion sends text rendered with
    that of ``tokenizer`` (a folder or hub id), which is how a response can be continued on any server;
    ``concurrency`` requests at once; ``timeout`` in seconds for each; ``impatient`` where someone waits for
    the answer: few attempts, seconds between them. Of a local model: ``device`` and
    ``dtype``. Of both: ``chat_template``, arguments of it.
    """

    mode: Mode | None = None
    tokenizer: str | None = None
    concurrency: int | None = None
    timeout: float | None = None
    device: str | None = None
    dtype: str | None = None
    chat_template: Mapping[str, Argument] | None = None
    impatient: bool | None = None

    def given(self) -> dict[str, Any]:
        """What is not left to the default."""
        return {name: value for name, value in asdict(self).items() if value is not None}


#: Of those who are impatient.
_ATTEMPTS, _LONGEST_WAIT = 3, 5.0

_LOCAL, _ANY = ("device", "dtype"), ("chat_template",)


def open_sampler(named: Typed | Stored, access: Access | None = None) -> Sampler:
    """A server's address (``http://host:port/v1``, with ``#name`` where it serves several), or a local model.

    Local is a Hugging Face folder, a hub id, a LoRA adapter or a GGUF file. Torch and the OpenAI client are
    imported only by the kind that needs them.
    """
    access, model = access or Access(), named.model
    check_access(named, access)
    if is_server(model):
        return _open_server(model, access)
    from rlcr.sample.local import LocalSampler

    sampler = LocalSampler.load(model, device=access.device or "auto", dtype=access.dtype or "auto")
    set_arguments(sampler.tokenizer, access.chat_template, model)
    return sampler


def is_server(model: str) -> bool:
    """Whether the name of a model is the address of a server."""
    return model.lower().startswith(("http://", "https://"))


def check_access(named: Typed | Stored, access: Access) -> None:
    """Raise for what can be seen to be wrong before a model is loaded or a server is asked."""
    model = named.model
    if is_server(model):
        if isinstance(named, Stored):
            named.check_server()
        _refuse([name for name in access.given() if name in _LOCAL], f"for local models; {model} is a server")
        if access.tokenizer and access.mode == "chat":
            raise RlcrError("tokenizer is for completion mode: in chat mode the server has its own")
        return
    if re.match(r"[\w.-]+:\d+(/|$)", model):
        raise RlcrError(f"{model}: if this is a server, write http://{model}")
    servers = [name for name in access.given() if name not in _LOCAL + _ANY]
    _refuse(servers, f"for servers; {model} is a local model")
    if access.device or access.dtype:
        from rlcr.sample.loading import check_device

        check_device(access.device or "auto", access.dtype or "auto")


def _open_server(model: str, access: Access) -> Sampler:
    from rlcr.sample.endpoint import EndpointSampler

    tokenizer = None
    if access.tokenizer:
        from rlcr.sample.loading import load_tokenizer

        tokenizer = load_tokenizer(access.tokenizer)
        set_arguments(tokenizer, access.chat_template, access.tokenizer)
    elif access.chat_template and access.mode == "completion":
        raise RlcrError(
            "chat_template: completion mode renders with --tokenizer's template: give --tokenizer"
        )
    url, _, name = model.partition("#")
    patience = {"attempts": _ATTEMPTS, "longest_wait": _LONGEST_WAIT} if access.impatient else {}
    return EndpointSampler(
        url,
        name or None,
        mode=access.mode or "auto",
        tokenizer=tokenizer,
        concurrency=16 if access.concurrency is None else access.concurrency,
        timeout=600.0 if access.timeout is None else access.timeout,
        chat_template=access.chat_template,
        **patience,
    )


def _refuse(names: list[str], why: str) -> None:
    if names:
        raise RlcrError(f"{', '.join(names)}: {'is' if len(names) == 1 else 'are'} {why}")
