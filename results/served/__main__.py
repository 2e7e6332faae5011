"""Run the steps one after the other; see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from results.served.servers import PYTHON, ROOT
from results.served.steps import STEPS

RESULTS = ROOT / "results" / "served.json"
_WARMED = ROOT / "runs" / "evidence" / "start" / "model"


def main() -> None:
    """Run what is asked for and write down what came of it."""
    parser = argparse.ArgumentParser(description="A real vLLM on the CPU, and a real nginx.")
    parser.add_argument("steps", nargs="*", help=f"default: {', '.join(STEPS)}")
    parser.add_argument("--work", type=Path, help="a folder for logs and runs; it must not be there yet")
    arguments = parser.parse_args()
    names = arguments.steps or list(STEPS)
    if unknown := set(names) - set(STEPS):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(STEPS)}")
    if not PYTHON.exists():
        sys.exit("no vLLM: run tests/setup_vllm.sh, or name its environment with VLLM_ENV")
    work = arguments.work or Path(tempfile.mkdtemp(prefix="rlcr-served-"))
    model = model_folder(work)
    for name in names:
        folder = work / name
        folder.mkdir(parents=True)
        print(f"{name}: in {folder}", flush=True)
        called = "SmolLM2-135M after the warm-up of make evidence" if model == _WARMED else model.name
        record(name, {"model": called, **STEPS[name](model, folder)})


def model_folder(work: Path) -> Path:
    """A Hugging Face folder: the one that was named, that of the evidence, or SmolLM2 from its package."""
    if given := os.environ.get("RLCR_SMOLLM2"):
        return Path(given).resolve()
    if _WARMED.is_dir():
        return _WARMED
    from benchmarks.smollm2 import model_folder as packaged

    from rlcr.sample.loading import load

    model, tokenizer = load(packaged(), device="cpu", dtype="float32")
    model.save_pretrained(work / "smollm2")
    tokenizer.save_pretrained(work / "smollm2")
    return work / "smollm2"


def record(name: str, found: dict[str, Any]) -> None:
    """Put it beside what other steps have found."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(before | {name: found}, indent=2) + "\n")
    print(json.dumps(found, indent=2), flush=True)


if __name__ == "__main__":
    main()
