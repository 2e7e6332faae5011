"""Tables, figures and pages, made from results."""

from rlcr.lazy import submodules

__getattr__ = submodules(__name__)
