"""Where two ways of computing the same logits may choose different tokens."""

import numpy as np
import torch

from rlcr.sample import Sampling
from rlcr.sample.choice import choose, stream


def assert_tied(logits_1V: torch.Tensor, key: str, sample: int, position: int, sampling: Sampling) -> None:
    """The best scores, noise included, are so close that changes of 1e-3 decide between them."""
    streams = np.array([stream(sampling.seed, key, sample)] * 100, dtype=np.uint64)
    generator = torch.Generator().manual_seed(0)
    changed_BV = logits_1V + 1e-3 * torch.randn(100, logits_1V.shape[1], generator=generator)
    assert len(set(choose(changed_BV, streams, np.full(100, position), sampling).tokens_B)) > 1
