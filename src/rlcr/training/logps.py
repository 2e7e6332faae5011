# pyright: basic
"""Log-probabilities and entropies of sampled tokens, without ever holding all logits.

The model's forward is given one more argument: with ``wanted`` (True at the positions whose next token is
to be scored) it returns, instead of logits, the log-probability of the next token there and the entropy of
its distribution. Logits are made in tiles and made again in the backward pass, so that memory holds one tile
and never batch x length x vocabulary. Being part of ``forward`` it works under DDP, FSDP and LoRA, and in any
precision: TRL's own fused head computes in float32 only.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

#: Logits held at a time: 2^24 of them are 64 MB in float32.
_TILE = 2**24
#: Settings by which models change their logits behind the last layer. Softcapping is the one known here.
_SCALINGS = ("logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling")


def add_token_scores(model: Any, temperature: float) -> None:
    """Teach ``model(…, wanted=mask)`` to return (log-probabilities, entropies) of the wanted positions.

    Both are one-dimensional, in the order of ``wanted.nonzero()``; logits are divided by ``temperature``.
    """
    plain_forward = model.forward
    config = model.config.get_text_config()
    softcap = getattr(config, "final_logit_softcapping", None)
    ordinary = all(getattr(config, name, None) in (None, 1, 1.0) for name in _SCALINGS)

    def score(hidden_NH: Tensor, head: Any, next_N: Tensor) -> tuple[Tensor, Tensor]:
        logits_NV = head(hidden_NH)
        if softcap is not None:
            logits_NV = softcap * torch.tanh(logits_NV / softcap)
        return _read(logits_NV, next_N, temperature)

    def forward(self: Any, *args: Any, wanted: Tensor | None = None, **kwargs: Any) -> Any:
        if wanted is None:
            return plain_forward(*args, **kwargs)
        kwargs["use_cache"] = False
        next_N = kwargs["input_ids"][:, 1:][wanted[:, :-1]]
        if not ordinary:
            return _read(plain_forward(*args, **kwargs).logits[wanted], next_N, temperature)
        hidden_NH = self.base_model(*args, **kwargs).last_hidden_state[wanted]
        head = self.get_output_embeddings()
        rows = max(1, _TILE // config.vocab_size)
        if len(next_N) <= rows:
            return score(hidden_NH, head, next_N)
        tiles = [
            checkpoint(score, hidden, head, following, use_reentrant=False)
            for hidden, following in zip(hidden_NH.split(rows), next_N.split(rows), strict=True)
        ]
        logps, entropies = zip(*tiles, strict=True)
        return torch.cat(logps), torch.cat(entropies)

    model.forward = types.MethodType(forward, model)


def _read(logits_NV: Tensor, next_N: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    if logits_NV.dtype != torch.float64:
        logits_NV = logits_NV.float()
    logps_NV = torch.log_softmax(logits_NV / temperature, dim=-1)
    entropy_N = -(logps_NV.exp() * logps_NV).sum(-1)
    return logps_NV.gather(-1, next_N.unsqueeze(-1)).squeeze(-1), entropy_N
