"""Any dataset of reasoning-gym, by name, graded by its own scorer (``pip install "rlcr[gym]"``).

Correct is a score of exactly 1.0; part credit is wrong. Settings go to the dataset's configuration, which is
where reasoning-gym keeps difficulty: ``build("train", 100, 0, dataset="chain_sum", min_terms=4)``.

reasoning-gym runs in a process of its own (:mod:`rlcr.tasks.gym_worker`), for reasons found in its 0.1.25:

- five datasets (isomorphic_strings, knight_swap, polynomial_multiplication, ransom_note, word_ladder) make
  other problems under another ``PYTHONHASHSEED``, so that process has a fixed one, and list_functions
  draws from the unseeded global stream, which it seeds;
- four scorers call ``eval`` on the answer and five more call sympy's parser, which does: the worker lets no
  text near either that is not plain arithmetic;
- scorers may take for ever or eat all memory ("R9999999" to the cube): a score that is not there in time is
  unscorable, and the process is replaced;
- generators print, and one reseeds numpy's global stream.

A scorer that raises on an answer has met an answer it cannot read: wrong, unless it raises on the gold too.

Left out: boxnet and rush_hour, which give no right answer; codeio, whose bundled programs do not always give
the same problem twice; and composite. Stricter than the library, which takes any text at all for correct in
``game_of_life_halting`` (here only the gold), "nan" in ``complex_arithmetic`` (here wrong), and in
``intermediate_integration`` the question itself written as ``Integral(…)`` (here only if that is the gold).

The same seed gives the same problems on every machine; across Python and numpy versions, as far as the
library's own use of ``random`` and ``numpy`` allows.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.problem import Problem
from rlcr.tasks.seeded import rank
from rlcr.verify.verdict import CORRECT, NO_ANSWER, WRONG, Verdict

#: Some datasets take a second for each problem, hence no larger ones.
SIZES = {"train": 1_000, "test": 200}
#: Seconds for one score.
TIME_LIMIT = 5.0
#: The longest gold met is a tenth of this.
MAX_CHARACTERS = 50_000

_START_SECONDS = 120.0


def build(split: str, size: int | None, seed: int, *, dataset: str, **settings: Any) -> list[Problem]:
    """Problems of a reasoning-gym dataset. ``settings`` are fields of its configuration.

    Every gold has passed the dataset's own scorer; a problem whose gold does not (some of
    propositional_logic) is left out, the next takes its place, and the numbers in the ids show the gap. Train
    and test are independent draws, though a dataset with few questions (coin_flip) will repeat some.
    """
    if split not in SIZES:
        raise RlcrError(f"gym has no split {split!r}: {nearest(split, list(SIZES))}")
    size = SIZES[split] if size is None else size
    if size < 1:
        raise RlcrError(f"gym: size must be at least 1, got {size}")
    # The library seeds problem i with seed + i, so neighbouring seeds share nearly all problems; a hash keeps
    # them, and the splits, apart. numpy takes no seed of more than 32 bits.
    own_seed = rank("gym", dataset, split, seed) >> 97
    try:
        settings = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise RlcrError(f"gym {dataset}: settings must be plain numbers, texts and lists: {error}") from error
    job = {"do": "make", "dataset": dataset, "settings": settings, "seed": own_seed, "size": size}
    try:
        made = _ask(job, limit=None)["problems"]
    except EOFError as error:
        raise RlcrError(f"gym {dataset}: reasoning-gym crashed at seed {own_seed}") from error
    return [
        Problem(
            f"gym-{dataset}/{split}/{seed}-{problem['index']}",
            problem["question"],
            (problem["gold"],),
            "gym",
            extras={"dataset": dataset, "settings": settings, "metadata": problem["metadata"]},
        )
        for problem in made
    ]


def verify_gym(
    problems: Sequence[Problem], answers: Sequence[str | None], *, time_limit: float = TIME_LIMIT
) -> list[Verdict]:
    """Correct when the dataset's own scorer gives exactly 1.0."""
    return [_verify(problem, answer, time_limit) for problem, answer in zip(problems, answers, strict=True)]


def _verify(problem: Problem, answer: str | None, limit: float) -> Verdict:
    answer = (answer or "").strip()
    if not answer:
        return NO_ANSWER
    if len(answer) > MAX_CHARACTERS:
        return Verdict("wrong", f"answer is longer than {MAX_CHARACTERS:,} characters")
    try:
        reply = _ask(_score_job(problem, answer), limit)
        if "raised" not in reply:
            return CORRECT if reply["score"] == 1.0 else WRONG
        # Whose fault is it? The scorer reads the gold or it reads nothing.
        if _ask(_score_job(problem, problem.gold[0]), limit).get("score") == 1.0:
            return Verdict("wrong", f"the scorer cannot read the answer ({reply['raised']})")
        return Verdict("unscorable", f"the scorer fails on the gold ({reply['raised']})")
    except TimeoutError:
        return Verdict("unscorable", f"timed out after {limit:g} s")
    except EOFError:
        return Verdict("unscorable", "the scorer crashed")


def _score_job(problem: Problem, answer: str) -> dict[str, Any]:
    try:
        extras = {key: problem.extras[key] for key in ("dataset", "settings", "metadata")}
    except KeyError as error:
        raise RlcrError(f"{problem.id}: not a problem of the gym task, its extras lack {error}") from error
    return {"do": "score", "question": problem.question, "gold": problem.gold[0], "answer": answer, **extras}


# --- the process ------------------------------------------------------------------------------------


class _Worker:
    """The process and the pipes to it."""

    def __init__(self) -> None:
        if importlib.util.find_spec("reasoning_gym") is None:
            raise RlcrError('the gym tasks need reasoning-gym: pip install "rlcr[gym]"')
        path = os.pathsep.join(filter(None, sys.path))
        self.process = subprocess.Popen(
            # -P keeps the current directory off the path: a stray token.py there must not be imported.
            [sys.executable, "-P", "-m", "rlcr.tasks.gym_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
            # Ctrl-C is for us; the worker sees the end of its input.
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._jobs, self._replies = self.process.stdin, self.process.stdout
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)
        try:
            self._receive(_START_SECONDS)
        except (EOFError, TimeoutError) as error:
            self.kill()
            raise RlcrError(
                "reasoning-gym did not start; to see why, run: "
                f'{sys.executable} -c "import reasoning_gym, rlcr.tasks.gym_worker"'
            ) from error

    def ask(self, line: bytes, limit: float | None) -> dict[str, Any]:
        """The reply. After TimeoutError or EOFError the worker is of no more use."""
        try:
            self._jobs.write(line)
            self._jobs.flush()
        except BrokenPipeError as error:
            raise EOFError from error
        return self._receive(limit)

    def _receive(self, limit: float | None) -> dict[str, Any]:
        deadline = None if limit is None else time.monotonic() + limit
        received = bytearray()
        while not received.endswith(b"\n"):
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            if not self._poll.poll(left):
                raise TimeoutError
            part = os.read(self._replies.fileno(), 1 << 16)
            if not part:
                raise EOFError
            received += part
        return json.loads(received)

    def kill(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Close our ends of the pipes; the worker, if nobody else holds them, sees the end of its input."""
        for pipe in (self._jobs, self._replies):
            with suppress(BrokenPipeError):  # the rest of a job that a dead worker never read
                pipe.close()


_worker: _Worker | None = None
_lock = threading.Lock()


def _ask(job: dict[str, Any], limit: float | None) -> dict[str, Any]:
    """One job to the worker of this process, which is started when first needed and kept."""
    global _worker
    line = json.dumps(job, allow_nan=False).encode() + b"\n"
    with _lock:
        if _worker is None:
            _worker = _Worker()
        try:
            reply = _worker.ask(line, limit)
        except BaseException:  # also Ctrl-C: a late reply would be taken for the next job's
            _close()
            raise
    if "error" in reply:
        raise RlcrError(reply["error"])
    return reply


def _close() -> None:
    global _worker
    if _worker is not None:
        _worker.kill()
        _worker = None


atexit.register(_close)


def _after_fork_in_child() -> None:
    """The worker is the parent's; two processes on one pipe would read each other's replies."""
    global _worker, _lock
    _lock = threading.Lock()
    if _worker is not None:
        _worker.forget()
        _worker = None


os.register_at_fork(after_in_child=_after_fork_in_child)
