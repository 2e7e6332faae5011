# pyright: basic
"""A sampler that all processes share: the first one asks, and each answers its part of the requests.

What a local sampler writes depends on the request alone, so that the completions are those of one process.
The others wait in :meth:`SharedSampler.follow` for requests until the first one is done:

    with shared.leading():          the first process
        evaluate(…, sampler=shared)
    shared.follow()                 the others

Whatever goes wrong in one process ends the evaluation in all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from accelerate.utils import broadcast_object_list, gather_object

from rlcr.errors import RlcrError, named
from rlcr.sample import Completion, Refused, Request, Sampler, Sampling


@dataclass(frozen=True)
class _Ask:
    """What the first process tells the others: to sample."""

    requests: Sequence[Request]
    sampling: Sampling


@dataclass(frozen=True)
class _End:
    """Or that it is done, and what went wrong if anything did."""

    problem: str = ""


@dataclass(frozen=True)
class _Part:
    """What one process has to say of its part."""

    completions: Sequence[Completion]
    refused: tuple[str, Sequence[Any], bool] | None = None
    problem: str = ""


class SharedSampler:
    """As the sampler of one process, with the hands of all."""

    def __init__(self, own: Sampler, accelerator: Any) -> None:
        self._own, self._accelerator = own, accelerator
        self.name, self.fingerprint = own.name, own.fingerprint
        #: Completions that this process wrote.
        self.written = 0

    def sample(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yield the completions of all processes, once the last one is done."""
        asked = list(requests)
        _share(_Ask(asked, sampling))
        parts = self._answer(asked, sampling)
        for part in parts:
            yield from part.completions
        refused = [part.refused for part in parts if part.refused]
        if refused:
            failures = [failure for _, some, _ in refused for failure in some]
            raise Refused(refused[0][0], failures, certain=all(certain for *_, certain in refused))

    @contextmanager
    def leading(self) -> Iterator[None]:
        """In the first process: the others follow until this ends, well or with an error."""
        try:
            yield
        except Exception as error:
            _share(_End(str(error) if isinstance(error, RlcrError) else named(error)))
            raise
        _share(_End())

    def follow(self) -> None:
        """In the other processes: answer what the first one asks."""
        while isinstance(message := _share(None), _Ask):
            self._answer(message.requests, message.sampling, leads=False)
        if message.problem:
            raise RlcrError(f"the held-out evaluation failed: {message.problem}")

    def _answer(self, requests: Sequence[Request], sampling: Sampling, *, leads: bool = True) -> list[_Part]:
        """The parts of all processes."""
        first, step = self._accelerator.process_index, self._accelerator.num_processes
        parts = gather_object([self._part(requests[first::step], sampling)])
        problems = [f"process {number}: {part.problem}" for number, part in enumerate(parts) if part.problem]
        if leads and problems:
            raise RlcrError("; ".join(problems))
        return parts

    def _part(self, requests: Sequence[Request], sampling: Sampling) -> _Part:
        completions: list[Completion] = []
        refused, problem = None, ""
        try:
            completions.extend(self._own.sample(requests, sampling))
        except Refused as error:
            refused = (str(error), error.failures, error.certain)
        except Exception as error:  # sent to all, and raised by the first process
            problem = str(error) if isinstance(error, RlcrError) else named(error)
        self.written += len(completions)
        return _Part(completions, refused, problem)


def _share(what: _Ask | _End | None) -> Any:
    """What the first process has to say, in all of them."""
    message = [what]
    broadcast_object_list(message, from_process=0)
    return message[0]
