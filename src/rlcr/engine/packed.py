# pyright: basic
"""A model run on packed sequences, if it can be: detection, switching attention, prefill and decode.

Models with plain (grouped-query) attention take this path: Llama, Qwen2, Qwen3, OLMo-2, Mistral, Gemma 3 as
long as no sequence is longer than its window, and others of their kind. Whether a model belongs to them is
not looked up by name: `refusal` tries it on a few random tokens against the model's own forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from rlcr.engine.attention import (
    NAME,
    UNKNOWN_DEMANDS,
    Decode,
    NotForwardedError,
    OwnPart,
    Prefill,
    PromptPart,
    Stretch,
    packed_attention,
)
from rlcr.engine.blocked import blocked_linears
from rlcr.engine.slabs import Slab

AttentionInterface.register(NAME, packed_attention)

#: Prompts are prefilled in lots of about this many tokens: enough for full speed, little memory.
PREFILL_TOKENS = 2048


def base_model(model: Any) -> Any:
    """The transformers model inside a peft model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model in evaluation mode; afterwards every module is as it was."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


class PackedModel:
    """Runs a model on packed sequences. Only inside `active`."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.demands: dict[str, Any] | None = None

    @property
    def device(self) -> torch.device:
        """Where inputs go."""
        return base_model(self.model).get_input_embeddings().weight.device

    @contextmanager
    def active(self) -> Iterator[None]:
        """Our attention in place of the model's own, which is restored afterwards.

        Short stretches only, never across a yield of the sampler: whoever consumes completions finds the
        model as it was.
        """
        inner = base_model(self.model)
        own = inner.config._attn_implementation
        with evaluating(self.model), blocked_linears(self.model), torch.inference_mode():
            try:
                inner.set_attn_implementation(NAME)
                yield
            finally:
                inner.set_attn_implementation(own)

    def prefill(self, prompts: Sequence[Sequence[int]], places: Sequence[tuple[Slab, int]]) -> Tensor:
        """Store the prompts' keys and values at their places; the logits (P, V) after each."""
        device = self.device
        stretches, start = [], 0
        pairs = zip(prompts, places, strict=True)
        # Prompts come longest first, so that those of one length are neighbours.
        for (length, _), members in groupby(pairs, key=lambda pair: (len(pair[0]), id(pair[1][0]))):
            stored = [place for _, place in members]
            slots_P = torch.tensor([slot for _, slot in stored], device=device)
            stretches.append(Stretch(start, length, stored[0][0], slots_P))
            start += length * len(stored)
        tokens_T = torch.tensor([token for ids in prompts for token in ids], device=device)
        positions_T = torch.cat([torch.arange(len(ids)) for ids in prompts]).to(device)
        last_P = torch.tensor([len(ids) for ids in prompts], device=device).cumsum(0) - 1
        return self._forward(tokens_T, positions_T, Prefill(stretches), last_P)

    def decode(self, tokens_B: Tensor, positions_B: Tensor, plan: Decode) -> Tensor:
        """The logits (B, V) after one more token of each sample."""
        return self._forward(tokens_B, positions_B, plan, None)

    def _forward(self, tokens_T: Tensor, positions_T: Tensor, packed: Any, keep: Tensor | None) -> Tensor:
        extra = {} if self.demands is None else {"demands": self.demands}
        output = self.model(
            input_ids=tokens_T[None],
            position_ids=positions_T[None],
            use_cache=False,
            logits_to_keep=0 if keep is None else keep,
            packed=packed,
            **extra,
        )
        logits = output.logits[0]
        # A model that does not know logits_to_keep returns them all.
        return logits if keep is None or len(logits) == len(keep) else logits[keep]


class _Place:
    """A member of a slab in the trial below."""

    slab: Slab
    slot: int


def unsuited(inner: Any) -> str | None:
    """Why a transformers model cannot run packed, as far as its configuration tells; None if it may."""
    config = inner.config.get_text_config()
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


def window_of(config: Any, demands: dict[str, Any]) -> int | None:
    """The shortest sliding window of a model; None if it has none.

    Layers mostly ask attention for it (``demands``), but some models put it into their mask alone, which ours
    does without: then only the configuration tells. Some have one there that is switched off.
    """
    windows = list(demands.get("sliding_window", ()))
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        slides = getattr(config, "use_sliding_window", None) is not False
    else:
        slides = "sliding_attention" in kinds
    if slides and (window := getattr(config, "sliding_window", None)):
        windows.append(window)
    return min(windows, default=None)


def refusal(model: Any) -> tuple[str | None, int | None]:
    """Why a model cannot run packed (None if it can), and the longest sequence for which it can (None: any).

    Two prompts of different lengths with two samples each go through the packed path and, one by one,
    through the model as it is; the logits must agree.
    """
    inner = base_model(model)
    config = inner.config.get_text_config()
    if (reason := unsuited(inner)) is not None:
        return reason, None
    packed = PackedModel(model)
    packed.demands = demands = {}
    drawn = torch.randint(0, config.vocab_size, (4, 9), generator=torch.Generator().manual_seed(0)).tolist()
    prompts = [drawn[0][:7], drawn[2][:4]]
    sequences = [[*prompts[row // 2], *ids[-2:]] for row, ids in enumerate(drawn)]
    try:
        with packed.active():
            prefilled_PV, decoded_RV = _try(packed, prompts, sequences)
    except (NotForwardedError, TypeError, RuntimeError, ValueError, AttributeError, KeyError) as error:
        first = (str(error).splitlines() or [""])[0]
        return f"a trial failed ({type(error).__name__}: {first})", None
    for name, meaning in UNKNOWN_DEMANDS.items():
        if name in demands:
            return f"its attention has {meaning}", None
    # Half precision differs by some percent of the logits' spread; a wrong path by several spreads.
    # Under autocast the arithmetic is in half precision whatever the type of the result.
    exact = prefilled_PV.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled(
        packed.device.type
    )
    allowed = 0.01 if exact else 1.0
    with evaluating(model), torch.no_grad():
        for row, ids in enumerate(sequences):
            own_TV = model(input_ids=torch.tensor([ids], device=packed.device)).logits[0].float()
            ours_2V = torch.stack([prefilled_PV[row // 2], decoded_RV[row]]).float()
            own_2V = own_TV[[len(ids) - 3, len(ids) - 1]]
            if not bool((ours_2V - own_2V).abs().max() <= allowed * own_2V.std()):
                return "a trial on random tokens gave other logits than its own forward pass", None
    return None, window_of(config, demands)


def _try(packed: PackedModel, prompts: list[list[int]], sequences: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Prefill both prompts, then two tokens of each of the four samples."""
    device = packed.device
    prompt_slab, own_slab = Slab(8), Slab(4)
    places = [_Place() for _ in range(6)]
    for place in places[:2]:
        prompt_slab.add(place)
    for place in places[2:]:
        own_slab.add(place)
    prefilled_PV = packed.prefill(prompts, [(prompt_slab, 0), (prompt_slab, 1)])
    lengths_P = torch.tensor([len(ids) for ids in prompts], device=device)
    mask_P1S = torch.zeros(2, 1, 7, device=device)
    mask_P1S[1, :, len(prompts[1]) :] = -torch.inf
    rows_PN = torch.tensor([[0, 1], [2, 3]], device=device)
    logits_RV = prefilled_PV
    for step in range(2):
        own = OwnPart(own_slab, 0, 4, torch.full((4,), step, device=device), step + 1, None)
        plan = Decode([own], [PromptPart(prompt_slab, rows_PN, 7, mask_P1S)], torch.arange(4, device=device))
        tokens = [ids[len(prompts[row // 2]) + step] for row, ids in enumerate(sequences)]
        positions_B = lengths_P.repeat_interleave(2) + step
        logits_RV = packed.decode(torch.tensor(tokens, device=device), positions_B, plan)
    return prefilled_PV, logits_RV
