"""A run on disk: the type of a record, the files of a run, derived columns, versions."""

from rlcr.lazy import submodules

__getattr__ = submodules(__name__)
