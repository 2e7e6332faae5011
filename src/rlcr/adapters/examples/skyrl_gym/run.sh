#!/usr/bin/env bash
# RLCR with SkyRL 0.3: python prepare.py && ./run.sh MODEL. Further settings of SkyRL may follow the model.
set -euo pipefail
model=${1:?usage: run.sh MODEL [settings]}; shift
python main.py \
  trainer.policy.model.path="$model" \
  trainer.algorithm.advantage_estimator=grpo \
  trainer.algorithm.grpo_norm_by_std=false \
  trainer.algorithm.loss_reduction=token_mean \
  trainer.algorithm.use_kl_loss=false \
  trainer.algorithm.use_kl_in_reward=false \
  trainer.train_batch_size=16 trainer.policy_mini_batch_size=16 \
  generator.n_samples_per_prompt=32 \
  generator.sampling_params.temperature=0.7 \
  trainer.max_prompt_length=2048 generator.sampling_params.max_generate_length=4096 \
  data.train_data="['train.parquet']" data.val_data="['train.parquet']" \
  "$@"
