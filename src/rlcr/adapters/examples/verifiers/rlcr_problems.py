"""The taskset that verifiers finds by the name of this module."""

from rlcr.adapters.verifiers import RlcrTaskset

__all__ = ["RlcrTaskset"]
