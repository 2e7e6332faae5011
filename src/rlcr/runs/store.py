"""A run on disk: what was asked, what came back, and how to resume after an interruption.

    run.json           settings, versions, data hashes, the command
    problems.jsonl     the problems, so that a run can be rescored without its data sources
    records.jsonl      one line for each finished completion, append-only
    failed.jsonl       completions that the model refused, with the reason, append-only; a record of the same
                       completion, made later, takes its place
    unfinished.jsonl   replies of completions that still wait for a forced continuation
    adaptive.json      of a run with as many samples as each question needs: written when it is finished

Lines are appended whole, each with a checksum (:mod:`rlcr.runs.lines`). A line that a crash cut short is
dropped when the run is resumed, and so is a damaged one, which is named; its completion is sampled again. A
process that writes to a run holds its lock (``.lock``) until it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.files import file_sha256, new_file, partial_of, writing
from rlcr.problem import Problem
from rlcr.runs.differences import check_same
from rlcr.runs.lines import mend, read_lines, read_object, write_object
from rlcr.runs.record import FORMAT, READABLE, Key, Record, from_cells
from rlcr.tasks import read_problems

log = logging.getLogger(__name__)

RUN, RECORDS, UNFINISHED, PROBLEMS = "run.json", "records.jsonl", "unfinished.jsonl", "problems.jsonl"
FAILED = "failed.jsonl"
ADAPTIVE = "adaptive.json"
#: What is derived from the records: measurements, and confidence columns side by side.
RESULTS, COMPARISON = "results.json", "columns.json"
#: The folder of confidence columns inside that of a run.
COLUMNS = "confidence"
#: The setting of a run whose confidences came with its completions, and are not read from the text.
CONFIDENCES = "confidences"
LOCK = ".lock"

# A record begins with its key, so that resuming need not parse the rest of a long line.
_KEY = re.compile(rb'\{"id": ("(?:[^"\\]|\\.)*"), "sample": ([0-9]+), ')


@dataclass(frozen=True)
class Run:
    """An opened run folder."""

    folder: Path
    settings: dict[str, Any]
    """What the run began with, and can be resumed with."""
    graded: dict[str, Any]
    """How its records are graded now, which rescoring changes."""
    problems_sha256: str = ""
    """The hash of its problems, where it is known."""

    @property
    def described(self) -> dict[str, Any]:
        """The settings behind the records as they are."""
        return self.settings | self.graded

    @property
    def total(self) -> int:
        """The completions of the whole run; of an adaptive one, the budget."""
        return self.settings["samples"] * sum(task["size"] for task in self.settings["tasks"].values())

    def problems(self, verifier: str | None = None) -> dict[str, Problem]:
        """The problems by their ids, with the verifier that their records are graded by, or another one."""
        path = self.folder / PROBLEMS
        if self.problems_sha256 and file_sha256([path]) != self.problems_sha256:
            # Not refused: a gold that was mended by hand is graded by, on purpose.
            log.warning("%s: edited or damaged: not the problems that the run began with", path)
        problems = {problem.id: problem for problem in read_problems(path)}
        if verifier := verifier or self.graded.get("verifier"):
            return {name: replace(problem, verifier=verifier) for name, problem in problems.items()}
        return problems

    @property
    def records_path(self) -> Path:
        """Where the finished completions are."""
        return self.folder / RECORDS

    def records(self) -> Iterator[Record]:
        """Every finished completion. A damaged line, or one that stands there twice, is an error."""
        path, advice, seen = self.records_path, self._mending(), set[Key]()
        for number, cells in enumerate(read_lines(path, advice), start=1):
            try:
                record = from_cells(cells)
            except ValueError as error:
                raise RlcrError(f"{path}, line {number}: {error}; {advice}") from None
            if record.key in seen:
                raise RlcrError(f"{path}, line {number}: {record.key} is there already; {advice}")
            seen.add(record.key)
            yield record

    def _mending(self) -> str:
        """What to do about a damaged line."""
        if self.settings.get("method") == "imported":
            return "import the completions again"
        return f"{self.resume_command()} drops it and makes the completion again"

    def independent_records(self, records: Iterable[Record] | None = None) -> Iterator[Record]:
        """The completions that do not depend on what others said: of an adaptive run, its first round.

        How many samples came later was decided by answers, so that hard questions would weigh more.
        ``records`` are all of them, where they are being read already.
        """
        every = self.records() if records is None else records
        return (record for record in every if self._independent(record.sample))

    def independent_failures(self) -> list[dict[str, Any]]:
        """The completions that failed and do not depend on what others said."""
        return [failure for failure in self.failures().values() if self._independent(failure["sample"])]

    def _independent(self, sample: int) -> bool:
        rule = self.settings.get("adaptive")
        return not rule or sample < rule["first"]

    @cached_property
    def done(self) -> frozenset[Key]:
        """The keys of the completions that were finished when the run was opened, read fast."""
        return frozenset(key for key, _ in _keyed_lines(self.records_path))

    def failures(self) -> dict[Key, dict[str, Any]]:
        """The completions that failed and were not made later, as the file has them now."""
        failed = {
            (line["id"], line["sample"]): line for line in read_lines(self.folder / FAILED, self._mending())
        }
        if failed:
            for key, _ in _keyed_lines(self.records_path):
                failed.pop(key, None)
        return failed

    @cached_property
    def failed(self) -> dict[Key, dict[str, Any]]:
        """Those that had failed when the run was opened."""
        return self.failures()

    def unfinished(self) -> Iterator[dict[str, Any]]:
        """Replies of completions that were not finished when the run stopped."""
        # Most replies there are of completions that have become records: those are not even parsed.
        for key, line in _keyed_lines(self.folder / UNFINISHED):
            if key not in self.done:
                yield json.loads(line.decode("utf-8", "surrogatepass"))

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to sample; an adaptive run finds out only at its end."""
        if self.settings.get("adaptive"):
            return (self.folder / ADAPTIVE).exists()
        return len(self.done) + len(self.failed) >= self.total

    def check_finished(self) -> None:
        """Raise if completions are missing, or if this is no run of `rlcr eval`."""
        if "tasks" not in self.settings:
            raise RlcrError(f"{self.folder}: not a run of `rlcr eval`: it has no tasks")
        if not self.finished:
            # What is missing is not a random part: responses that need repairs come last.
            raise RlcrError(f"{self.folder}: unfinished ({self.state()}); {self.resume_command()} first")

    def state(self) -> str:
        """How far a run is: completions that are finished, and those that are sampled and wait for more."""
        finished = f"{len(self.done) + len(self.failed):,} of {self.total:,}"
        waiting = {key for key, _ in _keyed_lines(self.folder / UNFINISHED)} - self.done
        return f"{finished}; {len(waiting):,} more sampled and kept" if waiting else finished

    def resume_command(self) -> str:
        """What continues it. A server is asked only if the user names it."""
        model = str(self.settings.get("model", ""))
        server = f" --model {model}" if model.startswith(("http://", "https://")) else ""
        return f"`rlcr eval --out {self.folder} --resume{server}`"

    def regrade(self, lines: Iterable[str], graded: dict[str, Any]) -> Run:
        """Replace the records by lines that are graded in another way, both at once.

        The switch is the moment when the new records take the place of the old ones: beforehand run.json
        says how they are graded, and by their hash which they are.
        """
        path, digest = self.folder / RUN, hashlib.sha256()
        stored = read_object(path, _RUN_ADVICE) | {"graded": self.graded}
        stored.pop(_REGRADING, None)
        with new_file(self.records_path) as out:
            for line in lines:
                content = line.encode("utf-8", "surrogatepass")
                digest.update(content)
                out.write(content)
            out.flush()
            to_be = {"graded": graded, "records": digest.hexdigest()}
            write_object(path, stored | {_REGRADING: to_be})
        write_object(path, stored | {"graded": graded})
        return replace(self, graded=graded)


#: In run.json while `rlcr rescore` switches: how the records are graded that are to come, and their hash.
_REGRADING = "regrading"
_RUN_ADVICE = "put back the file as it was, or evaluate again"


def retrying(settings: Mapping[str, Any]) -> str:
    """How to ask again for completions that failed; nothing where there is nobody to ask."""
    if settings.get("method") == "imported":
        return ""
    return "; `rlcr eval … --resume --retry-failed` asks for them again"


def graded_now(folder: Path, stored: Mapping[str, Any]) -> dict[str, Any]:
    """How the records of a run are graded, given its run.json; also where rescoring was interrupted."""
    graded, to_be = stored.get("graded"), stored.get(_REGRADING)
    if isinstance(to_be, dict) and file_sha256([folder / RECORDS]) == to_be.get("records"):
        graded = to_be.get("graded")
    return graded if isinstance(graded, dict) else {}


def _keyed_lines(path: Path) -> Iterator[tuple[Key, bytes]]:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                key = _key_of(line)
            except ValueError:
                if not line.endswith(b"\n"):
                    return  # a line that a crash cut short
                raise RlcrError(
                    f"{path}, line {number}: damaged: not a record of a run; --resume drops it"
                ) from None
            yield key, line


def _key_of(line: bytes) -> Key:
    """The key of a line; ValueError where there is none."""
    match = _KEY.match(line)
    if match is None:
        raise ValueError("not a record of a run")
    name = match.group(1).decode("utf-8", "surrogatepass")
    # A name without escapes is as it stands, which spares half the time.
    return json.loads(name) if "\\" in name else name[1:-1], int(match.group(2))


def check_new(folder: Path, *, resumable: bool = True) -> None:
    """Raise if a folder is in use."""
    if folder.exists() and not folder.is_dir():
        raise RlcrError(f"{folder}: a file; --out names a folder")
    if folder.is_dir() and any(path.name != LOCK for path in folder.iterdir()):
        there = resumable and (folder / RUN).exists()
        hint = "--resume continues it" if there else "choose another --out"
        raise RlcrError(f"{folder}: not empty; {hint}")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder beside ``folder`` that takes its place when the block ends without an error, or else goes."""
    with contextlib.ExitStack() as held:
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            partial = held.enter_context(partial_of(folder, Path.mkdir))
        yield partial
        with writing(folder):
            if folder.is_dir():  # empty but for a lock: see check_new
                shutil.rmtree(folder)
            partial.rename(folder)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run, so that no other process writes to it; creates the folder of a new one."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / LOCK, "ab")  # noqa: SIM115 (closed below)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RlcrError(
                f"{folder}: another rlcr is writing to this run; wait for it or stop it"
            ) from None
        except OSError as error:  # some network file systems have no locks
            log.warning("%s: cannot be locked (%s); make sure nobody else writes", folder, error.strerror)
        yield


def create_run(
    folder: Path,
    settings: dict[str, Any],
    graded: dict[str, Any],
    facts: dict[str, Any],
    *,
    problems_sha256: str = "",
) -> Run:
    """Start a run in a new or empty folder. ``facts`` (versions, command) go into run.json, uncompared."""
    check_new(folder)
    known = {"problems_sha256": problems_sha256} if problems_sha256 else {}
    stored = {"format": FORMAT, "settings": settings, "graded": graded, **known, **facts}
    write_object(folder / RUN, stored)
    return Run(folder, settings, graded, problems_sha256)


def open_run(folder: Path | str) -> Run:
    """Open a run that exists."""
    folder = Path(folder)
    path = folder / RUN
    try:
        stored = read_object(path, _RUN_ADVICE)
        check_format(folder, stored)
        settings, graded = stored["settings"], stored["graded"]
        return Run(folder, settings, graded_now(folder, stored) or graded, stored.get("problems_sha256", ""))
    except (FileNotFoundError, NotADirectoryError):
        raise RlcrError(f"{folder}: not a run (it has no {RUN})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RlcrError(f"{path}: not the settings of a run") from None


def check_format(folder: Path, stored: Mapping[str, Any]) -> None:
    """Raise if a run.json is of another format than this version reads."""
    if stored.get("format") not in READABLE:
        raise RlcrError(
            f"{folder}: a run of format {stored.get('format', 1)}, and this version of rlcr reads format"
            f" {FORMAT}: evaluate again, or use the version that wrote it"
        )


def resume_run(folder: Path, settings: dict[str, Any]) -> Run:
    """Open a run to resume it. Settings other than those it began with are an error that lists them."""
    run = open_run(folder)
    check_same(folder, run.settings, settings)
    again = "dropped: what it was about is asked for again"
    mend(folder / RECORDS, again, _key_of if run.graded else None)
    # A reply that is there twice would be taken for one to what follows it.
    mend(folder / UNFINISHED, again, lambda line: hashlib.blake2b(line, digest_size=16).digest())
    mend(folder / FAILED, again)
    return run
