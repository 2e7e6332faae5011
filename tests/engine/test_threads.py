"""Threads are tried where nobody chose their number, and fewer are used only where they are clearly faster."""

import logging
from collections.abc import Iterator

import pytest
import torch

from rlcr.engine import threads


@pytest.fixture
def four_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    threads.use_free_threads.cache_clear()
    yield
    threads.use_free_threads.cache_clear()
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({4: 1.0, 2: 2.0, 1: 4.0}, 4),
        ({4: 1.1, 2: 1.0, 1: 1.5}, 4),
        ({4: 5.0, 2: 1.5, 1: 1.0}, 1),
        ({4: 5.0, 2: 1.0, 1: 1.5}, 2),
    ],
)
@pytest.mark.usefixtures("four_threads")
def test_fewer_threads_only_where_they_are_clearly_faster(
    seconds: dict[int, float], chosen: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "_seconds", seconds.__getitem__)
    with caplog.at_level(logging.WARNING):
        threads.use_free_threads()
    assert torch.get_num_threads() == chosen
    assert (f"computing with {chosen} of 4 threads" in caplog.text) == (chosen < 4)


@pytest.mark.usefixtures("four_threads")
def test_whoever_sets_the_number_has_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setattr(threads, "_seconds", {4: 5.0, 2: 1.0, 1: 1.0}.__getitem__)
    threads.use_free_threads()
    assert torch.get_num_threads() == 4
