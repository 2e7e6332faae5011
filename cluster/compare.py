# pyright: basic
"""How far two sets of weights are apart."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

Weights = Mapping[str, Tensor]


def compare(found: Weights, expected: Weights, start: Weights) -> dict[str, float]:
    """The largest difference of a weight, and how far training has moved one; both absolute."""
    assert found.keys() == expected.keys() == start.keys(), "the weights have other names"

    def apart(a: Weights, b: Weights) -> float:
        return max(float((a[name].double() - b[name].double()).abs().max()) for name in a)

    return {"difference": apart(found, expected), "moved": apart(expected, start)}
