"""`rlcr import` of other engines' logs: what they evaluated, as a run.

    inspect_ai   LOG.eval                                  a sample and epoch is a completion
    lm-eval      samples_TASK_DATE.jsonl (--log_samples)   each repeat is one; of several filters the first
    verifiers    traces.jsonl                              the last message that the model wrote in a trace
    verl         STEP.jsonl (trainer.validation_data_dir)  samples of one prompt are those of one question

A log becomes the rows of a table with ``id``, ``question``, ``gold``, ``completion``, and the engine's own
scores by their names, so that ``--correct NAME`` takes its verdicts. Thoughts that were split off are put
back, and so is a ``<think>`` with which the prompt ended. What an engine could not finish (an error in its
place) is None among the completions.

verl's log holds the prompt as it was rendered, so that this is its question; one that was asked more often
than the others was in the data more than once. A log of lm-eval holds the gold as text: one that looks like a
list is taken for a list of aliases.
"""

from __future__ import annotations

import ast
import io
import json
import lzma
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rlcr.adapters.texts import completion_text
from rlcr.errors import RlcrError, described, named, nearest
from rlcr.evaluate.importing import TableColumns
from rlcr.prompts import opens_think
from rlcr.tasks.plumbing.tables import Row, read_rows

COLUMNS = TableColumns(completion="completion", gold="gold", question="question", id="id")
#: Why a completion is not there.
MISSING = "the log has an error or nothing in its place"

Json = dict[str, Any]

_LARGEST = 256 << 20
#: Read at once: pyarrow takes that much memory, however little there is to read.
_PART = 1 << 20
#: The method of compression in a zip file that Python reads only from 3.14 on.
_ZSTANDARD = 93
#: What reading an archive raises whose bytes are anything: packed data that cannot be unpacked, a method of
#: packing that does not exist, a part that claims to be encrypted, a place outside the file.
_UNREADABLE = (
    OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
    ValueError, KeyError, OverflowError, RuntimeError,
)  # fmt: skip
_GRADES = {"C": 1, "I": 0, "N": None}
#: Under which names the data of a verifiers task hold their gold.
_GOLDS = ("gold", "answer", "target", "ground_truth", "expected_answer")


@dataclass
class _Asked:
    """A question with what was collected of it."""

    question: str
    gold: Any
    choices: Any = None
    completions: list[str | None] = field(default_factory=list)
    scores: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, completion: str | None, scores: Mapping[str, Any]) -> None:
        for name, value in scores.items():
            # A score that began late was missing before.
            before = [None] * (len(self.completions) - len(self.scores.get(name, ())))
            self.scores.setdefault(name, []).extend([*before, value])
        self.completions.append(completion)

    @property
    def lost(self) -> bool:
        """Whether no completion came about."""
        return all(one is None for one in self.completions)

    def parts(self, size: int) -> list[_Asked]:
        """The questions that it is, if each has so many completions; itself where that does not come out."""
        if len(self.completions) % size:
            return [self]
        return [
            _Asked(
                self.question,
                self.gold,
                self.choices,
                self.completions[at : at + size],
                {name: values[at : at + size] for name, values in self.scores.items()},
            )
            for at in range(0, len(self.completions), size)
        ]

    def cells(self) -> Json:
        """The columns of its row."""
        asked = {"question": self.question, "gold": self.gold, "completion": self.completions}
        if self.choices:
            asked["choices"] = self.choices
        ended = len(self.completions)
        scores = {name: [*given, *[None] * (ended - len(given))] for name, given in self.scores.items()}
        return scores | asked


class _Collected(dict[str, _Asked]):
    """The questions of a log in their order."""

    def ask(self, name: str, question: str, gold: Any) -> _Asked:
        if name not in self:
            self[name] = _Asked(question, gold)
        return self[name]


def log_kind(path: Path) -> str | None:
    """Whose log a file is, or None for any other table.

    By its name for inspect, by the columns of its first row for the others.
    """
    if path.suffix == ".eval":
        return "inspect"
    first = _first_columns(path)
    return next((kind for kind, columns in _FIRST_ROWS.items() if first.issuperset(columns)), None)


def what_is_missing(path: Path) -> str:
    """Of a table that is almost a log: whose, and the columns that it lacks. Empty for any other table."""
    first = _first_columns(path)
    for kind, columns in _FIRST_ROWS.items():
        missing = [column for column in columns if column not in first]
        if 0 < len(missing) < len(columns) / 2:
            return f"as a log of {kind} its first row lacks {' and '.join(missing)}"
    return ""


def _first_columns(path: Path) -> set[str]:
    if path.is_dir() or ".json" not in path.name:
        return set()
    return set(next(islice(read_rows(path, None), 1)).cells)


_FIRST_ROWS: dict[str, tuple[str, ...]] = {
    "lm-eval": ("doc_id", "doc", "target", "resps"),
    "verl": ("input", "output", "gts", "score", "step"),
    "verifiers": ("task", "traces"),  # a line is an episode
    "verifiers trace": ("task", "nodes", "rewards"),  # or a trace by itself
}


def log_rows(path: Path, kind: str, correct: str | None = None) -> Iterator[Row]:
    """The rows of a log: one a question, with its completions and scores in lists.

    ``correct`` is the score that will be asked for: all questions must have it.
    """
    found = _Collected()
    try:
        _READERS[kind](path, found)
    except (AttributeError, TypeError, KeyError, IndexError, ValueError, RecursionError) as error:
        # Anything may stand where an engine of another version, or a forger, puts something else.
        raise RlcrError(f"{path}: not as {kind} writes its logs: {named(error)}") from None
    if all(asked.lost for asked in found.values()):
        errors = sum(len(asked.completions) for asked in found.values())
        raise RlcrError(f"{path}: holds no completions: {errors} ended in an error")
    for number, (name, asked) in enumerate(found.items(), 1):
        if correct and asked.lost:
            asked.scores[correct] = []
        elif correct and correct not in asked.scores:
            raise RlcrError(
                f"{path}: question {name}: no score {correct!r}; {nearest(correct, list(asked.scores))}"
            )
        yield Row(path, number, asked.cells() | {"id": name})


def _inspect(path: Path, found: _Collected) -> None:
    for sample in sorted(_eval_samples(path), key=_sample_order):
        name = str(sample["id"])
        asked = found.ask(name, _last_user(sample.get("input")), sample.get("target"))
        choices = (sample.get("output") or {}).get("choices") or []
        asked.choices = sample.get("choices")
        if sample.get("error") or not choices:
            asked.add(None, {})
            continue
        scores = {key: _grade(score) for key, score in (sample.get("scores") or {}).items()}
        asked.add(_text(path, name, choices[0].get("message")), scores)


def _sample_order(sample: Json) -> tuple[float, str, int]:
    """By number where ids are numbers, as inspect gives them, then by epoch."""
    name = sample["id"]
    return (name if isinstance(name, int) else float("inf")), str(name), int(sample.get("epoch") or 1)


def _grade(score: Any) -> Any:
    value = score.get("value") if isinstance(score, Mapping) else None
    if isinstance(value, str):
        return _GRADES.get(value, value)
    return None if isinstance(value, float) and value != value else value  # NaN is unscored


def _eval_samples(path: Path) -> Iterator[Json]:
    """The samples in an .eval file, which is a zip file of JSON texts."""
    where = str(path)
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as raw:
            # A sample that was scored again is in the file twice; the last one counts.
            parts = {one.filename: one for one in archive.infolist()}
            members = [one for name, one in parts.items() if name.startswith("samples/")]
            if not members:
                held = ", ".join(islice(parts, 5)) or "nothing"
                raise RlcrError(f"{path}: not an inspect log: no samples/….json in it, but {held}")
            for member in members:
                where = f"{path}, {member.filename}"
                sample = json.loads(_content(archive, raw, member))
                if not isinstance(sample, dict) or "id" not in sample:
                    raise RlcrError(f"{where}: expected a sample with an id, found {described(sample)}")
                yield sample
    except _UNREADABLE as error:
        raise RlcrError(f"{where}: not a readable inspect log: {named(error)}") from None


def _content(archive: zipfile.ZipFile, raw: io.BufferedReader, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type != _ZSTANDARD:
        with archive.open(member) as unpacked:
            return _bounded(unpacked, member)
    import pyarrow as pa

    raw.seek(member.header_offset)
    name, extra = struct.unpack("<26x2H", raw.read(30))  # their lengths, at the end of the local header
    raw.seek(name + extra, io.SEEK_CUR)
    packed = raw.read(min(member.compress_size, _LARGEST))  # what it says may be anything
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return _bounded(stream, member)


def _bounded(stream: Any, member: zipfile.ZipInfo) -> bytes:
    """All of a stream, unless it is larger than any sample: packed, it may look a thousand times smaller."""
    content = bytearray()
    while part := stream.read(_PART):
        content += part
        if len(content) > _LARGEST:
            raise ValueError(f"{member.filename} is larger than {_LARGEST >> 20} MB unpacked")
    return bytes(content)


def _lm_eval(path: Path, found: _Collected) -> None:
    filters: dict[str, str] = {}
    for row in read_rows(path, ["doc_id", "doc", "target", "resps"]):
        cells = row.cells
        name, doc = str(cells["doc_id"]), cells["doc"] if isinstance(cells["doc"], dict) else {}
        if filters.setdefault(name, cells.get("filter", "")) != cells.get("filter", ""):
            continue  # the same responses, read in another way
        question = doc.get("question") or doc.get("problem") or _prompt(cells.get("arguments"))
        asked = found.ask(name, str(question), _aliases(cells["target"]))
        scores = {key: cells.get(key) for key in cells.get("metrics") or ()}
        prompt = _prompt(cells.get("arguments"))
        for response in _flat(cells["resps"]):
            if _is_likelihood(response):
                raise row.error("resps", "a log-likelihood, not a text: import tasks that generate")
            if not isinstance(response, str):
                raise row.error("resps", f"expected texts in lists, found {described(response)}")
            asked.add(_begun(prompt, response), scores)


def _prompt(arguments: Any) -> str:
    """The prompt of the first request, as lm-eval stores it."""
    first = arguments.get("gen_args_0", {}).get("arg_0") if isinstance(arguments, dict) else None
    return first if isinstance(first, str) else json.dumps(arguments, ensure_ascii=False)


def _aliases(target: Any) -> Any:
    if isinstance(target, str) and target.startswith("["):
        try:
            listed = ast.literal_eval(target)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return target
        if isinstance(listed, list) and listed and all(isinstance(one, str) for one in listed):
            return listed
    return target


def _is_likelihood(response: Any) -> bool:
    """Whether it is what lm-eval stores of one: the logarithm, and whether greedy decoding gives the text."""
    try:
        logarithm, greedy = response
        if isinstance(logarithm, str) and not set(".ei") & set(logarithm):
            return False  # Python writes 0.0, 1e-05 or -inf: these are two samples, say "0" and "True"
        return str(greedy) in ("True", "False") and float(logarithm) <= 0
    except (TypeError, ValueError):
        return False


def _flat(responses: Any) -> Iterator[Any]:
    for one in responses if isinstance(responses, list) else [responses]:
        if isinstance(one, list) and not _is_likelihood(one):
            yield from _flat(one)
        else:
            yield one


def _verl(path: Path, found: _Collected) -> None:
    for row in read_rows(path, ["input", "output", "gts", "score"]):
        cells = row.cells
        prompt = str(cells["input"])
        known = ("input", "output", "gts", "step")
        scores = {key: value for key, value in cells.items() if key not in known}
        name = json.dumps([prompt, cells["gts"]])
        completion = _begun(prompt, _text(path, prompt[:40], cells["output"]))
        found.ask(name, prompt, cells["gts"]).add(completion, scores)
    asked = list(found.values())
    found.clear()
    # As many as most have: one that was cut short must not divide the others.
    counts = Counter(len(one.completions) for one in asked)
    usual = min((n for n, often in counts.items() if often == max(counts.values())), default=1)
    for one in asked:
        # Prompts are long: as ids they would be in every line of the run.
        found |= {str(len(found) + number): part for number, part in enumerate(one.parts(usual))}


def _verifiers(path: Path, found: _Collected) -> None:
    for row in read_rows(path, ["task"]):
        episode = row.cells
        traces = episode.get("traces", [episode])
        for trace in traces:
            data = ((trace.get("task") or episode["task"]) or {}).get("data") or {}
            question = data.get("question") or _last_user(data.get("prompt"))
            gold = next((data[key] for key in _GOLDS if data.get(key) is not None), None)
            if gold is None:
                held = ", ".join(sorted(data)) or "nothing"
                raise row.error("task", f"no gold among {', '.join(_GOLDS)}; its data hold {held}")
            name = data.get("id") or data.get("idx")
            asked = found.ask(str(question if name is None else name), str(question), gold)
            written = [node["message"] for node in trace.get("nodes") or () if node.get("sampled")]
            # An error after the agent was done is one of scoring, which is done anew here.
            if not written or (trace.get("errors") and trace.get("stop_condition") != "agent_completed"):
                asked.add(None, {})
                continue
            rewards = {key: one and one.get("score") for key, one in (trace.get("rewards") or {}).items()}
            scores = {**rewards, **(trace.get("metrics") or {})}
            asked.add(_text(path, asked.question[:40], written[-1]), scores)


def _last_user(messages: Any) -> str:
    """The question of a conversation: the last message of the user."""
    if isinstance(messages, list):
        said = [one for one in messages if isinstance(one, Mapping) and one.get("role") in ("user", None)]
        messages = completion_text({"content": said[-1].get("content")}) if said else ""
    return messages if isinstance(messages, str) else ""


def _begun(prompt: str, completion: str) -> str:
    """A completion with the ``<think>`` that the prompt ended with."""
    begun = opens_think(prompt) and not completion.lstrip().startswith("<think>")
    return f"<think>{completion}" if begun else completion


def _text(path: Path, name: str, completion: Any) -> str:
    try:
        return completion_text(completion)
    except ValueError as error:
        raise RlcrError(f"{path}: sample {name!r}: {error}") from None


_READERS: dict[str, Callable[[Path, _Collected], None]] = {
    "inspect": _inspect,
    "lm-eval": _lm_eval,
    "verl": _verl,
    "verifiers": _verifiers,
    "verifiers trace": _verifiers,
}
