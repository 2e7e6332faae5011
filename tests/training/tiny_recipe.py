"""A training of six small updates, for a tiny model: `RECIPE.format(model=FOLDER)`."""

RECIPE = """\
model: {model}
task: arms
size: 6
method: rlcr
reward: rlcr
prompts: 3
group: 4
micro_batch: 6
lr: 0.01
schedule: linear
entropy: 0.02
updates: 6
max_prompt_tokens: 1024
max_completion_tokens: 12
dtype: float32
device: cpu
gradient_checkpointing: false
save_every: 2
report_to: []
"""
