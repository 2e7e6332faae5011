"""The device of RL and of supervised training: chosen in one way."""

import pytest
import torch

from rlcr.errors import RlcrError
from rlcr.training.preflight import device
from rlcr.training.preflight.device import choose_device
from rlcr.training.sft import Machine


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "find_device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.delenv("LOCAL_RANK", raising=False)


@pytest.mark.usefixtures("two_gpus")
def test_one_process_does_not_take_several_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformers' trainer would, by DataParallel."""
    for choose in (choose_device, Machine.here):
        with pytest.raises(RlcrError, match="2 GPUs are visible to one process: start with `torchrun"):
            choose()
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert Machine.here() == Machine("cuda", bf16=True)
