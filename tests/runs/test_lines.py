"""Damage on disk: a line is named and left out, the rest is kept, and nothing changes in silence."""

import json
import logging
import os
import random
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.confidence.colour_runs import colour_run
from tests.evaluate.capitals import capitals, comparable, needy_reply
from tests.servers import ModelServer
from typer.testing import CliRunner

from rlcr.cli.commands import app
from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.evaluate.importing import TableColumns, import_run
from rlcr.evaluate.results import load_results
from rlcr.files import new_file
from rlcr.runs.lines import Appender, mend, object_of, read_lines, read_object, write_object
from rlcr.runs.stamps import records_hash
from rlcr.runs.store import open_run


def written(path: Path, number: int = 20) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = [
        {"id": f"p{n}", "sample": n % 3, "text": "naïve \ud800 🙂" * n} for n in range(number)
    ]
    appender = Appender(path)
    appender.write(lines)
    appender.close()
    return lines


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << place % 8
    path.write_bytes(content)


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    assert list(read_lines(path)) == []
    lines = written(path)
    assert list(read_lines(path)) == lines
    mend(path, "nothing to mend")
    assert list(read_lines(path)) == lines


def test_every_flipped_bit_is_found_and_the_other_lines_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "lines.jsonl"
    lines = written(path)
    whole = path.read_bytes()
    ends = [n for n, byte in enumerate(whole) if byte == ord("\n")]
    rng = random.Random(0)
    for place in rng.sample(range(len(whole)), 300):
        path.write_bytes(whole)
        flip(path, place)
        hit = sum(end < place for end in ends)
        if place == ends[-1]:
            continue  # the last line break: the same as a line that a crash cut short
        with pytest.raises(RlcrError, match=rf"lines.jsonl, line {hit + 1}: damaged: .*; do this"):
            list(read_lines(path, "do this"))
        caplog.clear()
        mend(path, "dropped")
        assert f"line {hit + 1}: damaged" in caplog.text
        # A line break that is gone, or one that is new, makes one bad line of two, or two of one.
        kept = list(read_lines(path))
        assert kept in (lines[:hit] + lines[hit + 1 :], lines[:hit] + lines[hit + 2 :])


def test_lines_of_earlier_versions_are_read_but_not_among_others(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"id": "old"}\n')
    lines = written(path)
    assert list(read_lines(path)) == [{"id": "old"}, *lines]
    with open(path, "a") as file:
        file.write('{"id": "smuggled"}\n')
    with pytest.raises(RlcrError, match="line 22: damaged: it has no checksum"):
        list(read_lines(path))


def test_an_object_that_was_edited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_object(path, {"a": [1.5, {"b": None}], "é": "é"})
    assert read_object(path, "") == {"a": [1.5, {"b": None}], "é": "é"}
    path.write_text(path.read_text().replace("1.5", "1.6"))
    with pytest.raises(RlcrError, match="damaged or edited: its checksum does not fit; write it again"):
        read_object(path, "write it again")
    for content in (b"\xff", b"[1]", b"[" * 100_000, b'{"a": '):
        with pytest.raises(ValueError, match="not "):
            object_of(content)


@dataclass(frozen=True)
class Finished:
    """A finished run of twenty questions, and all that it takes to make it again."""

    run: Path
    settings: Settings
    server: ModelServer


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("runs")
    with ModelServer(needy_reply) as server:
        settings = Settings(server.url, (capitals(folder),), "base")
        evaluate(settings, folder / "run")
        yield Finished(folder / "run", settings, server)


def test_a_damaged_record_is_named_and_made_again(
    finished: Finished, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished.run, run)
    path = run / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    # A changed id, a changed verdict, bytes that are no text, and a line that is there twice.
    lines[3] = lines[3].replace(b'"id": "capitals/', b'"id": "capitols/')
    lines[7] = lines[7].replace(b'"verdict": "', b'"verdict": "in').replace(b"incorrect", b"wrong")
    lines[9] = b"\xff\xfe" + lines[9][2:]
    path.write_bytes(b"".join([*lines, lines[0]]))
    for command in (["metrics"], ["rescore"], ["vote"], ["confidence", "add", "agreement"]):
        result = CliRunner().invoke(app, [*command, str(run)])
        assert isinstance(result.exception, RlcrError), (command, result.output)
        assert "records.jsonl, line" in str(result.exception)
        assert "--resume" in str(result.exception)
    before = len(finished.server.calls)
    evaluate(finished.settings, run, resume=True)
    assert len(finished.server.calls) - before < 10  # what was whole is not asked for again
    assert comparable(run) == comparable(finished.run)
    assert [f"line {n}: damaged" in caplog.text for n in (4, 8, 10, 21)] == [True] * 4


@pytest.mark.parametrize("how", ["bad byte", "line doubled"])
def test_damage_among_the_replies_costs_that_reply_alone(
    how: str, finished: Finished, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    replies = 0

    class Stopping:
        def replied(self, stage: str) -> None:
            nonlocal replies
            replies += 1
            if replies == 30:
                raise KeyboardInterrupt

        def __getattr__(self, name: str) -> object:
            return lambda *arguments: None

    with pytest.raises(KeyboardInterrupt):
        evaluate(finished.settings, run, watch=lambda done, total: Stopping())  # pyright: ignore[reportArgumentType]
    path = run / "unfinished.jsonl"
    content = path.read_bytes()
    if how == "bad byte":
        path.write_bytes(content[:20] + b"\xff" + content[21:])
    else:  # a reply that came before others of the same completion is there once more behind them
        path.write_bytes(
            content + next(one for one in content.splitlines(True) if b'"stage": "answer"' in one)
        )
    evaluate(finished.settings, run, resume=True)
    assert comparable(run) == comparable(finished.run)
    assert f"unfinished.jsonl, line {1 if how == 'bad byte' else 31}: damaged" in caplog.text


def test_rescoring_switches_records_and_their_label_at_once(tmp_path: Path) -> None:
    run = colour_run(tmp_path / "run", 20)
    before = (run / "records.jsonl").read_bytes()

    class Killed(BaseException):
        pass

    def lines_then(error: bool) -> object:
        yield from before.decode().replace('"tokens": 1', '"tokens": 2').splitlines(keepends=True)
        if error:
            raise Killed

    opened = open_run(run)
    with pytest.raises(Killed):
        opened.regrade(lines_then(True), {"grading": "paper"})  # pyright: ignore[reportArgumentType]
    assert open_run(run).graded["grading"] == "strict"
    assert (run / "records.jsonl").read_bytes() == before
    # A kill after run.json says what is to come, and before the records are there: a process of its own.
    paper = opened.graded | {"grading": "paper"}
    replace = os.replace

    def killing(source: Path, target: Path, *, after: bool) -> None:
        if after or Path(target).name != "records.jsonl":
            replace(source, target)
        if Path(target).name == "records.jsonl":
            os.kill(os.getpid(), signal.SIGKILL)

    for after_the_switch in (False, True):
        child = os.fork()
        if child == 0:
            os.replace = partial(killing, after=after_the_switch)  # pyright: ignore[reportAttributeAccessIssue]
            opened.regrade(lines_then(False), paper)  # pyright: ignore[reportArgumentType]
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        now = open_run(run)
        assert "regrading" in json.loads((run / "run.json").read_text())
        assert now.graded["grading"] == ("paper" if after_the_switch else "strict")
        assert ((run / "records.jsonl").read_bytes() != before) == after_the_switch
    rescore(run, grading="strict")
    assert "regrading" not in json.loads((run / "run.json").read_text())
    assert load_results(run)
    assert not list(run.glob(".*.partial"))


def test_an_import_that_is_killed_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    table, out = tmp_path / "table.jsonl", tmp_path / "run"
    table.write_text(
        "".join(f'{{"q": "{n}?", "gold": "1", "text": "<answer>1</answer>"}}\n' for n in range(50))
    )
    columns = TableColumns("text", "gold", "q")
    child = os.fork()
    if child == 0:
        os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # pyright: ignore[reportAttributeAccessIssue]
        import_run(table, out, columns)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert not out.exists()
    assert len(list(tmp_path.glob(".run.*.partial"))) == 1
    import_run(table, out, columns)
    assert records_hash(open_run(out))
    assert not list(tmp_path.glob(".run.*.partial"))


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    (tmp_path / ".page.html.0000.partial").touch()  # of a process that was killed
    with new_file(path) as outer:
        with new_file(path) as inner:
            inner.write(b"inner")
        assert path.read_bytes() == b"inner"
        outer.write(b"outer")
    assert path.read_bytes() == b"outer"
    assert os.listdir(tmp_path) == ["page.html"]


def test_edited_problems_are_said(
    finished: Finished, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished.run, run)
    path = run / "problems.jsonl"
    path.write_text(path.read_text().replace("Paris", "Lyon", 1))
    with caplog.at_level(logging.WARNING):
        rescore(run)
    assert "problems.jsonl: edited or damaged: not the problems that the run began with" in caplog.text
