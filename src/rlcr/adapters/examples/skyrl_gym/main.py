"""RLCR with SkyRL 0.3: python main.py takes SkyRL's settings; --try takes one step without a trainer."""

import sys

import skyrl_gym

SETTINGS = {"verifier": "math"}  # of rows whose column `verifier` names no other


def register() -> None:
    """Make the environment known under the name that the data set uses."""
    skyrl_gym.register(id="rlcr", entry_point="rlcr.adapters.skyrl_gym:RlcrEnv", kwargs=SETTINGS)


def try_it() -> None:
    """One step without a trainer."""
    register()
    extras = {"reward_spec": {"method": "rule", "ground_truth": "42"}}
    env = skyrl_gym.make("rlcr", extras=extras)
    env.init([{"role": "user", "content": "What is 6 x 7?"}])
    text = "<think>6 x 7</think><answer>42</answer><analysis>sure</analysis><confidence>0.8</confidence>"
    print(env.step(text))


def train(arguments: list[str]) -> None:
    """What SkyRL's own entry point does, with our environment."""
    import ray
    from skyrl.train.config import SkyRLTrainConfig
    from skyrl.train.entrypoints.main_base import BasePPOExp
    from skyrl.train.utils import validate_cfg
    from skyrl.train.utils.utils import initialize_ray

    @ray.remote(num_cpus=1)
    def run(config: SkyRLTrainConfig) -> None:
        register()  # in the process of Ray that makes the environments
        BasePPOExp(config).run()

    config = SkyRLTrainConfig.from_cli_overrides(arguments)
    validate_cfg(config)
    initialize_ray(config)
    ray.get(run.remote(config))


if __name__ == "__main__":
    if "--try" in sys.argv:
        try_it()
    else:
        train(sys.argv[1:])
