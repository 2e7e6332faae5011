"""Our reward, parser, verifiers and metrics inside other engines (docs/interop.md).

`core` judges a completion, whoever asks; `texts` makes a text of what engines call a completion. Each other
module is what one engine loads, and is imported only with that engine.
"""

from rlcr.lazy import submodules

__getattr__ = submodules(__name__)
