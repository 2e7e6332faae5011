"""SkyRL with our environment: python main.py takes the settings of SkyRL's own entry point."""

import sys

import skyrl_gym

SETTINGS = {"verifier": "math"}  # of rows whose column `verifier` names no other


def register() -> None:
    """Make the environment known under the name that the data set uses."""
    skyrl_gym.register(id="rlcr", entry_point="rlcr.adapters.skyrl_gym:RlcrEnv", kwargs=SETTINGS)


def try_it() -> None:
    """One step without a trainer."""
    extras = {"reward_spec": {"method": "rule", "ground_truth": "42"}}
    env = skyrl_gym.make("rlcr", extras=extras)
    env.init([{"role": "user", "content": "What is 6 x 7?"}])
    text = "<think>6 x 7</think><answer>42</answer><analysis>sure</analysis><confidence>0.8</confidence>"
    print(env.step(text))


if __name__ == "__main__":
    register()
    if "--try" in sys.argv:
        try_it()
    else:
        from skyrl_train.entrypoints.main_base import main

        main()
