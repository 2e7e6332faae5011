"""Adaptive runs and analyses against a real server: rounds, budget, resuming, one request for K analyses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluate.capitals import CAPITALS, capitals, comparable, country_of, good_reply, records_of
from tests.servers import Call, ModelServer

from rlcr.confidence.rows import read_rows
from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.evaluate.compare import compare_runs
from rlcr.evaluate.export import export
from rlcr.evaluate.results import run_samples
from rlcr.many.analyses import Ask, sample_analyses
from rlcr.many.vote import vote
from rlcr.report.artefacts import read_artefacts
from rlcr.report.reading import read_runs


def mixed_reply(call: Call) -> str:
    """Sure of France and Italy; of the others every sample says something else."""
    country = country_of(call.prompt)
    known = country in ("France", "Italy")
    answer, confidence = (CAPITALS[country], 0.95) if known else (f"City {call.number}", 0.1)
    return f"<think>…</think><answer>{answer}</answer><analysis>…</analysis><confidence>{confidence}</confidence>"


def samples_of(folder: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in records_of(folder):
        country = record["id"].split("/")[1].split("-")[0]
        counts[country] = counts.get(country, 0) + 1
    return counts


def test_samples_go_where_they_are_needed_and_never_beyond_the_budget(tmp_path: Path) -> None:
    with ModelServer(mixed_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path, 2),), "rlcr", samples=9, adaptive=0.95)
        results = evaluate(settings, tmp_path / "run")
        asked = len([c for c in server.calls if "completions" in c.path])
        again = evaluate(settings, tmp_path / "run", resume=True)
        assert len([c for c in server.calls if "completions" in c.path]) == asked
        with pytest.raises(RlcrError, match="adaptive.* was"):
            evaluate(replace(settings, adaptive=None), tmp_path / "run", resume=True)
    assert samples_of(tmp_path / "run") == {"France": 8, "Italy": 8, "Spain": 18, "Japan": 18}
    saved = json.loads((tmp_path / "run" / "adaptive.json").read_text())
    (task,) = saved["tasks"].values()
    assert task["samples_each"] == {"4": 4, "9": 4}
    assert task["samples"]["value"] == 6.5
    assert task["accuracy"]["value"] == 0.5
    # Results are of the first round alone: hard questions must not weigh more.
    (measured,) = results.tasks.values()
    assert measured.completions == 8 * 4
    assert again.to_dict() == results.to_dict()
    assert vote(tmp_path / "run").tasks["capitals"].scaling.most == 4
    assert task["first_round"]["value"] == 0.5
    # So are all others that read records: the report, comparisons, exports and what is learned from rows.
    read = read_runs([tmp_path / "run"]).evals[0]
    assert len(read.rows) == len(read_rows(tmp_path / "run").keys) == 8 * 4
    assert read.notes == []
    (table,) = read_artefacts([read]).tables["adaptive.json"]
    assert [cell.text for cell in table.rows[0]][2:] == ["0.95", "9", "6.500", "0.500", "0.500"]
    export(tmp_path / "run", tmp_path / "out")
    (samples,) = (tmp_path / "out").glob("samples_*.jsonl")
    assert len(samples.read_text().splitlines()) == 8 * 4
    measured = run_samples(tmp_path / "run", "verbalised").measure(resamples=10).overall
    assert measured.n == 8 * 4
    rescore(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "adaptive.json").read_text()) == saved


def test_an_adaptive_run_of_the_same_model_compares_as_equal(tmp_path: Path) -> None:
    task = capitals(tmp_path, 2)
    with ModelServer(mixed_reply) as server:
        evaluate(Settings(server.url, (task,), "rlcr", samples=9, adaptive=0.95), tmp_path / "adaptive")
        evaluate(Settings(server.url, (task,), "rlcr", samples=9), tmp_path / "fixed")
    # Counted with its later rounds, the adaptive run would be right in 16 of 52 samples and not in half.
    found = compare_runs(tmp_path / "adaptive", tmp_path / "fixed")
    for estimate in (found.tasks[Path(task).stem].metrics[name] for name in ("accuracy", "brier", "ece")):
        assert estimate.value == pytest.approx(0, abs=1e-12)
    (note,) = found.notes
    assert "(compared by the first 4 samples) against None" in note


def test_an_interrupted_adaptive_run_ends_as_a_whole_one(tmp_path: Path) -> None:
    task = capitals(tmp_path, 2)
    with ModelServer(mixed_reply) as server:
        settings = Settings(server.url, (task,), "rlcr", samples=8, adaptive=0.9)
        evaluate(settings, tmp_path / "run")
        whole = {(r["id"], r["sample"]) for r in records_of(tmp_path / "run")}
        path = tmp_path / "run" / "records.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: len(lines) // 2]))
        (tmp_path / "run" / "adaptive.json").unlink()
        with pytest.raises(RlcrError, match="unfinished"):
            vote(tmp_path / "run")
        path.write_bytes(path.read_bytes() + lines[-1][:30])
        evaluate(settings, tmp_path / "run", resume=True)
    assert {(r["id"], r["sample"]) for r in comparable(tmp_path / "run")} == whole


def test_a_budget_of_one_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(RlcrError, match="a budget of at least 2"):
        evaluate(Settings("nowhere", ("arms",), "rlcr", adaptive=0.9), tmp_path / "run")


# --- analyses ---------------------------------------------------------------------------------------


def analysing(call: Call) -> str:
    """Continues a response already begun with a new analysis, or answers from the start."""
    if call.prompt.endswith("<analysis>"):
        return f"new {call.number}</analysis><confidence>0.{5 + call.number % 4}</confidence>"
    return good_reply(call)


def interrupt(_: float) -> None:
    raise KeyboardInterrupt


def test_analyses_continue_one_answer_in_one_request_and_are_sampled_once(tmp_path: Path) -> None:
    with ModelServer(analysing) as server:
        models = server.models
        evaluate(Settings(server.url, (capitals(tmp_path, 1),), "rlcr"), tmp_path / "run")
        before = len([c for c in server.calls if "completions" in c.path])
        found = sample_analyses(tmp_path / "run", Ask(samples=4), model=server.url)
        asked = [c for c in server.calls if "completions" in c.path][before:]
        assert len(asked) == 4  # one for each question, not one for each analysis
        sample_analyses(tmp_path / "run", Ask(samples=4))
        assert len([c for c in server.calls if "completions" in c.path]) == before + 4
        lines = [json.loads(line) for line in (tmp_path / "run" / "analyses.jsonl").read_text().splitlines()]
        assert sorted((line["id"], line["analysis"]) for line in lines) == sorted(
            (r["id"], k) for r in records_of(tmp_path / "run") for k in range(4)
        )
        assert all(line["text"].startswith("new") and 0.5 <= line["confidence"] <= 0.8 for line in lines)
        # Where nothing is missing the model is not even opened, so that another one is no matter.
        server.models = ("other",)
        assert sample_analyses(tmp_path / "run", Ask(samples=4)) == found
        server.models = models
        # Stopped on the way to more, the file still says what the first ones were worth.
        with pytest.raises(KeyboardInterrupt):
            sample_analyses(tmp_path / "run", Ask(samples=5), model=server.url, progress=interrupt)
        assert json.loads((tmp_path / "run" / "analyses.json").read_text())["tasks"] == found["tasks"]
        # A torn line is sampled again, and more analyses are added to those that are there.
        path = tmp_path / "run" / "analyses.jsonl"
        path.write_bytes(path.read_bytes()[:-20])
        sample_analyses(tmp_path / "run", Ask(samples=6), model=server.url)
        assert len(path.read_text().splitlines()) == 24
        with pytest.raises(RlcrError, match="has analyses with seed 0, not 3"):
            sample_analyses(tmp_path / "run", Ask(samples=4, seed=3))
    ((brier, ece),) = found["tasks"].values()
    assert (brier["metric"], ece["metric"]) == ("Brier score", "ECE")
    assert brier["n"] == [1, 2, 3, 4]


def test_analyses_that_cannot_be(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        task = capitals(tmp_path, 1)
        evaluate(Settings(server.url, (task,), "rlvr"), tmp_path / "rlvr")
        with pytest.raises(RlcrError, match="format rlvr state no confidence"):
            sample_analyses(tmp_path / "rlvr", Ask())
        evaluate(Settings(server.url, (task,), "rlcr"), tmp_path / "rlcr")
        with pytest.raises(RlcrError, match="all the same"):
            sample_analyses(tmp_path / "rlcr", Ask(temperature=0))
        server.models = ("other",)
        with pytest.raises(RlcrError, match="was sampled from"):
            sample_analyses(tmp_path / "rlcr", Ask(), model=server.url)
