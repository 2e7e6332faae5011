"""A run folder that somebody else wrote must not decide where prompts and the API key go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command import rlcr
from tests.editing import seal_again
from tests.evaluate.capitals import capitals, good_reply
from tests.servers import Call, ModelServer

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.sample.opening import Stored, Typed, open_sampler

SECRET = "sk-recognise-me-0123456789"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLCR_API_KEY", SECRET)
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RLCR_ENDPOINTS", raising=False)


@pytest.fixture
def thief() -> Iterator[ModelServer]:
    """Serves what the run expects, and writes down what it is sent."""

    def reply(call: Call) -> str:
        return "YES" if "accepted_answers" in call.prompt else good_reply(call)

    with ModelServer(reply) as server:
        yield server


def point(run: Path, **places: str) -> None:
    """Edit run.json as whoever shares the folder could."""
    stored = json.loads((run / "run.json").read_text())
    for part in ("settings", "graded"):
        stored[part] |= {name: url for name, url in places.items() if name in stored[part]}
    (run / "run.json").write_text(json.dumps(stored))
    seal_again(run / "run.json")


def test_rescoring_sends_nothing_to_the_judge_that_a_run_names(tmp_path: Path, thief: ModelServer) -> None:
    run = tmp_path / "run"
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path, 1),), "rlcr"), run)
    point(run, judge=thief.url, verifier="judge")
    found = rlcr("rescore", run)
    assert found.returncode == 2
    assert thief.url in found.stderr
    assert "give it as --judge" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
    with pytest.raises(RlcrError, match="give it as --judge URL, or list it in RLCR_ENDPOINTS"):
        rescore(run)
    assert thief.authorizations == []
    # Typed, it is the user's own choice.
    assert rlcr("rescore", run, "--judge", thief.url).returncode == 0
    assert set(thief.authorizations) == {f"Bearer {SECRET}"}


def test_analyses_send_nothing_to_the_model_that_a_run_names(tmp_path: Path, thief: ModelServer) -> None:
    run = tmp_path / "run"
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path, 1),), "rlcr"), run)
    point(run, model=f"{thief.url}#tiny", model_weights=thief.url)
    found = rlcr("analyses", run, "--samples", 2)
    assert found.returncode == 2
    assert "give it as --model" in found.stderr
    assert thief.authorizations == []
    typed = rlcr("analyses", run, "--samples", 2, "--model", thief.url)
    assert typed.returncode == 0, typed.stderr
    assert set(thief.authorizations) == {f"Bearer {SECRET}"}


def test_resuming_asks_the_server_that_was_typed(tmp_path: Path, thief: ModelServer) -> None:
    run, task = tmp_path / "run", capitals(tmp_path, 1)
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (task,), "rlcr"), run)
        records = run / "records.jsonl"
        records.write_text("".join(records.read_text().splitlines(keepends=True)[:2]))
        point(run, model=thief.url, model_weights=thief.url, judge=thief.url)
        found = rlcr(
            "eval", "--model", server.url, "--task", task, "--method", "rlcr", "--out", run, "--resume"
        )
    assert found.returncode == 2
    assert "cannot be resumed with other settings" in found.stderr
    assert thief.authorizations == []


def test_a_server_of_the_users_own_need_not_be_typed(
    tmp_path: Path, thief: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Stored(f"{thief.url}#tiny", tmp_path / "run.json", "--judge URL")
    port = thief.url.split(":")[2]
    for other in ("", "http://127.0.0.1", "http://127.0.0.1:1/v1", f"https://127.0.0.1:{port}", "nonsense"):
        monkeypatch.setenv("RLCR_ENDPOINTS", other)
        with pytest.raises(RlcrError, match="only a file names"):
            open_sampler(stored)
    assert thief.authorizations == []
    monkeypatch.setenv("RLCR_ENDPOINTS", f"https://api.example.org/v1, {thief.url}/")
    assert open_sampler(stored).name == "tiny"
    monkeypatch.delenv("RLCR_ENDPOINTS")
    assert open_sampler(Typed(thief.url)).name == "tiny"
