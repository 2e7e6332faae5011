"""Results for elsewhere: LaTeX, and the shape of lm-eval."""

import json
from pathlib import Path

import pytest
from tests.command import rlcr
from tests.evaluate.capitals import capitals, good_reply
from tests.servers import ModelServer

from rlcr.evaluate import Settings, evaluate
from rlcr.evaluate.export import export
from rlcr.problem import Problem
from rlcr.tasks import write_problems


def test_tasks_whose_names_differ_in_a_slash_are_exported_apart(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    tasks = []
    for name, folder in (("x", tmp_path / "a"), ("a_x", tmp_path)):
        problems = [
            Problem(f"{name}/{c}", f"Capital of {c}?", ("Paris",), "exact") for c in ("France", "Italy")
        ]
        write_problems(folder / f"{name}.jsonl", problems)
        tasks.append(str(folder / f"{name}.jsonl"))
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, tuple(tasks), "rlcr"), tmp_path / "run")
    paths = export(tmp_path / "run", tmp_path / "out")
    assert len(set(paths)) == 3
    found = {json.loads(line)["doc"]["id"] for path in paths[1:] for line in path.read_text().splitlines()}
    assert found == {"x/France", "x/Italy", "a_x/France", "a_x/Italy"}


def test_latex_escapes_everything(tmp_path: Path) -> None:
    task = tmp_path / "a\\b~c^d_e.jsonl"
    write_problems(task, [Problem("p", "Capital of France?", ("Paris",), "exact")])
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (str(task),), "rlcr"), tmp_path / "run")
    text = (tmp_path / "run" / "results.tex").read_text()
    assert r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\_e" in text


def test_export_in_the_shape_of_lm_eval(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr"), tmp_path / "run")
    assert rlcr("export", tmp_path / "run", "--out", tmp_path / "out").returncode == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    (values,) = results["results"].values()
    assert values["acc,none"] == pytest.approx(0.5)
    assert values["acc_stderr,none"] > 0
    (samples,) = (tmp_path / "out").glob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert len(rows) == 20
    assert sum(row["acc"] for row in rows) == 10
