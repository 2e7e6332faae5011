"""A tiny real model, and no API key of the user."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sends the user's key anywhere."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("RLCR_API_KEY", raising=False)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tests.tiny import tiny_tokenizer

    return tiny_tokenizer()


@pytest.fixture(scope="module")
def model() -> Any:
    from tests.tiny import tiny_model

    return tiny_model()
