"""`rlcr doctor`: what it finds here, what it finds wrong, and what it does not import to find it."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from tests.command import rlcr

from rlcr import doctor
from rlcr.verify import VERIFIERS, Verdict


def test_a_machine_in_order(tmp_path: Path) -> None:
    (tmp_path / "kept.bin").write_bytes(bytes(3 << 20))
    code = (
        "import sys; from rlcr.doctor import examine; import json\n"
        "print(json.dumps([examine().to_dict(), sorted(name.split('.')[0] for name in sys.modules)]))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment(tmp_path)
    ).stdout
    found, loaded = json.loads(out)
    texts = {finding["what"]: finding["found"] for finding in found["findings"]}
    assert found["well"], texts
    assert texts["cache"].startswith(f"{tmp_path}: 3.0 MiB in 1 files")
    assert f"numpy {metadata.version('numpy')}" in texts["core"]
    for name in ("exact", "math", "choice"):
        assert texts[f"verifier {name}"] == "tells right from wrong"
    for name in (
        "cores",
        "memory",
        "torch",
        "data",
        "extra train",
        "extra endpoint",
        "extra hub",
        "extra gym",
    ):
        assert texts[name]
    if texts.get("devices") == "cpu":
        assert "torch" not in loaded, "how torch was built is known without importing it"
    assert not {"transformers", "trl", "datasets", "openai"} & set(loaded)


def environment(cache: Path) -> dict[str, str]:
    return os.environ | {"RLCR_CACHE": str(cache)}


def test_the_command_without_torch(tmp_path: Path) -> None:
    result = rlcr("doctor", without=("torch", "reasoning_gym"), env=environment(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    lines = {line[2:].split("  ")[0].strip(): line for line in result.stdout.splitlines()}
    assert "not installed: take the build for your hardware" in lines["torch"]
    assert "not tried" in lines["verifier gym"]
    assert "all is well" in lines


def test_what_is_wrong_is_marked(tmp_path: Path) -> None:
    nowhere = environment(tmp_path) | {"RLCR_DATA": str(tmp_path / "nowhere")}
    result = rlcr("doctor", without=("reasoning_gym",), env=nowhere)
    assert result.returncode == 1
    marked = [line for line in result.stdout.splitlines() if line.startswith("!")]
    assert marked[0].split() == ["!", "data", f"RLCR_DATA={tmp_path / 'nowhere'}:", "no", "such", "folder"]
    assert marked[1:] == ["! marks what is wrong"]


def test_a_verifier_that_is_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERIFIERS, "exact", lambda problems, answers: [Verdict("correct", "")] * len(answers))
    finding = doctor._verifier("exact")
    assert finding.fault
    assert "correct (), correct ()" in finding.found


def test_packages_that_are_missing_or_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ["numpy>=99", "no-such-core>=1", 'no-such-trainer; extra == "train"', 'rich<2; extra == "hub"']
    monkeypatch.setattr(doctor, "requires", lambda name: needs)
    found = {finding.what: finding for finding in doctor._packages()}
    numpy, rich = metadata.version("numpy"), metadata.version("rich")
    assert found["core"].fault
    assert (
        f"numpy {numpy} is installed, and >=99 is needed; not installed: no-such-core" in found["core"].found
    )
    assert not found["extra train"].fault
    assert "not installed: no-such-trainer; for training" in found["extra train"].found
    assert 'pip install "rlcr[train]"' in found["extra train"].found
    assert found["extra hub"].fault
    assert f"rich {rich} is installed, and <2 is needed" in found["extra hub"].found
