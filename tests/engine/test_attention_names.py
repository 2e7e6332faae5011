# pyright: basic
"""Another attention of transformers' for the plain way."""

import pytest
from tests.tiny import tiny_model

from rlcr.engine.attention import use_attention
from rlcr.errors import RlcrError


def test_an_attention_by_its_name() -> None:
    model = tiny_model()
    use_attention(model, "eager")
    assert model.config._attn_implementation == "eager"
    with pytest.raises(RlcrError, match="attn_implementation=no_such_attention: "):
        use_attention(model, "no_such_attention")
