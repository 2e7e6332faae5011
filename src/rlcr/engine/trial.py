# pyright: basic
"""Whether a model can run packed, and up to which length: asked by sampling, learning and embedding alike.

Models with plain (grouped-query) attention can: Llama, Qwen2, Qwen3, OLMo-2, Mistral, Gemma 3 as long as no
sequence is longer than its window, and others of their kind. They are not looked up by name. The
configuration says so of some that cannot. A pass over a few tokens finds out what layers ask of attention;
then one pass is made both ways, packed and as the model does it, and the log-probabilities must agree: each
of them in full precision. In half precision a few of thousands may differ by half a nat for no reason but
rounding, so there quantiles must agree, about as well as the model agrees with itself when the same rows go
through it in other batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcr.engine.attention import (
    UNKNOWN_DEMANDS,
    Demands,
    NotForwardedError,
    Switch,
    base_model,
    device_of,
    evaluating,
    noting,
)
from rlcr.engine.batches import Sample
from rlcr.engine.sharing import SharedPrompts, plain_inputs

#: By how much log-probabilities of the two ways may differ in full precision, at most.
_ALLOWED = {torch.float64: 1e-6, torch.float32: 1e-3}
#: In half precision: by how much at each quantile, however little the model differs from itself; and how many
#: times as much as that otherwise. A wrong way differs by several nats.
_ALLOWED_IN_HALF = {0.5: 0.02, 0.9: 0.1, 0.99: 0.3}
_TIMES_THE_NOISE = 4
#: What a model may fail with when it is not called as it expects. The plain way is still open then.
_FAILURES = (NotForwardedError, TypeError, RuntimeError, ValueError, AttributeError, KeyError, IndexError)

#: Log-probabilities of the tokens of samples, packed or in the model's own way; or whole distributions.
Scorer = Callable[[Sequence[Sample], bool], Tensor]


@dataclass(frozen=True)
class Trial:
    """How a trial ended: the reason why a model cannot run packed, or up to which length it can."""

    reason: str | None = None
    longest: int | None = None
    """The longest sequence that can; None: any."""
    measured: str = field(default="", compare=False)
    """How far the two ways are apart."""

    def fits(self, length: int) -> bool:
        """Whether a sequence of this length can run packed."""
        return self.reason is None and (self.longest is None or length <= self.longest)


def try_packed(
    model: Any, samples: Sequence[Sample] = (), *, rows: int = 4, scorer: Scorer | None = None
) -> Trial:
    """Try a model on ``rows`` of the samples, or on random tokens.

    ``scorer`` computes their log-probabilities; a causal language model needs no help with it.
    """
    inner = base_model(model)
    config = inner.config.get_text_config()
    if (reason := _unsuited(inner, config)) is not None:
        return Trial(reason)
    samples = [_all_counted(sample) for sample in samples or _random_samples(config.vocab_size)]
    scorer = scorer or (lambda some, packed: _all_logps(model, some, packed=packed))
    first = samples[0]
    short = _all_counted(replace(first, prompt=first.prompt[:4], completion=first.completion[:3]))
    try:
        with evaluating(model), torch.no_grad():
            with noting() as demands:
                _both_ways(scorer, [short, short])
            longest = _window(config, demands)
            fitting = [s for s in samples if longest is None or len(s.prompt) + len(s.completion) <= longest]
            # Always as many passes: those of several processes may wait for each other.
            some = _from_two_groups(fitting, rows) or [short, short]
            some = some * 2 if len(some) == 1 else some
            ours_N, own_N = _both_ways(scorer, some)
            half = _computes_in_half(inner, own_N)
            noise_N = _noise(scorer, some) if half else None
    except _FAILURES as error:
        message = (str(error).splitlines() or [""])[0]
        return Trial(f"a trial failed ({type(error).__name__}: {message})")
    fits, measured = _agreement((ours_N - own_N).abs(), noise_N, inner.dtype)
    apart = None if fits else f"log-probabilities with a shared prompt differ from those without: {measured}"
    return Trial(_lacking(demands, config.num_hidden_layers) or apart, longest, measured)


def _unsuited(inner: Any, config: Any) -> str | None:
    """Why a model cannot run packed, as far as its configuration says; None if it may."""
    if not inner._can_set_attn_implementation():
        return "its attention cannot be exchanged"
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if kinds:
        return f"it has layers of type {', '.join(sorted(kinds))}"
    rope = getattr(config, "rope_parameters", None) or {}
    ropes = [rope, *(r for r in rope.values() if isinstance(r, dict))]
    if any(r.get("rope_type") in ("dynamic", "longrope") for r in ropes):
        return "its rotary positions depend on the length of the batch"
    return None


def _lacking(demands: Demands, layers: int) -> str | None:
    """What layers asked of attention that ours does not do."""
    for name in sorted(demands.unknown):
        return f"its attention has {UNKNOWN_DEMANDS[name]}"
    return "some of its layers do without our attention" if len(demands.layers) < layers else None


def _window(config: Any, demands: Demands) -> int | None:
    """The shortest sliding window of a model; None if it has none.

    Layers mostly ask attention for it, but some models put it into their mask alone, which ours does
    without: then only the configuration tells. Some have one there that is switched off.
    """
    windows = set(demands.windows)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        slides = getattr(config, "use_sliding_window", None) is not False
    else:
        slides = "sliding_attention" in kinds
    if slides and (window := getattr(config, "sliding_window", None)):
        windows.add(window)
    return min(windows, default=None)


def _computes_in_half(inner: Any, logps: Tensor) -> bool:
    """Under autocast the arithmetic is in half precision whatever the type of the weights."""
    return torch.is_autocast_enabled(logps.device.type) or inner.dtype not in _ALLOWED


def _both_ways(scorer: Scorer, samples: Sequence[Sample]) -> tuple[Tensor, Tensor]:
    """Log-probabilities packed and in the model's own way."""
    return _same_tokens(scorer(samples, True), scorer(samples, False))


def _noise(scorer: Scorer, samples: Sequence[Sample]) -> Tensor:
    """By how much each log-probability of the model's own way depends on what else is in the batch."""
    cut = len(samples) // 2
    parts = [scorer(part, False) for part in (samples[:cut], samples[cut:])]
    whole_N, parts_N = _same_tokens(scorer(samples, False), torch.cat(parts))
    return (whole_N - parts_N).abs()


def _agreement(apart_N: Tensor, noise_N: Tensor | None, dtype: torch.dtype) -> tuple[bool, str]:
    """Whether the two ways agree, and by how much they are apart; ``noise_N`` in half precision."""
    if noise_N is None:
        return apart_N.max().item() <= _ALLOWED[dtype], f"by {apart_N.max().item():.3g} at most"
    at = torch.tensor(list(_ALLOWED_IN_HALF))
    found, noise = (torch.quantile(x_N.float().cpu(), at).tolist() for x_N in (apart_N, noise_N))
    allowed = [
        max(floor, _TIMES_THE_NOISE * own)
        for floor, own in zip(_ALLOWED_IN_HALF.values(), noise, strict=True)
    ]
    fits = all(one <= most for one, most in zip(found, allowed, strict=True))
    measured = (
        f"by {_numbers(found)} nats ({', '.join(f'{q:.0%}' for q in _ALLOWED_IN_HALF)} of {apart_N.numel():,}"
        f" tokens), where other batches alone make {_numbers(noise)}"
    )
    return fits, measured


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2g}" for value in values)


def _same_tokens(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Of whole distributions, the likeliest tokens by the second: random ones are mostly noise."""
    if b.dim() == 1:
        return a, b
    greedy_N1 = b.argmax(-1, keepdim=True)
    return a.gather(1, greedy_N1)[:, 0], b.gather(1, greedy_N1)[:, 0]


def _all_logps(model: Any, samples: Sequence[Sample], *, packed: bool) -> Tensor:
    """The log-probabilities of all tokens, by the model's logits."""
    device = device_of(model)
    with Switch(model) if packed else nullcontext():
        call = SharedPrompts(samples, device).inputs() if packed else plain_inputs(samples, 0, device)
        at_N = call.pop("at")
        del call["following"]
        logits_NV = model(**call, use_cache=False).logits.flatten(0, 1)[at_N]
    return logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32)).log_softmax(-1)


def _random_samples(vocabulary: int) -> list[Sample]:
    """Two completions behind each of two prompts of different lengths."""
    drawn = np.random.default_rng(0).integers(0, vocabulary, (4, 10)).tolist()
    prompts = [drawn[0][:7], drawn[2][:4]]
    none, counted = np.zeros(0), np.zeros(0, dtype=bool)
    return [Sample(row // 2, prompts[row // 2], ids[-3:], none, counted) for row, ids in enumerate(drawn)]


def _from_two_groups(samples: Sequence[Sample], rows: int) -> list[Sample]:
    """``rows`` completions of two prompts, of different lengths if there are any."""
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    first, *others = groups.values() or [[]]
    unlike = [group for group in others if len(group[0].prompt) != len(first[0].prompt)]
    second = (unlike or others or [[]])[0][: rows // 2]
    return [*first[: rows - len(second)], *second]


def _all_counted(sample: Sample) -> Sample:
    """All tokens compared: where nothing is learned from any of them, nothing would be."""
    return replace(sample, counted_T=np.ones(len(sample.completion), dtype=bool), choice=None)
