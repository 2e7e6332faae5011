"""A sampler as a judge, with a memory.

The memory is a file of (hash of judge and conversation, reply), so that grading the same answers again asks
nothing. It lies in the user's cache (``RLCR_CACHE``), is shared by all runs, and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from rlcr.files import cache_folder
from rlcr.records import Appender, read_lines
from rlcr.sample import Request, Sampler, Sampling
from rlcr.verify import Verifier, make_judge
from rlcr.verify.judge import Message

# "YES" or "NO" are one or two tokens; a judge that thinks aloud first is not a judge we can read.
_TOKENS = 8


class RememberingJudge:
    """Replies of a sampler to conversations, each asked once ever."""

    def __init__(self, sampler: Sampler, memory: Path | None = None) -> None:
        self._sampler = sampler
        name = hashlib.sha256(sampler.name.encode()).hexdigest()[:16]
        self._path = (memory or cache_folder() / "judge") / f"{name}.jsonl"
        self._known: dict[str, str] = {line["key"]: line["reply"] for line in read_lines(self._path)}
        self.asked = 0

    def complete(self, prompts: Sequence[Sequence[Message]]) -> list[str]:
        """The replies, in order; only conversations that were never put before reach the model."""
        keys = [self._key(prompt) for prompt in prompts]
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._known}
        if new:
            self._ask(new)
        return [self._known[key] for key in keys]

    def _key(self, prompt: Sequence[Message]) -> str:
        content = json.dumps([self._sampler.name, list(prompt)], ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def _ask(self, new: dict[str, Sequence[Message]]) -> None:
        requests = [
            Request(key, tuple({"role": m["role"], "content": m["content"]} for m in prompt))
            for key, prompt in new.items()
        ]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = Appender(self._path)
        try:
            for completion in self._sampler.sample(requests, Sampling(max_tokens=_TOKENS)):
                self._known[completion.key] = completion.text
                file.write([{"key": completion.key, "reply": completion.text}])
                self.asked += 1
        finally:
            file.close()


def open_judge(sampler: Sampler) -> Verifier:
    """A verifier that asks this model, and remembers."""
    return make_judge(RememberingJudge(sampler))
