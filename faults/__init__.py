"""Faults on purpose, and what was lost, doubled or wrong afterwards: `make faults`.

    python -m faults                         every fault, as many trials of each as it asks for: hours
    python -m faults --only kill-eval        some of them
    python -m faults --trials 3              few trials of each
    python -m faults --only fuzz-parser      fuzzing: a trial is a minute
    python -m faults --only kill-eval --again    forget what is recorded of it, and begin at trial 0

A fault is a :class:`faults.fault.Fault` in :data:`faults.listing.FAULTS`. Its trials are numbered, and the
number decides all that is drawn at random in a trial. After each trial the counts go to faults/results.json,
and from there into the table of docs/reliability.md, so that a stopped run goes on where it was.
"""
