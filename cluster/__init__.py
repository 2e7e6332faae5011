"""Several processes with the real packages, on CPUs: `make cluster`.

    python -m cluster                     every case under every launch
    python -m cluster update sft          some of the cases
    python -m cluster --launches zero2    some of the launches

Two processes, started by torchrun with what `accelerate launch` would tell them, divide the weights of a
tiny model in each of the ways of :data:`cluster.launches.LAUNCHES`, and what comes out is compared with one
process. The results go to cluster/results.json, and from there into the table of docs/scale.md.

Run it in an environment of its own, which `make cluster` makes in .venv-cluster: DeepSpeed compiles
operators at its first start, for which it needs a C++ compiler, and minutes.
"""
