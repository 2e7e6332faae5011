"""Files that somebody else made: no code in them is run, and nothing that is packed fills the memory."""

import gzip
import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tiny import tiny_model, tiny_tokenizer

from rlcr.adapters import logs
from rlcr.confidence.classifier import _load
from rlcr.errors import RlcrError
from rlcr.sample.loading import load, load_tokenizer
from rlcr.training import rollouts

ROOT = Path(__file__).parents[2]


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.sprung}",)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tiny_model().save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_pickled_weights_run_nothing(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(pickle.dumps({"lm_head.weight": Trap(tmp_path / "sprung")}))
    with pytest.raises(RlcrError, match="cannot be loaded"):
        load(model, device="cpu")
    assert not (tmp_path / "sprung").exists()
    pickle.loads((model / "pytorch_model.bin").read_bytes())
    assert (tmp_path / "sprung").exists()  # the trap works


def test_code_in_a_models_folder_is_not_run_whatever_is_typed(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sprung = tmp_path / "sprung"
    (model / "own.py").write_text(f"open({str(sprung)!r}, 'w')\nclass Own: pass\n")
    config = json.loads((model / "config.json").read_text()) | {
        "model_type": "own",
        "auto_map": dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"), "own.Own"),
    }
    (model / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((model / "tokenizer_config.json").read_text())
    tokenizer["auto_map"] = {"AutoTokenizer": ["own.Own", None]}
    tokenizer["tokenizer_class"] = "Own"
    (model / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 10))
    for attempt in (
        lambda: load(model, device="cpu"),
        lambda: load_tokenizer(str(model)),
        lambda: _load(str(model)),
    ):
        with pytest.raises(RlcrError, match="custom code|own|trust_remote_code"):
            attempt()
    assert not sprung.exists()


def test_stored_hidden_states_hold_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "states.npy"
    np.save(path, np.array([Trap(tmp_path / "sprung")], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickle|Python objects"):
        np.load(path, mmap_mode="r")  # as rlcr.confidence.embeddings does
    assert not (tmp_path / "sprung").exists()


def test_nothing_in_the_package_unpickles_or_trusts_code() -> None:
    for path in (ROOT / "src" / "rlcr").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("pickle.load", "import pickle", "joblib", "torch.load", "allow_pickle"):
            assert word not in text, f"{path}: {word}"
        if not path.is_relative_to(ROOT / "src" / "rlcr" / "adapters" / "examples"):
            assert text.count("trust_remote_code") == text.count('"trust_remote_code": False'), path


def test_a_rollout_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "_LONGEST", 1 << 20)
    path = tmp_path / "update-000001.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"[" * (4 << 20))
    assert path.stat().st_size < 10_000
    with pytest.raises(RlcrError, match="update-000001.jsonl.gz, line 1: longer than"):
        list(rollouts.read_rollouts(tmp_path))


def test_a_packed_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_LARGEST", 1 << 20)
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_1.json", " " * (8 << 20))
    with pytest.raises(RlcrError, match="larger than 1 MB unpacked"):
        list(logs._eval_samples(path))
