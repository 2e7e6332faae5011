"""The reward, for OpenRLHF's --reward.remote_url."""

from rlcr.adapters.openrlhf import make_reward

reward_func = make_reward(verifier="math")
