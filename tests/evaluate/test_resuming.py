"""An interrupted run: what it keeps, what it says of that, and that it alone is enough to go on."""

import json
import os
import random
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.hostile_server import Asked, HostileServer, choice, http
from tests import forks
from tests.command import rlcr
from tests.evaluate.capitals import capitals, comparable, good_reply, needy_reply
from tests.servers import ModelServer
from tests.tiny import writing_model, writing_tokenizer

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, continue_run, evaluate, rescore
from rlcr.runs.store import create_run
from rlcr.sample.opening import Access


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    writing_model(max_position_embeddings=2048).save_pretrained(folder)
    writing_tokenizer().save_pretrained(folder)
    return folder


def cut_short(run: Path, records: int) -> None:
    path = run / "records.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:records]))


def keys(run: Path) -> list[tuple[str, int]]:
    return [(record["id"], record["sample"]) for record in comparable(run)]


def test_the_folder_alone_is_enough(tmp_path: Path, model: Path) -> None:
    run, task, prompt = tmp_path / "run", Path(capitals(tmp_path, 2)), tmp_path / "prompt.txt"
    prompt.write_text("Answer in tags.")
    settings = Settings(
        str(model), (str(task), "arms"), "rlcr", limit=3, samples=2, max_tokens=9, seed=4, prompt=str(prompt)
    )
    evaluate(settings, run, access=Access(device="cpu", dtype="bfloat16"))
    whole = comparable(run)
    cut_short(run, 5)
    task.unlink()
    prompt.unlink()
    done = rlcr("eval", "--out", run, "--resume", imported=forks.TRAINING)
    assert done.returncode == 0, done.stderr
    assert comparable(run) == whole
    # What is given must be what the run began with.
    given = ("--seed", 4, "--limit", 3, "--samples", 2)
    same = rlcr("eval", "--out", run, "--resume", *given, imported=forks.TRAINING)
    assert same.returncode == 0, same.stderr


def test_a_server_must_be_named_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr", samples=3), run)
        whole = keys(run)
        cut_short(run, 7)
        refused = rlcr("eval", "--out", run, "--resume")
        assert refused.returncode == 2
        assert "give it as --model URL" in refused.stderr
        with pytest.raises(
            RlcrError, match=re.escape(f"`rlcr eval --out {run} --resume --model {server.url}`")
        ):
            rescore(run)
        assert rlcr("eval", "--out", run, "--resume", "--model", server.url).returncode == 0
    assert keys(run) == whole


def test_an_adaptive_run_goes_on_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path, 1),), "rlcr", samples=6, adaptive=0.9), run)
        whole = keys(run)
        cut_short(run, 7)
        (run / "adaptive.json").unlink()
        monkeypatch.setenv("RLCR_ENDPOINTS", server.url)
        done = rlcr("eval", "--out", run, "--resume")
    assert done.returncode == 0, done.stderr
    assert "samples on average" in done.stdout
    assert keys(run) == whole


def test_other_settings_are_refused_before_data_or_a_model_is_looked_at(tmp_path: Path, model: Path) -> None:
    run, task = tmp_path / "run", capitals(tmp_path, 1)
    own = tmp_path / "own"
    own.mkdir()
    for path in model.iterdir():
        (own / path.name).write_bytes(path.read_bytes())
    evaluate(Settings(str(own), (task,), "rlcr", max_tokens=4), run, access=Access(device="cpu"))
    Path(task).unlink()
    (own / "model.safetensors").write_bytes(b"not to be loaded")
    with pytest.raises(RlcrError, match="other settings: max_tokens was 4, is 7; seed was 0, is 3$"):
        continue_run(run, {"tasks": (task,), "max_tokens": 7, "seed": 3})
    with pytest.raises(RlcrError, match="tasks was"):
        continue_run(run, {"tasks": ("gsm8k",)}, data_dir=tmp_path)
    with pytest.raises(RlcrError, match="max_tokens was 4, is 4096"):
        evaluate(Settings(str(own), (task,), "rlcr"), run, resume=True)
    # Weights are told apart without loading them.
    with pytest.raises(RlcrError, match="other settings: model_weights was"):
        continue_run(run)


def test_what_is_no_run_of_eval_is_not_continued(tmp_path: Path) -> None:
    create_run(tmp_path / "sft", {"model": "tiny"}, {}, {})
    with pytest.raises(RlcrError, match="there is nothing to continue"):
        continue_run(tmp_path / "sft")
    lacking = rlcr("eval", "--out", tmp_path / "new", "--model", "m")
    assert lacking.stderr == f"rlcr: give --task; or --resume, to continue the run in {tmp_path / 'new'}\n"


def test_edited_problems_are_refused(tmp_path: Path, model: Path) -> None:
    run = tmp_path / "run"
    evaluate(Settings(str(model), (capitals(tmp_path, 1),), "rlcr", max_tokens=2), run)
    problems = run / "problems.jsonl"
    problems.write_text(problems.read_text().replace("Paris", "Lyon"))
    with pytest.raises(
        RlcrError, match="problems.jsonl: edited or damaged: not the problems that the run began with"
    ):
        continue_run(run)


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(tmp_path: Path) -> None:
    """All responses but those about Japan wait for a forced continuation: they are no records yet."""
    run, asked = tmp_path / "run", 40
    with ModelServer(needy_reply, delay=0.1) as server:
        command = ["eval", "--model", server.url, "--task", capitals(tmp_path, asked), "--method", "base"]
        process = subprocess.Popen(
            [*forks.python(), "-m", "rlcr", *command, "--out", str(run), "--concurrency", "2"],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        unfinished = run / "unfinished.jsonl"
        while not unfinished.exists() or unfinished.read_bytes().count(b"\n") < 6:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    replies = [json.loads(line) for line in unfinished.read_text().splitlines()]
    kept = len({(reply["id"], reply["sample"]) for reply in replies})
    assert kept >= 6
    assert f"interrupted: 0 of 160; {kept} more sampled and kept; `rlcr eval --out {run}" in errors
    with pytest.raises(RlcrError, match=f"unfinished .0 of 160; {kept} more sampled and kept"):
        rescore(run)


@pytest.mark.parametrize("adaptive", [None, 0.9])
@pytest.mark.parametrize("counts_on", [True, False], ids=["seed + index", "one stream"])
def test_a_server_that_honours_seeds_gives_the_same_after_an_interruption(
    tmp_path: Path, adaptive: float | None, counts_on: bool
) -> None:
    """Whether it counts on from the seed for each choice, or draws all choices of a call from one stream."""
    task = capitals(tmp_path, 2)

    def drawn(asked: Asked) -> Iterator[bytes]:
        choices = [choice(asked, index) for index in range(asked.body.get("n", 1))]
        for one in choices:
            seed = (
                f"{asked.body['seed'] + one['index']}"
                if counts_on
                else f"{asked.body['seed']}.{one['index']}"
            )
            named = random.Random(f"{asked.question}{seed}").choice(["Rome", "Oslo", "Bern", "Riga"])
            text = f"<think>{seed}</think><answer>{named}</answer><analysis>a</analysis>"
            one |= {"message": {"content": f"{text}<confidence>0.6</confidence>"}, "logprobs": None}
        yield http(json.dumps({"choices": choices}).encode())

    with HostileServer(drawn) as server:
        settings = Settings(
            f"{server.url}#tiny", (task,), "rlcr", samples=8, temperature=1.0, adaptive=adaptive
        )
        evaluate(settings, tmp_path / "whole")
        whole = comparable(tmp_path / "whole")
        for cut in (3, 13, len(whole) - 2):
            run = tmp_path / f"cut-{cut}"
            evaluate(settings, run)
            cut_short(run, cut)
            (run / "adaptive.json").unlink(missing_ok=True)
            evaluate(settings, run, resume=True)
            assert comparable(run) == whole, cut
