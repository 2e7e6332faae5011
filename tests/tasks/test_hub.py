"""The hub, with small stand-ins for its two libraries on the path: no test needs the network."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlcr.errors import RlcrError
from rlcr.tasks import load

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = f"""
from types import SimpleNamespace
class HfApi:
    def dataset_info(self, name, revision, timeout):
        return SimpleNamespace(sha="{COMMIT}" if revision == "main" else revision)
"""
DATASETS = """
calls = []
def load_dataset(name, config, split, revision):
    calls.append((name, config, split, revision))
    return [{"question": "How many?", "answer": "#### 7"}, {"question": "And now?", "answer": "#### 8"}]
"""
NO_NETWORK = """
class HfApi:
    def dataset_info(self, name, revision, timeout):
        raise ConnectionError("[Errno -2] Name or service not known\\nand more")
"""


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "libraries"
    folder.mkdir()
    (folder / "datasets.py").write_text(DATASETS)
    (folder / "huggingface_hub.py").write_text(HUB)
    for name in ("datasets", "huggingface_hub"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture(autouse=True)
def forget_libraries():
    """The stand-ins must not be met by other tests, nor the real ones be lost to them."""
    names = ("datasets", "huggingface_hub")
    real = {name: sys.modules[name] for name in names if name in sys.modules}
    yield
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(real)


@pytest.mark.usefixtures("libraries")
def test_a_download_is_kept_and_used_again(tmp_path: Path) -> None:
    first = load("gsm8k")
    calls: list[tuple[str, ...]] = sys.modules["datasets"].__dict__["calls"]
    assert calls == [("openai/gsm8k", "main", "test", "e53f048856ff4f594e959d75785d2c2d37b678ee")]
    assert first.source == "hub:openai/gsm8k@e53f048856ff4f594e959d75785d2c2d37b678ee/main/test"
    assert [problem.gold for problem in first.problems] == [("7",), ("8",)]
    assert load("gsm8k").sha256 == first.sha256
    assert len(calls) == 1
    (kept,) = (path for path in (tmp_path / "cache" / "hub").rglob("*") if path.is_file())
    assert first.source_sha256 in kept.name

    kept.write_text(kept.read_text()[:-10])  # damaged: it is fetched again
    assert load("gsm8k").source_sha256 == first.source_sha256
    assert len(calls) == 2


@pytest.mark.usefixtures("libraries")
def test_main_is_resolved_to_a_commit() -> None:
    tasks = load("file", "train", path="someone/rows")
    assert tasks.source == f"hub:someone/rows@{COMMIT}/train"
    assert tasks.problems[0].gold == ("#### 7",)


@pytest.mark.usefixtures("libraries")
def test_a_task_without_local_file_says_that_it_used_the_hub(data_dir: Path) -> None:
    assert (
        "no file of this task in the data directory: read from the hub"
        in load("gsm8k", data_dir=data_dir).notes
    )


def test_without_network(libraries: Path, data_dir: Path) -> None:
    (libraries / "huggingface_hub.py").write_text(NO_NETWORK)
    with pytest.raises(RlcrError) as caught:
        load("gsm8k", data_dir=data_dir)
    message = str(caught.value)
    assert (
        "openai/gsm8k: the Hugging Face hub did not give it ([Errno -2] Name or service not known)" in message
    )
    assert f"put the rows in {data_dir} as gsm8k/test or gsm8k/main/test (.jsonl, " in message
    assert "\n" not in message


def test_without_datasets_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        RlcrError, match=r"pip install 'rlcr\[hub\]'; or put the rows in a directory"
    ) as caught:
        load("gsm8k")
    assert "--data-dir" in str(caught.value)


def test_a_download_that_breaks_off_leaves_nothing(libraries: Path, tmp_path: Path) -> None:
    (libraries / "datasets.py").write_text(
        "def load_dataset(*_, **__):\n    yield {'question': 'q', 'answer': '#### 1'}\n    raise OSError('gone')\n"
    )
    with pytest.raises(OSError, match="gone"):
        load("gsm8k")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
