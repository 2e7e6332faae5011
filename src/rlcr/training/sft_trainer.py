# pyright: basic
"""TRL's SFTTrainer on passes without padding, in which what examples begin with is read once for all.

Examples of one task begin alike: the chat template and the system prompt. They go through the model as
completions of that common beginning (:mod:`rlcr.engine.sharing`), behind each other in one row, and only
their trained tokens are scored. The loss is TRL's up to rounding: the mean over the trained tokens of a batch
of -log p.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from trl import SFTTrainer  # pyright: ignore[reportPrivateImportUsage]

from rlcr.engine.attention import base_model
from rlcr.engine.batches import Sample, common_beginning
from rlcr.engine.learning import Sharing
from rlcr.engine.logps import add_token_scores
from rlcr.training.checkpoint import WholeCheckpoints

#: The label of a token that is not trained on.
_IGNORED = -100


class PackedSFTTrainer(WholeCheckpoints, SFTTrainer):
    """TRL's trainer with another way of computing the same loss."""

    def __init__(self, **trl: Any) -> None:
        super().__init__(**trl)
        model = self.accelerator.unwrap_model(self.model)
        tokenizer: Any = self.processing_class
        add_token_scores(base_model(model), temperature=1.0)
        self._sharing = Sharing(
            [model],
            wanted=True,
            accelerator=self.accelerator,
            pad=tokenizer.pad_token_id,
            rows=self.args.per_device_train_batch_size,
        )

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Forward and backward of a micro-batch."""
        try:
            return super().training_step(model, inputs, num_items_in_batch)
        finally:
            self._sharing.switch(False)  # the model has its own attention again

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """The sum of -log p over the trained tokens of this micro-batch, divided by those of the batch."""
        assert not return_outputs, "it only trains"
        assert num_items_in_batch is not None, "transformers counts what is trained on"
        samples = samples_of(inputs)
        # Processes meet in the trial: all make it, also those whose rows have no beginning in common.
        shared, _ = self._sharing.split(model, samples, trial=samples if samples[0].prompt else ())
        share = bool(shared and samples[0].prompt)
        logps_N, _ = model(**self._sharing.inputs(samples, shared=share))
        # The number is that of all processes, whose gradients are averaged.
        return -logps_N.sum() / num_items_in_batch * self.accelerator.num_processes


def samples_of(inputs: dict[str, torch.Tensor]) -> list[Sample]:
    """The padded rows as completions of their common beginning, which may be empty."""
    whole, trained = (inputs[name].cpu().numpy() for name in ("attention_mask", "labels"))
    ids = inputs["input_ids"].cpu().numpy()
    rows = [ids[row][kept == 1] for row, kept in enumerate(whole)]
    counted = [trained[row][kept == 1] != _IGNORED for row, kept in enumerate(whole)]
    # Nothing is predicted from before the first token, and what is trained belongs to the completion.
    begin = min(common_beginning([row.tolist() for row in rows]), *(int(c.argmax()) for c in counted))
    return [
        Sample(0, row[:begin].tolist(), row[begin:].tolist(), np.zeros(len(row) - begin), c[begin:])
        for row, c in zip(rows, counted, strict=True)
    ]
