# pyright: basic
"""Log-probabilities and entropies of sampled tokens, without ever holding all logits.

The model's forward is given two more arguments: with ``at`` (positions, counted through the flattened batch)
and ``following`` (the token that came after each) it returns, instead of logits, the log-probability of that
token and the entropy of its distribution. Logits are made for these positions only. What the backward pass
needs is one copy of them, over which it writes their gradient. Where that would be large they are made in
parts, and again in the backward pass, so that memory never holds batch x length x vocabulary. Parts are as
large as may be, since each makes a gradient of the whole head; the softmax goes through them in small tiles,
which stay in the processor's cache. Being part of ``forward`` it works under DDP, FSDP and LoRA, and in any
precision: TRL's own fused head computes in float32 only.

Some models change their logits behind the output layer. Capped ones are known here; for the others, found
out on the first few tokens, the model makes all its logits by itself.
"""

from __future__ import annotations

import logging
import math
import types
from collections.abc import Iterator
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rlcr.engine.batches import HELD_LOGITS

#: Logits in a tile of the softmax: 4 MB in float32.
_TILE = 2**20
#: By how much logits made here may differ from the model's own, in standard deviations.
_ALLOWED, _ALLOWED_IN_HALF = 1e-3, 1e-2

log = logging.getLogger(__name__)


def add_token_scores(model: Any, temperature: float) -> None:
    """Teach ``model(…, at=…, following=…)`` to return (log-probabilities, entropies) of these positions.

    Both are one-dimensional, in the order of ``at``; logits are divided by ``temperature``.
    """
    plain_forward = model.forward
    config = model.config.get_text_config()
    softcap = getattr(config, "final_logit_softcapping", None)
    ordinary: bool | None = None

    def logits_of(hidden: Tensor, head: Any) -> Tensor:
        logits = head(hidden)
        return logits if softcap is None else softcap * torch.tanh(logits / softcap)

    def score(hidden_NH: Tensor, head: Any, next_N: Tensor) -> tuple[Tensor, Tensor]:
        return _Scores.apply(logits_of(hidden_NH, head), next_N, temperature)

    def is_ordinary(self: Any, kwargs: dict[str, Any], at: Tensor) -> bool:
        few, keep_N = _few_tokens(kwargs, at)
        only = {"logits_to_keep": keep_N} if "logits_to_keep" in signature(plain_forward).parameters else {}
        with torch.no_grad():
            own = plain_forward(**few, **only).logits[0]
            own_NV = own if len(own) == len(keep_N) else own[keep_N]
            hidden_NH = self.base_model(**few).last_hidden_state[0, keep_N]
            ours_NV = logits_of(hidden_NH, self.get_output_embeddings())
        allowed = _ALLOWED if own_NV.dtype == ours_NV.dtype == _precision(own_NV) else _ALLOWED_IN_HALF
        return bool((own_NV - ours_NV).abs().max() <= allowed * own_NV.float().std())

    def forward(
        self: Any, *args: Any, at: Tensor | None = None, following: Tensor | None = None, **kwargs: Any
    ) -> Any:
        nonlocal ordinary
        if at is None or following is None:
            return plain_forward(*args, **kwargs)
        kwargs["use_cache"] = False
        if ordinary is None:
            ordinary = is_ordinary(self, kwargs, at)
            if not ordinary:
                log.warning("the model changes its logits behind the output layer: it makes all of them")
        if not ordinary:
            logits_NV = plain_forward(**kwargs).logits.flatten(0, 1)[at]
            return _Scores.apply(logits_NV, following, temperature)
        hidden_NH = self.base_model(**kwargs).last_hidden_state.flatten(0, 1)[at]
        head = self.get_output_embeddings()
        count = math.ceil(len(following) / max(1, HELD_LOGITS // config.vocab_size))
        if count <= 1:
            return score(hidden_NH, head, following)
        parts = [
            checkpoint(score, hidden, head, next_N, use_reentrant=False)
            for hidden, next_N in zip(
                hidden_NH.tensor_split(count), following.tensor_split(count), strict=True
            )
        ]
        logps, entropies = zip(*parts, strict=True)
        return torch.cat(logps), torch.cat(entropies)

    model.forward = types.MethodType(forward, model)


def _few_tokens(kwargs: dict[str, Any], at: Tensor) -> tuple[dict[str, Any], Tensor]:
    """The first tokens of the first row, and their positions; of a packed row, which goes whole, a few."""
    if "packed" in kwargs:
        return kwargs, at[:8]
    few = {name: value[:1, :8] if isinstance(value, Tensor) else value for name, value in kwargs.items()}
    return few, torch.arange(few["input_ids"].shape[1], device=at.device)


class _Scores(torch.autograd.Function):
    """log p(next) and entropy of p = softmax(z), z = logits / temperature, keeping the logits alone.

    With Z = logsumexp(z), log p = z - Z and H = Z - sum p z, the gradients are

        d log p(next) / d z = [next] - p        d H / d z = -p (log p + H)

    The backward pass writes them over the logits, which nothing else needs: it can run only once.
    """

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, next_N: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        logp_N, entropy_N, total_N = (
            torch.empty(len(next_N), dtype=_precision(logits_NV), device=logits_NV.device) for _ in range(3)
        )
        for tile in _tiles(logits_NV):
            z_NV = logits_NV[tile].to(logp_N.dtype) / temperature
            total_N[tile] = z_NV.logsumexp(-1)
            logp_N[tile] = z_NV.gather(-1, next_N[tile, None])[:, 0] - total_N[tile]
            p_NV = (z_NV - total_N[tile, None]).exp_()
            entropy_N[tile] = total_N[tile] - p_NV.mul_(z_NV).sum(-1)
        ctx.save_for_backward(logits_NV, next_N, total_N, entropy_N)
        ctx.set_materialize_grads(False)
        ctx.temperature = temperature
        return logp_N, entropy_N

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        logits_NV, next_N, total_N, entropy_N = ctx.saved_tensors
        of_logp_N, of_entropy_N = (None if grad is None else grad / ctx.temperature for grad in grads)
        for tile in _tiles(logits_NV):
            logp_NV = (logits_NV[tile].to(total_N.dtype) / ctx.temperature).sub_(total_N[tile, None])
            if of_entropy_N is None:
                assert of_logp_N is not None, "autograd asks only for what is needed"
                grad_NV = logp_NV.exp_().mul_(-of_logp_N[tile, None])
            else:
                p_NV = logp_NV.exp()
                grad_NV = logp_NV.add_(entropy_N[tile, None]).mul_(-of_entropy_N[tile, None])
                if of_logp_N is not None:
                    grad_NV.sub_(of_logp_N[tile, None])
                grad_NV.mul_(p_NV)
            if of_logp_N is not None:
                grad_NV.scatter_add_(-1, next_N[tile, None], of_logp_N[tile, None])
            logits_NV[tile] = grad_NV
        return logits_NV, None, None


def _precision(logits: Tensor) -> torch.dtype:
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def _tiles(logits_NV: Tensor) -> Iterator[slice]:
    rows = max(1, _TILE // logits_NV.shape[1])
    return (slice(start, start + rows) for start in range(0, len(logits_NV), rows))
