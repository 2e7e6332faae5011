# pyright: basic
"""Learning with shared prompts: which completions can share theirs, and what the model is called with."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from rlcr.engine.attention import Switch, base_model, evaluating
from rlcr.engine.batches import Sample
from rlcr.engine.sharing import SharedPrompts, plain_inputs
from rlcr.engine.trial import Trial, try_packed

log = logging.getLogger(__name__)


class Sharing:
    """Calls models with shared prompts, or in the plain way where that cannot be done."""

    def __init__(self, models: Sequence[Any], *, wanted: bool, accelerator: Any, pad: int, rows: int) -> None:
        """``models`` are the one that learns and those asked with it.

        ``rows`` completions, padded with ``pad``, are as many as the plain way may be given at once.
        """
        self._inner, self._switch = base_model(models[0]), Switch(*models)
        self._accelerator, self._pad, self._rows = accelerator, pad, rows
        self._trial = None if wanted else Trial("it is not wanted")

    @property
    def on(self) -> bool:
        """Whether the model was tried and can share prompts."""
        return self._trial is not None and self._trial.reason is None

    def split(
        self, model: Any, samples: Sequence[Sample], trial: Sequence[Sample]
    ) -> tuple[list[Sample], list[Sample]]:
        """Those whose prompts can be shared, and the others.

        The first time, the model is tried, on ``trial``: the whole update, whatever of it is learned from.
        """
        if self._trial is None:
            self._trial = self._try(model, trial)
        longest: dict[int, int] = {}
        for sample in samples:
            length = len(sample.prompt) + len(sample.completion)
            longest[sample.group] = max(length, longest.get(sample.group, 0))
        shared = [sample for sample in samples if self._trial.fits(longest[sample.group])]
        return shared, [sample for sample in samples if not self._trial.fits(longest[sample.group])]

    def inputs(self, samples: Sequence[Sample], *, shared: bool) -> dict[str, Any]:
        """What the model is called with; its attention is switched accordingly.

        It stays so, since gradient checkpointing runs layers again in the backward pass.
        """
        self.switch(shared)
        if shared:
            return SharedPrompts(samples, self._accelerator.device).inputs()
        return plain_inputs(samples, self._pad, self._accelerator.device)

    def switch(self, on: bool) -> None:
        """Our attention or the models' own."""
        self._switch.turn(on)

    def _try(self, model: Any, samples: Sequence[Sample]) -> Trial:
        def scorer(some: Sequence[Sample], packed: bool) -> Tensor:
            with evaluating(model):  # the wrapper of several devices too
                return model(**self.inputs(some, shared=packed))[0]

        if _drops_out(model, self._inner.config.get_text_config()):
            # Each completion would have its own draw for the prompt; shared, there is one for all.
            trial = Trial("it drops out at random while it learns")
        else:
            trial = try_packed(self._inner, samples, rows=self._rows, scorer=scorer)
        # All processes must go the same way.
        failed = torch.tensor(float(trial.reason is not None), device=self._accelerator.device)
        if not bool(self._accelerator.reduce(failed)):
            log.info("prompts are shared; log-probabilities differ from those without %s", trial.measured)
            return trial
        reason = trial.reason or "another process could not share them"
        log.warning("learning computes the prompt again for each completion, since %s", reason)
        return Trial(reason)


def _drops_out(model: Any, config: Any) -> bool:
    """Whether anything in the model is dropped at random: layers of it (as of LoRA), or settings."""
    layers = any(isinstance(m, _DropoutNd) and m.training and m.p > 0 for m in model.modules())
    return layers or any(getattr(config, name, None) for name in ("attention_dropout", "dropout"))
