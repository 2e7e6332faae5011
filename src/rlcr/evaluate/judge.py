"""A sampler as a judge, with a memory.

The memory is a file of (hash of judge and conversation, reply), so that grading the same answers again asks
nothing. It lies in the user's cache (``RLCR_CACHE``), is shared by all runs, and may be deleted at any time.
Replies that are neither YES nor NO are not kept: asking again may help. Answers that the judge refuses to
grade (a content filter) are unscorable, if it still grades a harmless one.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from rlcr.files import cache_folder, writing
from rlcr.problem import Problem
from rlcr.runs.lines import Appender, cells_of
from rlcr.sample import Refused, Request, Sampler, Sampling
from rlcr.sample.refusals import confirm
from rlcr.verify import Verifier, make_judge
from rlcr.verify.judge import Message, messages, read_reply

log = logging.getLogger(__name__)

# "YES" or "NO" are one or two tokens; a judge that thinks aloud first is not a judge we can read.
_SAMPLING = Sampling(max_tokens=8)
_HARMLESS = messages(Problem("harmless", "What is 1 + 1?", ("2",), "judge"), "2")


class RememberingJudge:
    """Replies of a sampler to conversations, each asked once ever if it answers as it should."""

    def __init__(self, sampler: Sampler, memory: Path | None = None) -> None:
        self._sampler = sampler
        # Not the name alone: two checkpoints may have one name, and are two judges.
        self._judge = [sampler.name, sampler.fingerprint]
        self._path = (memory or cache_folder() / "judge") / f"{_sha256(self._judge)[:16]}.jsonl"
        self._known = dict(_remembered(self._path))

    def complete(self, prompts: Sequence[Sequence[Message]]) -> list[str | None]:
        """The replies, in order; only conversations that were never put before reach the model.

        None is one that the model refuses.
        """
        keys = [self._key(prompt) for prompt in prompts]
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._known}
        fresh: dict[str, str | None] = {}
        while left := {key: prompt for key, prompt in new.items() if key not in fresh}:
            fresh |= self._ask(left)
        return [fresh[key] if key in fresh else self._known[key] for key in keys]

    def _key(self, prompt: Sequence[Message]) -> str:
        return _sha256([*self._judge, list(prompt)])

    def _ask(self, new: dict[str, Sequence[Message]]) -> dict[str, str | None]:
        """The replies to as many of the conversations as were put to the model before it refused too many."""
        requests = [_request(key, prompt) for key, prompt in new.items()]
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        replies: dict[str, str | None] = {}
        try:
            with (
                closing(Appender(self._path)) as file,
                closing(self._sampler.sample(requests, _SAMPLING)) as completions,
            ):
                for completion in completions:
                    replies[completion.key] = completion.text
                    if read_reply(completion.text).outcome != "unscorable":
                        self._known[completion.key] = completion.text
                        file.write([{"key": completion.key, "reply": completion.text}])
        except Refused as refused:
            confirm(refused, self._sampler, _request("harmless", _HARMLESS), _SAMPLING)
            log.warning("the judge: %s", refused)
            replies |= dict.fromkeys(failure.key for failure in refused.failures)
        return replies


def _request(key: str, prompt: Sequence[Message]) -> Request:
    return Request(key, tuple({"role": m["role"], "content": m["content"]} for m in prompt))


def _remembered(path: Path) -> Iterator[tuple[str, str]]:
    """The whole lines of a memory. A damaged one is passed over, and so is one that a crash cut short."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        for line in file:
            with suppress(ValueError, KeyError):
                entry, _ = cells_of(line)
                yield entry["key"], entry["reply"]


def _sha256(content: list[Any]) -> str:
    text = json.dumps(content, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def open_judge(sampler: Sampler) -> Verifier:
    """A verifier that asks this model, and remembers."""
    return make_judge(RememberingJudge(sampler))
