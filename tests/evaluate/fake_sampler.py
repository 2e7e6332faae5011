"""A sampler that needs no model."""

from collections.abc import Generator
from typing import Any

from rlcr.sample import Completion, Sampling


class FakeSampler:
    """Answers from a list, and counts."""

    def __init__(self, replies: list[str], name: str = "judge", fingerprint: str = "1") -> None:
        self.replies, self.name, self.fingerprint = replies, name, fingerprint
        self.asked = 0
        self.closed = False

    def sample(self, requests: Any, sampling: Sampling) -> Generator[Completion, None, None]:
        try:
            for request in requests:
                self.asked += 1
                yield Completion(request.key, 0, self.replies.pop(0), "stop")
        finally:
            self.closed = True
