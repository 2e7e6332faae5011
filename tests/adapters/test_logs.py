"""Logs of other engines, written here in their own shapes, become runs with the same verdicts and confidences."""

from __future__ import annotations

import json
import re
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.command import rlcr as command

import rlcr
from rlcr.adapters.logs import COLUMNS, MISSING, log_kind, log_rows, what_is_missing
from rlcr.errors import RlcrError
from rlcr.evaluate.importing import import_run
from rlcr.evaluate.results import failures
from rlcr.report.reading import read_runs
from rlcr.runs.store import open_run


def parts(answer: str, confidence: str) -> tuple[str, str]:
    """A thought, and the rest of a response."""
    whole = {"think": "Hm.", "answer": answer, "analysis": "…", "confidence": confidence}
    text = rlcr.FORMATS["rlcr"].render("", **whole)
    return "Hm.", text.removeprefix("<think>Hm.</think>")


def text(answer: str, confidence: str) -> str:
    thought, rest = parts(answer, confidence)
    return f"<think>{thought}</think>{rest}"


#: Two questions, two samples each: answer and confidence.
SAID = {
    "Capital of France?": [("Paris", "0.9"), ("Lyon", "0.4")],
    "Capital of Italy?": [("Rome", "0.8"), ("rome", "0.7")],
}
GOLD = {"Capital of France?": "Paris", "Capital of Italy?": "Rome"}


def inspect_sample(number: int, epoch: int, question: str, answer: str, confidence: str) -> dict[str, Any]:
    thought, rest = parts(answer, confidence)
    content = [{"type": "reasoning", "reasoning": thought}, {"type": "text", "text": rest}]
    right = answer.lower() == GOLD[question].lower()
    return {
        "id": number,
        "epoch": epoch,
        "input": [{"role": "system", "content": "Tags!"}, {"role": "user", "content": question}],
        "target": [GOLD[question]],
        "messages": [],
        "output": {
            "model": "m",
            "choices": [{"message": {"role": "assistant", "content": content}, "stop_reason": "stop"}],
        },
        "scores": {"match": {"value": "C" if right else "I"}, "rlcr/calibrated": {"value": float(right)}},
    }


def write_inspect(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"status": "success"}))
        archive.writestr("summaries.json", "[]")
        for number, (question, said) in reversed(list(enumerate(SAID.items(), 1))):
            for epoch, one in enumerate(said, 1):
                sample = inspect_sample(number, epoch, question, *one)
                archive.writestr(f"samples/{number}_epoch_{epoch}.json", json.dumps(sample))


def as_zstandard(path: Path) -> None:
    """The same log as inspect compresses it today, which Python's zip library can neither write nor read."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in contents.items():
            archive.writestr(name, pa.compress(content, "zstd", asbytes=True))
    whole = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # where a header says how it is compressed
        at = whole.find(mark)
        while at >= 0:
            whole[at + offset : at + offset + 2] = (93).to_bytes(2, "little")
            at = whole.find(mark, at + 4)
    path.write_bytes(bytes(whole))


def write_inspect_today(path: Path) -> None:
    write_inspect(path)
    as_zstandard(path)


def write_lm_eval(path: Path) -> None:
    rows = []
    for number, (question, said) in enumerate(SAID.items()):
        for name in ("none", "strict"):
            row = {"doc_id": number, "doc": {"question": question}, "target": GOLD[question], "filter": name}
            row |= {"arguments": {"gen_args_0": {"arg_0": f"Q: {question}", "arg_1": {"until": []}}}}
            row |= {"resps": [[text(*one) for one in said]], "filtered_resps": [text(*said[0])]}
            rows.append(row | {"metrics": ["exact_match"], "exact_match": 1.0})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_verl(path: Path) -> None:
    """As verl 0.9.1 dumps a validation with our reward, `trainer.validation_data_dir`."""
    rows = [
        {
            "input": f"system\nTags!\nuser\n{question}\nassistant\n",
            "output": text(*one),
            "gts": GOLD[question],
            "score": 0.5,
            "step": 20,
            "reward": 0.5,
            # What our reward gives beside the score; of a completion that nobody can judge acc is null.
            "acc": float(one[0].lower() == GOLD[question].lower()),
            "format": 1.0,
            "correctness": float(one[0].lower() == GOLD[question].lower()),
            "calibration": -0.25,
            "confidence": float(one[1]),
            "unscorable": 0.0,
        }
        for question, said in SAID.items()
        for one in said
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_verifiers(path: Path) -> None:
    lines = []
    for number in (0, 1):  # as rollouts come in, not by task
        for index, (question, said) in enumerate(SAID.items()):
            thought, rest = parts(*said[number])
            nodes = [
                {"message": {"role": "user", "content": question}, "sampled": False},
                {
                    "parent": 0,
                    "sampled": True,
                    "message": {"role": "assistant", "content": rest, "reasoning_content": thought},
                },
            ]
            right = said[number][0].lower() == GOLD[question].lower()
            task = {"type": "T", "data": {"idx": index, "prompt": question, "answer": GOLD[question]}}
            trace = {
                "task": task,
                "nodes": nodes,
                "rewards": {"rlcr": {"score": 0.9}},
                "metrics": {"correct": float(right)},
            }
            lines.append({"id": "e", "task": task, "ok": True, "traces": [trace]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


LOGS = {
    "inspect": ("log.eval", write_inspect_today, "match"),
    "inspect, older": ("log.eval", write_inspect, "match"),
    "lm-eval": (
        "samples_capitals_2026.jsonl",
        write_lm_eval,
        None,
    ),  # whose metric is of all repeats together
    "verl": ("20.jsonl", write_verl, "acc"),
    "verifiers": ("traces.jsonl", write_verifiers, "correct"),
}


@pytest.mark.parametrize("kind", LOGS)
def test_a_log_becomes_a_run(tmp_path: Path, kind: str) -> None:
    name, write, correct = LOGS[kind]
    kind = kind.partition(",")[0]
    path = tmp_path / name
    write(path)
    assert log_kind(path) == kind
    import_run(path, tmp_path / "run", COLUMNS, rows=log_rows(path, kind))
    run = open_run(tmp_path / "run")
    found = [(r.sample, r.answer, r.confidence, r.correct, r.well_formed) for r in run.records()]
    assert found == [
        (0, "Paris", 0.9, True, True),
        (1, "Lyon", 0.4, False, True),
        (0, "Rome", 0.8, True, True),
        (1, "rome", 0.7, True, True),
    ]
    questions = [problem.question for problem in run.problems().values()]
    assert all(asked in found for asked, found in zip(SAID, questions, strict=True))
    if correct:
        theirs = replace(COLUMNS, correct=correct)
        import_run(path, tmp_path / "theirs", theirs, rows=log_rows(path, kind, correct))
        records = list(open_run(tmp_path / "theirs").records())
        assert [record.correct for record in records] == [True, False, True, True]
        assert {record.verifier for record in records} == {"the table"}
        with pytest.raises(RlcrError, match="no score 'nothing'"):
            list(log_rows(path, kind, "nothing"))


def test_logs_that_cannot_be_imported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.eval"
    broken.write_text("no zip file")
    with pytest.raises(RlcrError, match="not a readable inspect log"):
        list(log_rows(broken, "inspect"))

    likelihoods = tmp_path / "samples_x.jsonl"
    likelihoods.write_text(
        json.dumps({"doc_id": 0, "doc": {}, "target": "1", "resps": [[["-1.5", "False"]]]}) + "\n"
        + json.dumps({"doc_id": 1, "doc": {}, "target": "1", "resps": [[[-1.5, False]]]}) + "\n"
    )  # fmt: skip
    for line in (1, 2):
        with pytest.raises(RlcrError, match=f"line {line}, column resps: a log-likelihood"):
            list(log_rows(likelihoods, "lm-eval"))
        likelihoods.write_text("\n" + likelihoods.read_text().partition("\n")[2])
    # Two samples, the texts of which could be read as one.
    two = {"doc_id": 0, "doc": {"question": "?"}, "target": "1", "resps": [["0", "True"]]}
    likelihoods.write_text(json.dumps(two) + "\n")
    assert [row.cells["completion"] for row in log_rows(likelihoods, "lm-eval")] == [["0", "True"]]
    likelihoods.write_text(json.dumps({"doc_id": 0, "doc": {}, "target": "1", "resps": 5}) + "\n")
    with pytest.raises(RlcrError, match="line 1, column resps: expected texts in lists, found int '5'"):
        list(log_rows(likelihoods, "lm-eval"))

    no_gold = tmp_path / "traces.jsonl"
    no_gold.write_text(json.dumps({"task": {"data": {"prompt": "Hi"}}, "traces": [{"nodes": []}]}) + "\n")
    with pytest.raises(RlcrError, match="no gold among gold, answer"):
        list(log_rows(no_gold, "verifiers"))


def write_epochs(path: Path, samples: list[dict[str, Any]]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for sample in samples:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps(sample))


def test_a_small_sample_takes_little_memory(tmp_path: Path) -> None:
    """pyarrow takes as much as it is asked to read at most."""
    write_inspect_today(tmp_path / "log.eval")
    tracemalloc.start()
    try:
        assert list(log_rows(tmp_path / "log.eval", "inspect", "match"))
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("write", [write_inspect, write_inspect_today])
def test_a_damaged_archive_is_said_in_a_line(tmp_path: Path, write: Callable[[Path], None]) -> None:
    """Any byte of it may be another one; packed data of which one is flipped cannot be unpacked."""
    path = tmp_path / "log.eval"
    write(path)
    whole, said = path.read_bytes(), []
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            list(log_rows(path, "inspect"))
        except RlcrError as error:
            said.append(str(error))
    assert len(said) > len(whole) / 6
    assert any("samples/1_epoch_1.json: not a readable inspect log: " in one for one in said)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("samples/1.json", "[]", "samples/1.json: expected a sample with an id, found list '[]'"),
        ("samples/1.json", "{}", "samples/1.json: expected a sample with an id, found dict '{}'"),
        ("samples/1.json", "{", "samples/1.json: not a readable inspect log: JSONDecodeError"),
        ("other.json", "{}", "not an inspect log: no samples/….json in it, but other.json"),
    ],
)
def test_which_part_of_an_archive_is_no_sample(tmp_path: Path, name: str, content: str, says: str) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)
    with pytest.raises(RlcrError, match=re.escape(says)):
        list(log_rows(path, "inspect"))


def test_what_a_log_lacks_to_be_recognised(tmp_path: Path) -> None:
    for name, write, lacks, kind in (
        ("samples_t.jsonl", write_lm_eval, "resps", "lm-eval"),
        ("20.jsonl", write_verl, "gts", "verl"),
    ):
        path = tmp_path / name
        write(path)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({k: v for k, v in r.items() if k != lacks}) + "\n" for r in rows))
        assert log_kind(path) is None
        assert what_is_missing(path) == f"as a log of {kind} its first row lacks {lacks}"
    refused = command("import", path, "--out", tmp_path / "run")
    assert refused.returncode == 2
    assert refused.stderr.rstrip().endswith("--question COL; as a log of verl its first row lacks gts")
    path.write_text('{"input": "a", "output": "b"}\n')
    assert what_is_missing(path) == ""


def test_what_an_engine_did_not_finish_counts_as_failed(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    france, italy = SAID
    lost = {"error": {"message": "the server is gone"}}
    write_epochs(
        path,
        [
            inspect_sample(1, 1, france, "Paris", "0.9") | lost,
            inspect_sample(1, 2, france, "Lyon", "0.4"),
            inspect_sample(2, 1, italy, "Rome", "0.8"),  # its second epoch was never begun
            inspect_sample(3, 1, italy, "Rome", "0.8") | lost,
        ],
    )
    columns = replace(COLUMNS, correct="match")
    rows = log_rows(path, "inspect", "match")
    results = import_run(path, tmp_path / "run", columns, rows=rows, missing="an error in its place")
    run = open_run(tmp_path / "run")
    assert [(r.id, r.sample, r.answer, r.correct) for r in run.records()] == [
        ("1", 1, "Lyon", False),
        ("2", 0, "Rome", True),
    ]
    assert sorted(run.failures()) == [("1", 0), ("2", 1), ("3", 0), ("3", 1)]
    run.check_finished()
    assert results.coverage["log"].to_dict() == {
        "asked": 6, "answered": 2, "failed": {"an error in its place": 4},
    }  # fmt: skip
    (line,) = failures(results)
    assert "2 of 6 completions; 4 failed" in line
    assert "--retry-failed" not in line  # nobody can ask again
    said = "".join(read_runs([tmp_path / "run"]).evals[0].notes)
    assert "4 of 6 completions failed" in said
    assert "--retry-failed" not in said


def test_nothing_but_errors_is_no_run(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    write_epochs(path, [inspect_sample(1, 1, "Capital of France?", "", "") | {"error": {"message": "lost"}}])
    with pytest.raises(RlcrError, match="holds no completions: 1 ended in an error"):
        list(log_rows(path, "inspect"))


def test_a_question_that_verl_has_twice_is_two_questions(tmp_path: Path) -> None:
    path = tmp_path / "20.jsonl"
    write_verl(path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, *lines[:2]]) + "\n")
    import_run(path, tmp_path / "run", COLUMNS, rows=log_rows(path, "verl"))
    run = open_run(tmp_path / "run")
    assert [(r.id, r.sample) for r in run.records()] == [(str(q), s) for q in range(3) for s in range(2)]
    first, second, third = (problem.question for problem in run.problems().values())
    assert first == second != third


@pytest.mark.parametrize(("stopped", "kept"), [("agent_completed", 4), ("provider_error", 3)])
def test_a_trace_that_could_not_be_scored_is_a_completion(tmp_path: Path, stopped: str, kept: int) -> None:
    """verifiers notes our own refusal to score as an error, after the agent was done."""
    path = tmp_path / "traces.jsonl"
    write_verifiers(path)
    first, *others = map(json.loads, path.read_text().splitlines())
    first["traces"][0] |= {"errors": [{"type": "TaskError"}], "stop_condition": stopped, "rewards": {}}
    path.write_text("".join(json.dumps(line) + "\n" for line in [first, *others]))
    import_run(path, tmp_path / "run", COLUMNS, rows=log_rows(path, "verifiers"), missing=MISSING)
    assert len(list(open_run(tmp_path / "run").records())) == kept


def test_a_dump_of_verl_that_was_cut_short(tmp_path: Path) -> None:
    """A question whose last sample is missing does not divide the others into questions of one sample."""
    path = tmp_path / "20.jsonl"
    write_verl(path)
    lines = path.read_text().splitlines()
    third = lines[0].replace("France", "Spain").replace("Paris", "Madrid")
    path.write_text("\n".join([*lines, third]) + "\n")
    import_run(path, tmp_path / "run", COLUMNS, rows=log_rows(path, "verl"), missing=MISSING)
    found = [(r.id, r.sample) for r in open_run(tmp_path / "run").records()]
    assert found == [("0", 0), ("0", 1), ("1", 0), ("1", 1), ("2", 0)]


def test_a_prompt_with_two_golds_is_two_questions(tmp_path: Path) -> None:
    path = tmp_path / "20.jsonl"
    row = {"input": "Capital?", "output": text("Rome", "0.8"), "score": 0.5, "step": 1}
    path.write_text("".join(json.dumps(row | {"gts": gold}) + "\n" for gold in ("Rome", ["Paris", "paris"])))
    import_run(path, tmp_path / "run", COLUMNS, rows=log_rows(path, "verl"))
    assert [record.correct for record in open_run(tmp_path / "run").records()] == [True, False]


def test_a_thought_that_the_prompt_began_is_begun(tmp_path: Path) -> None:
    path = tmp_path / "20.jsonl"
    row = {"input": "Capital?<think>\n", "gts": "Rome", "score": 0.5, "step": 1}
    whole = text("Rome", "0.8")
    outputs = [whole, whole.removeprefix("<think>")]
    path.write_text("".join(json.dumps(row | {"output": one}) + "\n" for one in outputs))
    import_run(path, tmp_path / "run", COLUMNS, rows=log_rows(path, "verl"))
    assert [(r.text, r.well_formed) for r in open_run(tmp_path / "run").records()] == [(whole, True)] * 2


def test_the_options_of_inspect_are_those_of_the_verifier(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    sample = inspect_sample(1, 1, "Capital of France?", "Paris", "0.9")
    write_epochs(path, [sample | {"choices": ["Lyon", "Paris"], "target": "B"}])
    made = command("import", path, "--out", tmp_path / "run", "--verifier", "choice", "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["tasks"]["log"]["metrics"]["accuracy"]["value"] == 1
    write_epochs(path, [sample])
    made = command("import", path, "--out", tmp_path / "other", "--verifier", "choice")
    assert (made.returncode, "no column choices" in made.stderr) == (2, True)


def test_the_command_knows_a_log_from_a_table(tmp_path: Path) -> None:
    write_inspect(tmp_path / "log.eval")
    made = command("import", tmp_path / "log.eval", "--out", tmp_path / "run", "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["tasks"]["log"]["metrics"]["accuracy"]["value"] == 0.75
    table = tmp_path / "table.jsonl"
    table.write_text('{"a": 1}\n')
    refused = command("import", table, "--out", tmp_path / "other")
    assert (refused.returncode, "--completion COL --gold COL --question COL" in refused.stderr) == (2, True)
