# pyright: basic
"""How far apart sampler and trainer are, token by token, and what is done about it.

The policy gradient takes completions as if the model that learns had drawn them. Another program (vLLM), or
another precision, draws from slightly other probabilities. Of each token that is learned from,

    difference = log p of the trainer - log p of the sampler      both at the sampling temperature

is measured for every sampler. *Truncated importance sampling* multiplies the policy gradient of a token by

    weight = min(exp(difference), cap)                            held constant

which makes the gradient that of the trainer's own policy but for what the cap cuts off, and but for the
tokens before: they are taken as they are. The entropy bonus, the KL term and calibration by expectation do
not depend on which token was drawn and are left alone. A token whose probability the sampler does not know
has weight 1 and is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

#: From how many nats on two log-probabilities count as far apart.
FAR = 0.1


class Mismatch(NamedTuple):
    """Over the tokens of some passes."""

    compared: float = 0.0
    """How many."""
    apart: float = 0.0
    """The sum of the absolute differences, in nats."""
    far: float = 0.0
    """How many are more than :data:`FAR` apart."""
    capped: float = 0.0
    """How many weights were cut to the cap."""
    furthest: float = 0.0
    """The greatest absolute difference."""

    @staticmethod
    def of(parts: Iterable[Mismatch]) -> Mismatch:
        """All of them together."""
        compared, apart, far, capped, furthest = zip(Mismatch(), *parts, strict=True)
        return Mismatch(sum(compared), sum(apart), sum(far), sum(capped), max(furthest))

    def numbers(self, cap: float | None) -> dict[str, float | None]:
        """What is logged of an update; None where nothing was compared."""
        tokens = self.compared
        return {
            "mismatch_mean": self.apart / tokens if tokens else None,
            "mismatch_max": self.furthest if tokens else None,
            "mismatch_far": self.far / tokens if tokens else None,
            "importance_capped": self.capped / tokens if tokens and cap is not None else None,
        }


#: What is logged of it.
MISMATCH = tuple(Mismatch().numbers(None))


def importance(logps_N: Tensor, sampled_N: Tensor, cap: float | None) -> tuple[Tensor, Mismatch]:
    """The weight of each token in the policy gradient, 1 without a cap; and how far the two are apart.

    ``sampled_N`` is NaN where the sampler does not know.
    """
    known_N = ~sampled_N.isnan()
    difference_N = torch.where(known_N, logps_N.detach() - sampled_N, 0.0)
    distance_N = difference_N.abs()
    weights_N = torch.ones_like(difference_N) if cap is None else difference_N.exp().clamp(max=cap)
    if not bool(known_N.any()):
        return weights_N, Mismatch()
    return weights_N, Mismatch(
        compared=float(known_N.sum()),
        apart=float(distance_N.sum()),
        far=float((distance_N > FAR).sum()),
        capped=0.0 if cap is None else float((difference_N.exp() > cap).sum()),
        furthest=float(distance_N.max()),
    )
