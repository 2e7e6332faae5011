#!/usr/bin/env bash
# RLCR with verl 0.9: python prepare.py && ./run.sh MODEL. Further settings of verl may follow the model.
set -euo pipefail
model=${1:?usage: run.sh MODEL [settings]}; shift
python -m verl.trainer.main_ppo \
  algorithm.adv_estimator=grpo \
  algorithm.norm_adv_by_std_in_grpo=False \
  algorithm.use_kl_in_reward=False \
  actor_rollout_ref.actor.use_kl_loss=False \
  actor_rollout_ref.actor.loss_agg_mode=token-mean \
  actor_rollout_ref.model.path="$model" \
  actor_rollout_ref.actor.use_dynamic_bsz=True \
  actor_rollout_ref.actor.ppo_mini_batch_size=16 \
  actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.rollout.n=32 \
  actor_rollout_ref.rollout.temperature=0.7 \
  data.train_files=train.parquet data.val_files=train.parquet \
  data.train_batch_size=16 data.max_prompt_length=2048 data.max_response_length=4096 \
  reward.custom_reward_function.path=pkg://rlcr.adapters.verl \
  +reward.custom_reward_function.reward_kwargs.reward=rlcr \
  +reward.custom_reward_function.reward_kwargs.unscorable=0 \
  "$@"
