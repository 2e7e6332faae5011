# pyright: basic
"""Whether a model's prompts can be shared while it learns: what it asks of attention, and a trial.

Models with plain (grouped-query) attention can: Llama, Qwen2, Qwen3, OLMo-2, Mistral, Gemma 3 as long as no
sequence is longer than its window, and others of their kind. It is not looked up by name. A first pass over
a few tokens finds out what layers ask of attention; then one real pass is made both ways, and the
log-probabilities must agree. Otherwise everything takes the plain way, and a warning says why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd
from transformers import AttentionInterface

from rlcr.engine.attention import UNKNOWN_DEMANDS, NotForwardedError, note_demands
from rlcr.engine.batches import Sample
from rlcr.engine.packed import base_model, evaluating, unsuited, window_of
from rlcr.engine.prefix import SharedPrompts, plain_inputs

log = logging.getLogger(__name__)

#: The name under which transformers finds our attention. No mask function has it, so models make no mask.
NAME = "rlcr_shared"
#: By how much log-probabilities of the two ways may differ; a wrong way differs by several nats.
_ALLOWED = {torch.float64: 1e-6, torch.float32: 1e-3}
_ALLOWED_IN_HALF = 0.5
#: What a model may fail with when it is not called as it expects. The plain way is still open then.
_FAILURES = (NotForwardedError, TypeError, RuntimeError, ValueError, AttributeError, KeyError, IndexError)


def shared_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    packed: SharedPrompts | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls in every layer."""
    if packed is None:
        raise NotForwardedError(type(module).__name__)
    if packed.demands is not None:
        note_demands(packed.demands, module, kwargs)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return packed.attend(query, key, value, scale), None


AttentionInterface.register(NAME, shared_attention)


class Sharing:
    """Switches a model between its own attention and ours, and knows for which completions ours will do."""

    def __init__(self, models: Sequence[Any], *, wanted: bool, accelerator: Any, pad: int, rows: int) -> None:
        """``models`` are the one that learns and those asked with it.

        ``rows`` completions, padded with ``pad``, are as many as the plain way may be given at once.
        """
        self._inner, *_ = self._inners = [base_model(model) for model in models]
        self._accelerator, self._pad, self._rows = accelerator, pad, rows
        self._own = [inner.config._attn_implementation for inner in self._inners]
        self._window: int | None = None
        self._possible: bool | None = None if wanted else False

    @property
    def on(self) -> bool:
        """Whether the model was tried and can share prompts."""
        return bool(self._possible)

    def split(
        self, model: Any, samples: Sequence[Sample], trial: Sequence[Sample]
    ) -> tuple[list[Sample], list[Sample]]:
        """Those whose prompts can be shared, and the others.

        The first time, the model is tried, on ``trial``: the whole update, whatever of it is learned from.
        """
        if self._possible is None:
            reason = self._try(model, trial)
            # All processes must go the same way.
            failed = self._accelerator.reduce(
                torch.tensor(float(reason is not None), device=self._accelerator.device)
            )
            self._possible = not bool(failed)
            if not self._possible:
                log.warning(
                    "learning computes the prompt anew for each completion, since %s",
                    reason or "another process could not share them",
                )
        if not self._possible:
            return [], list(samples)
        if self._window is None:
            return list(samples), []
        longest = self._longest(samples)
        shared = [sample for sample in samples if longest[sample.group] <= self._window]
        return shared, [sample for sample in samples if longest[sample.group] > self._window]

    def inputs(self, samples: Sequence[Sample], *, shared: bool) -> dict[str, Any]:
        """What the model is called with; its attention is switched accordingly.

        It stays so, since gradient checkpointing runs layers again in the backward pass.
        """
        self.switch(shared)
        if shared:
            return SharedPrompts(samples, self._accelerator.device).inputs()
        return plain_inputs(samples, self._pad, self._accelerator.device)

    def switch(self, on: bool) -> None:
        """Our attention or the model's own."""
        for inner, own in zip(self._inners, self._own, strict=True):
            wanted = NAME if on else own
            if inner.config._attn_implementation != wanted:
                inner.set_attn_implementation(wanted)

    def _longest(self, samples: Sequence[Sample]) -> dict[int, int]:
        longest: dict[int, int] = {}
        for sample in samples:
            length = len(sample.prompt) + len(sample.completion)
            longest[sample.group] = max(length, longest.get(sample.group, 0))
        return longest

    def _try(self, model: Any, samples: Sequence[Sample]) -> str | None:
        """Why the model cannot share prompts; None if it can."""
        if (reason := unsuited(self._inner)) is not None:
            return reason
        if _drops_out(model, self._inner.config.get_text_config()):
            # Each completion would have its own draw for the prompt; shared, there is one for all.
            return "it drops out at random while it learns"
        try:
            return self._compare(model, [_all_counted(sample) for sample in samples])
        except _FAILURES as error:
            message = (str(error).splitlines() or [""])[0]
            return f"a trial failed ({type(error).__name__}: {message})"

    def _compare(self, model: Any, samples: Sequence[Sample]) -> str | None:
        """What layers ask of attention, then the two ways on a real pass."""
        config = self._inner.config.get_text_config()
        first = samples[0]
        short = _all_counted(replace(first, prompt=first.prompt[:4], completion=first.completion[:3]))
        demands = self._demands(model, [short, short])
        for name, meaning in UNKNOWN_DEMANDS.items():
            if name in demands:
                return f"its attention has {meaning}"
        if len(demands.get("layers", ())) < config.num_hidden_layers:
            return "some of its layers do without our attention"
        self._window = window_of(config, demands)
        longest = self._longest(samples)
        fitting = [s for s in samples if self._window is None or longest[s.group] <= self._window]
        trial = _from_two_groups(fitting, self._rows) or [short, short]
        apart = self._apart(model, trial)
        half = torch.is_autocast_enabled(self._accelerator.device.type)
        allowed = _ALLOWED_IN_HALF if half else _ALLOWED.get(self._inner.dtype, _ALLOWED_IN_HALF)
        if apart <= allowed:
            return None
        return f"log-probabilities with a shared prompt differ by {apart:.3g} from those without"

    def _demands(self, model: Any, samples: Sequence[Sample]) -> dict[str, Any]:
        inputs = self.inputs(samples, shared=True)
        inputs["packed"].demands = demands = {}
        with evaluating(model), torch.no_grad():
            model(**inputs)
        return demands

    def _apart(self, model: Any, samples: Sequence[Sample]) -> float:
        """The greatest difference of a log-probability between the two ways."""
        with evaluating(model), torch.no_grad():
            logps = [model(**self.inputs(samples, shared=shared))[0] for shared in (True, False)]
        return (logps[0] - logps[1]).abs().max().item()


def _from_two_groups(samples: Sequence[Sample], rows: int) -> list[Sample]:
    """So many completions of two prompts, of different lengths if there are any."""
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    first, *others = groups.values() or [[]]
    unlike = [group for group in others if len(group[0].prompt) != len(first[0].prompt)]
    second = (unlike or others or [[]])[0][: rows // 2]
    return [*first[: rows - len(second)], *second]


def _all_counted(sample: Sample) -> Sample:
    """All tokens compared: where nothing is learned from any of them, nothing would be."""
    return replace(sample, counted_T=np.ones(len(sample.completion), dtype=bool))


def _drops_out(model: Any, config: Any) -> bool:
    """Whether anything in the model is dropped at random: layers of it (as of LoRA), or settings."""
    layers = any(isinstance(m, _DropoutNd) and m.training and m.p > 0 for m in model.modules())
    return layers or any(getattr(config, name, None) for name in ("attention_dropout", "dropout"))
