"""What is promised of a real vLLM, shown with one on the CPU: `make served` (`python -m results.served`).

    eval       `rlcr eval` of 100 problems x 8 samples
    ask        `rlcr.ask` and `rlcr ask`: one sample, a vote of 8, a vote that stops early
    failover   two servers behind a real nginx, one of them killed half-way: nothing lost, nothing twice
    train      `rlcr train` with `sampler=vllm`: vLLM inside the trainer, two updates, the logged mismatch

Each step writes what it found into results/served.json. The model is the folder that ``RLCR_SMOLLM2`` names,
else SmolLM2-135M after the format warm-up of `make evidence` (runs/evidence/start/model), else SmolLM2-135M
as it is. vLLM is that of tests/setup_vllm.sh (``VLLM_ENV``), for `train` with ``pip install -e ".[train]"``
there, as `make served` does. nginx is the one on the PATH.
"""
