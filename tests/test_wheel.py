"""The wheel in an empty environment with the core's packages alone: what needs no torch works, the rest says so.

Slow, for it installs the core from a package index.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GOOD = "<think>t</think><answer>{}</answer><analysis>a</analysis><confidence>{}</confidence>"
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")

pytestmark = pytest.mark.slow


def call(*command: object, cwd: Path, status: int = 0) -> str:
    # An environment of its own: nothing of the one that runs the tests may be found.
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "COLUMNS": "200"}
    result = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, cwd=cwd, env=environment
    )
    assert result.returncode == status, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout if status == 0 else result.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment's programs."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, *PIP, "wheel", "--no-deps", "-w", folder, ROOT], check=True)
    (wheel,) = folder.glob("rlcr-*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    subprocess.run([folder / "venv" / "bin" / "python", *PIP, "install", wheel], check=True)
    return folder / "venv" / "bin"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    rows = [{"output": GOOD.format(n, 0.5 + n / 20), "answer": n % 7, "question": f"{n}?"} for n in range(10)]
    (tmp_path / "generations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_torch_is_not_there(installed: Path, work: Path) -> None:
    call(installed / "python", "-c", "import torch", cwd=work, status=1)
    code = "import sys, rlcr; print(rlcr.__file__); assert 'scipy' not in sys.modules"
    assert "site-packages" in call(installed / "python", "-c", code, cwd=work)


def test_what_needs_no_torch(installed: Path, work: Path) -> None:
    rlcr = installed / "rlcr"
    columns = ("--completion", "output", "--gold", "answer")
    call(
        rlcr, "score", "generations.jsonl", *columns, "--verifier", "math", "--out", "graded.jsonl", cwd=work
    )
    measured = call(rlcr, "metrics", "graded.jsonl", "--correct", "verdict", "--plot", "r.png", cwd=work)
    assert "accuracy" in measured
    assert (work / "r.png").exists()
    assert "yes" in call(rlcr, "check-reward", "--plot", "incentives.svg", cwd=work)
    assert "hotpotqa-modified" in call(rlcr, "tasks", cwd=work)
    assert "next" in call(rlcr, "tasks", "show", "arms", "--limit", "1", cwd=work)
    assert "hotpotqa-rlcr" in call(rlcr, "recipes", cwd=work)
    assert "lr" in call(rlcr, "recipes", "show", "hotpotqa-rlcr", cwd=work)
    call(
        rlcr,
        "import",
        "generations.jsonl",
        *columns,
        "--question",
        "question",
        "--out",
        "runs/mine",
        cwd=work,
    )
    assert "import" in call(rlcr, "runs", cwd=work)
    call(rlcr, "report", "runs/mine", "--out", "report.html", cwd=work)
    assert "generations" in (work / "report.html").read_text(encoding="utf-8")
    examined = call(rlcr, "doctor", cwd=work)
    assert "not installed: accelerate" in examined
    assert "all is well" in examined


def test_what_needs_more_says_so_in_one_line(installed: Path, work: Path) -> None:
    for command in (
        ("quickstart",),
        ("train", "tiny-arms-brier", "--out", "runs/trained"),
        ("eval", "--model", "some/model", "--task", "arms", "--method", "rlcr", "--out", "runs/eval"),
        ("eval", "--model", "http://127.0.0.1:9/v1", "--task", "arms", "--method", "rlcr", "--out", "runs/e"),
        ("tasks", "show", "gym", "--set", "dataset=chain_sum"),
    ):
        said = call(installed / "rlcr", *command, cwd=work, status=2)
        assert len(said.splitlines()) == 1, said
        assert "pip install" in said, said


def test_examples_that_need_the_core_alone(installed: Path, work: Path) -> None:
    for name in ("measure_your_csv.py", "grade_generations.py"):
        call(installed / "python", ROOT / "examples" / name, cwd=work)
