# pyright: basic
"""Whether a model can run packed, and up to which length: asked by sampling, learning and embedding alike.

Models with plain (grouped-query) attention can: Llama, Qwen2, Qwen3, OLMo-2, Mistral, Gemma 3 as long as no
sequence is longer than its window, and others of their kind. They are not looked up by name. The
configuration says so of some that cannot. A pass over a few tokens finds out what layers ask of attention;
then one pass is made both ways, packed and as the model does it, and the log-probabilities must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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

#: By how much log-probabilities of the two ways may differ; a wrong way differs by several nats.
_ALLOWED = {torch.float64: 1e-6, torch.float32: 1e-3}
_ALLOWED_IN_HALF = 0.5
#: What a model may fail with when it is not called as it expects. The plain way is still open then.
_FAILURES = (NotForwardedError, TypeError, RuntimeError, ValueError, AttributeError, KeyError, IndexError)

#: Log-probabilities of the same tokens, packed and in the model's own way.
BothWays = Callable[[Sequence[Sample]], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Trial:
    """How a trial ended: the reason why a model cannot run packed, or up to which length it can."""

    reason: str | None = None
    longest: int | None = None
    """The longest sequence that can; None: any."""

    def fits(self, length: int) -> bool:
        """Whether a sequence of this length can run packed."""
        return self.reason is None and (self.longest is None or length <= self.longest)


def try_packed(
    model: Any, samples: Sequence[Sample] = (), *, rows: int = 4, both_ways: BothWays | None = None
) -> Trial:
    """Try a model on ``rows`` of the samples, or on random tokens.

    ``both_ways`` computes their log-probabilities; a causal language model needs no help with it.
    """
    inner = base_model(model)
    config = inner.config.get_text_config()
    if (reason := _unsuited(inner, config)) is not None:
        return Trial(reason)
    samples = [_all_counted(sample) for sample in samples or _random_samples(config.vocab_size)]
    both_ways = both_ways or (lambda some: _greedy_logps(model, some))
    first = samples[0]
    short = _all_counted(replace(first, prompt=first.prompt[:4], completion=first.completion[:3]))
    try:
        with evaluating(model), torch.no_grad():
            with noting() as demands:
                both_ways([short, short])
            longest = _window(config, demands)
            fitting = [s for s in samples if longest is None or len(s.prompt) + len(s.completion) <= longest]
            # Always as many passes: those of several processes may wait for each other.
            ours_N, own_N = both_ways(_from_two_groups(fitting, rows) or [short, short])
    except _FAILURES as error:
        message = (str(error).splitlines() or [""])[0]
        return Trial(f"a trial failed ({type(error).__name__}: {message})")
    return Trial(_lacking(demands, config.num_hidden_layers) or _disagreement(inner, ours_N, own_N), longest)


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


def _disagreement(inner: Any, ours_N: Tensor, own_N: Tensor) -> str | None:
    """What is wrong with our log-probabilities, given the model's own; None if nothing is."""
    # Under autocast the arithmetic is in half precision whatever the type of the weights.
    half = torch.is_autocast_enabled(own_N.device.type)
    allowed = _ALLOWED_IN_HALF if half else _ALLOWED.get(inner.dtype, _ALLOWED_IN_HALF)
    apart = (ours_N - own_N).abs().max().item()
    if apart <= allowed:
        return None
    return f"log-probabilities with a shared prompt differ by {apart:.3g} from those without"


def _greedy_logps(model: Any, samples: Sequence[Sample]) -> tuple[Tensor, Tensor]:
    """Both ways by the model's logits: of the likeliest tokens, since random ones are mostly noise."""
    device = device_of(model)

    def logps_at(call: dict[str, Any]) -> Tensor:
        at_N = call.pop("at")
        del call["following"]
        logits_NV = model(**call, use_cache=False).logits.flatten(0, 1)[at_N]
        return logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32)).log_softmax(-1)

    with Switch(model):
        ours_NV = logps_at(SharedPrompts(samples, device).inputs())
    own_NV = logps_at(plain_inputs(samples, 0, device))
    greedy_N1 = own_NV.argmax(-1, keepdim=True)
    return ours_NV.gather(1, greedy_N1), own_NV.gather(1, greedy_N1)


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
