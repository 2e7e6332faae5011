"""The environment for SkyRL (skyrl-gym 0.4): one step, with the reward of the response.

    register(id="rlcr", entry_point="rlcr.adapters.skyrl_gym:RlcrEnv", kwargs={"verifier": "math"})

SkyRL cannot leave a sample out: what is unscorable gets a constant (``unscorable``, 0 by default) and is
counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv  # pyright: ignore[reportMissingImports]

from rlcr.adapters.core import Rewarded, Row, Scorer, needs_constant
from rlcr.errors import RlcrError


class RlcrEnv(BaseTextEnv):
    """A question and one response.

    ``extras`` are the columns of the data set: ``reward_spec`` with its ``ground_truth``, and perhaps
    ``verifier``, ``choices`` and ``question``. ``settings``, given with ``register``, are those of
    :class:`~rlcr.adapters.core.Scorer`. ``env_config``, the trainer's own settings, is not used.
    """

    def __init__(
        self, env_config: object = None, extras: Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        super().__init__()
        self._scorer = needs_constant(Scorer.of(settings, unscorable=0.0), "SkyRL")
        self._about = dict(extras or {})
        spec = self._about.pop("reward_spec", None)
        if not isinstance(spec, Mapping) or "ground_truth" not in spec:
            raise RlcrError("a row of the data set needs reward_spec with its ground_truth")
        self._gold = spec["ground_truth"]
        self._found: Rewarded | None = None

    def step(self, action: str) -> dict[str, Any]:
        """Judge the response. The episode is over."""
        self._found = self._scorer.score([Row.of(action, self._gold, self._about)])[0]
        return {
            "observations": [],
            "reward": self._found.total,
            "done": True,
            "metadata": self._found.to_dict() | {"reason": self._found.reason},
        }

    def get_metrics(self) -> dict[str, float]:
        """The numbers of the episode, those that it has: SkyRL means each over the episodes that have it."""
        numbers = self._found.to_dict() if self._found else {}
        return {name: value for name, value in numbers.items() if value is not None}
