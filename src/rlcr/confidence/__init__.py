"""Confidence from elsewhere: further columns of confidence on the records of a run.

Whatever the source (answer probability, agreement, a probe, a classifier, recalibration, a file), the
result is a column: a confidence or none for each completion of a run, in the run's folder, with how it was
made. Metrics, comparison, voting and the report treat all columns alike (:mod:`rlcr.runs.columns`).
"""

from rlcr.lazy import submodules

__getattr__ = submodules(__name__)
