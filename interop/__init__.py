"""Our adapters inside the real engines, each in an environment of its own: `make interop`.

    python -m interop                  every engine, one after the other
    python -m interop trl verl         some of them
    python -m interop --keep verl      keep the environment, and use it again

For each engine: an environment under build/interop, rlcr as a wheel, the engine in the version of
:data:`interop.environments.ENGINES`, a run of the real package on 200 stored completions, and a comparison
with what `rlcr score` and `rlcr metrics` say about the same completions. The results go to
interop/results.json, and from there into the table of docs/interop.md. The environment is removed again.

The completions are made from a seed; where RLCR_DATA names the shared data, they are answers of two models to
100 problems of MATH-500. Some questions have no gold, so that their answers are unscorable.
"""
