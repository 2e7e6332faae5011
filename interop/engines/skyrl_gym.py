"""skyrl-gym: a registered environment, made and stepped."""

import sys
from pathlib import Path

import skyrl_gym

from interop.case import Case
from interop.checks import Checks


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "skyrl-gym")
    skyrl_gym.register(id="rlcr", entry_point="rlcr.adapters.skyrl_gym:RlcrEnv", kwargs={"verifier": "math"})
    rewards, episodes = [], []
    for _, text, gold, _ in case.rows():
        env = skyrl_gym.make("rlcr", env_config={}, extras={"reward_spec": {"ground_truth": gold}})
        env.init([{"role": "user", "content": "…"}])
        step = env.step(text)
        assert step["done"]
        assert step["observations"] == []
        rewards.append(step["reward"])
        episodes.append(env.get_metrics())
        kind = type(env.unwrapped) if hasattr(env, "unwrapped") else type(env)
    checks.equal("reward of `skyrl_gym.make(…).step`", rewards, case.totals_or(0.0))
    pooled = kind.aggregate_metrics(episodes)
    checks.equal("mean reward of its `aggregate_metrics`", [pooled["reward"]], [sum(rewards) / len(rewards)])


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
