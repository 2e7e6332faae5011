"""`rlcr push` with the real client of the hub, against a small server that speaks its protocol."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.command import expect_one_line, rlcr
from tests.hub_server import HubServer, Repository

pytest.importorskip("huggingface_hub")

TOKEN = "hf_planted-token"
#: What must go up, and what else lies in a folder.
MODEL = ("config.json", "tokenizer.json", "chat_template.jinja", "rlcr.json", "README.md")
OTHERS = (
    "optimizer.pt",
    "rng_state.pth",
    "training_args.bin",
    "trainer_state.json",
    "rollouts.jsonl.gz",
    "replay-0.json",
)


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer(TOKEN) as server:
        yield server


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A trained run: a model with what may lie beside it, and checkpoints."""
    for folder in (tmp_path / "run" / "model", tmp_path / "run" / "checkpoints" / "checkpoint-4"):
        folder.mkdir(parents=True)
        save_file({"weight": np.arange(6, dtype=np.float32)}, folder / "model.safetensors")
        for name in MODEL[:-1]:
            (folder / name).write_text("{}")
        (folder / "README.md").write_text("---\nlibrary_name: transformers\n---\n\n# A model\n")
        for name in OTHERS:
            (folder / name).write_bytes(b"not for others")
    (tmp_path / "run" / "training.json").write_text("{}")
    return tmp_path / "run"


def push(hub: HubServer, *arguments: object, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    proxies = ("http_proxy", "https_proxy", "all_proxy")
    settings = {name: value for name, value in os.environ.items() if name.lower() not in proxies}
    settings |= {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": "/nonexistent/hf"}
    settings |= {"HF_TOKEN": token} if token else {}
    return rlcr("push", *arguments, env=settings)


def test_a_model_goes_up_with_its_tokenizer_and_card_and_nothing_else(hub: HubServer, run: Path) -> None:
    done = push(hub, run, "me/model")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"pushed: {hub.url}/me/model\n"
    repository = hub.repositories["me/model"]
    assert repository.private
    assert sorted(repository.files) == sorted([*MODEL, "model.safetensors"])
    for name, content in repository.files.items():
        assert content == (run / "model" / name).read_bytes()
    assert TOKEN not in done.stdout + done.stderr
    # Pushed again, as after more training, it is the same repository.
    (run / "model" / "config.json").write_text('{"again": true}')
    assert push(hub, run / "model", "me/model").returncode == 0
    assert repository.files["config.json"] == b'{"again": true}'


def test_a_checkpoint_goes_up_without_the_state_of_the_optimiser(hub: HubServer, run: Path) -> None:
    assert push(hub, run / "checkpoints" / "checkpoint-4", "me/early", "--public").returncode == 0
    assert not hub.repositories["me/early"].private
    assert not set(hub.repositories["me/early"].files) & set(OTHERS)


def test_a_public_repository_is_written_to_on_purpose_only(hub: HubServer, run: Path) -> None:
    hub.repositories["me/shown"] = Repository(private=False)
    expect_one_line(
        push(hub, run, "me/shown"), "is there already and public: --public says that this is meant"
    )
    assert not hub.repositories["me/shown"].files
    assert push(hub, run, "me/shown", "--public").returncode == 0
    assert hub.repositories["me/shown"].files


def test_what_goes_wrong_is_one_line(hub: HubServer, run: Path) -> None:
    expect_one_line(push(hub, run, "me/model", token=""), "no token for the hub: log in with `hf auth login`")
    refused = push(hub, run, "me/model", token="hf_other")
    expect_one_line(refused, "me/model: the hub says HTTP 401")
    assert "hf_other" not in refused.stderr
    expect_one_line(push(hub, run, "model"), "'model' is no repository of the hub")
    expect_one_line(push(hub, run, "me/model", "--best"), "it has no best/")
    expect_one_line(push(hub, run.parent, "me/model"), "neither a run nor a model")
    (run / "model" / "config.json").unlink()
    expect_one_line(push(hub, run, "me/model"), "it has no model/: --resume continues it")
    assert not hub.repositories


def test_a_card_that_the_hub_refuses_is_named(hub: HubServer, run: Path) -> None:
    (run / "model" / "README.md").write_text("---\nbase_model: /home/me/start\n---\n")
    expect_one_line(push(hub, run, "me/model"), '"base_model" with value "/home/me/start" is not valid')
