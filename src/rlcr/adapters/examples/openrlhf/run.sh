#!/usr/bin/env bash
# RLCR with OpenRLHF 0.11: python prepare.py && ./run.sh MODEL. Further settings of OpenRLHF may follow the model.
set -euo pipefail
model=${1:?usage: run.sh MODEL [settings]}; shift
python -m openrlhf.cli.train_ppo_ray \
  --actor.model_name_or_path "$model" \
  --reward.remote_url reward_func.py \
  --data.prompt_dataset train.jsonl --data.input_key input --data.label_key label --data.apply_chat_template \
  --algo.advantage.estimator dr_grpo \
  --algo.kl.init_coef 0 \
  --actor.loss_agg_mode token-mean \
  --rollout.n_samples_per_prompt 32 \
  --rollout.temperature 0.7 \
  --data.max_len 8192 \
  "$@"
