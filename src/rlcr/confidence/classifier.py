# pyright: basic
"""A classifier: a language model with one scalar head that reads question, solution and answer.

    bce     binary cross-entropy (the paper's main classifier)
    brier   squared error of the probability itself

Trained with transformers' Trainer on the records of a run, so that it scales as that does (several
processes, half precision, accumulation). A part of the questions is held out: their Brier score says when
to stop and which weights to keep. Unscorable records are left out and counted. The folder that comes out is
an ordinary one of transformers, with ``classifier.json`` beside the weights: what it reads, and which
questions it must not be measured on. ``plan.json`` describes an unfinished training: resumed with other
settings or records, it would have seen what it holds out.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from rlcr.confidence.rows import Rows, cost, folds_of, unseen
from rlcr.confidence.texts import Part, check_part, read_part
from rlcr.errors import RlcrError, nearest
from rlcr.prompts import user_message
from rlcr.runs.differences import differences
from rlcr.runs.lines import object_of, write_object
from rlcr.runs.store import LOCK, locked
from rlcr.training.checkpoint import CHECKPOINTS, WholeCheckpoints, is_main, last_whole, processes

log = logging.getLogger(__name__)

CLASSIFIER, PLAN = "classifier.json", "plan.json"
Loss = Literal["bce", "brier"]


@dataclass(frozen=True)
class ClassifierSettings:
    """How to train. One question in ``held_out`` is held out; ``patience`` is evaluations without a gain."""

    loss: Loss = "bce"
    part: Part = "solution"
    epochs: float = 3.0
    batch: int = 16
    micro_batch: int = 4
    lr: float = 1e-5
    warmup: float = 0.1
    max_tokens: int = 2048
    held_out: int = 10
    evals_per_epoch: int = 4
    patience: int = 4
    seed: int = 0

    def check(self) -> None:
        """Raise for impossible settings."""
        self.check_values()
        if self.batch % (self.micro_batch * processes()):
            each = f"micro_batch {self.micro_batch} x {processes()} processes"
            raise RlcrError(f"batch {self.batch} is not a multiple of {each}")

    def check_values(self) -> None:
        """Raise for a value that is impossible on any machine."""
        if self.loss not in get_args(Loss):
            raise RlcrError(f"unknown loss {self.loss!r}: {nearest(self.loss, list(get_args(Loss)))}")
        check_part(self.part)
        counted = ("batch", "micro_batch", "max_tokens", "evals_per_epoch", "patience")
        for name, least in (("epochs", 0), ("lr", 0), ("warmup", 0), *((name, 1) for name in counted)):
            if not _is_number(value := getattr(self, name), name in counted) or value < least:
                kind = "a whole number" if name in counted else "a number"
                raise RlcrError(f"{name} must be {kind} from {least}, not {value!r}")
        if not _is_number(self.held_out, whole=True) or self.held_out < 2:
            raise RlcrError(f"held_out must be a whole number from 2, not {self.held_out!r}")


def _is_number(value: Any, whole: bool = False) -> bool:
    kinds = int if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class Trained:
    """What came of a training."""

    folder: Path
    counts: dict[str, int]
    """Right, wrong and left out (unscorable) rows of the training run."""
    held_out: dict[str, float]
    """Brier score of the kept weights on held-out questions, and of the constant base rate there."""
    cut: int
    """Texts longer than ``max_tokens``, of which the beginning was cut."""


def text_of(question: str, part: str) -> str:
    """What the classifier reads: the question, a blank line, the response."""
    return f"{question}\n\n{part}"


def train_classifier(
    rows: Rows, model: str, out: Path, settings: ClassifierSettings | None = None, *, resume: bool = False
) -> Trained:
    """Train a classifier on the records of a run and write its folder."""
    settings = settings or ClassifierSettings()
    settings.check()
    rows.check_learnable()
    plan = plan_of(rows, model, settings)
    if is_main():  # the others of one training would find what this one begins to write
        _check_out(out, plan, resume)
    with locked(out) if is_main() else nullcontext():
        if resume and (out / CLASSIFIER).exists():
            return _finished(out, plan)
        return _train(rows, model, out, settings, plan, resume)


def _train(
    rows: Rows, model: str, out: Path, settings: ClassifierSettings, plan: dict[str, Any], resume: bool
) -> Trained:
    from transformers import set_seed

    set_seed(settings.seed)  # the head is drawn before the trainer sets the seed
    network, tokenizer = _load(model)
    if is_main():
        write_object(out / PLAN, plan)
    encoded, cut = _encode(tokenizer, _texts(rows, settings.part), settings.max_tokens)
    held = folds_of(rows.questions, settings.held_out, settings.seed) == 0
    learning, stopping = (np.flatnonzero(which & rows.scored) for which in (~held, held))
    if len(np.unique(rows.verdict[learning])) < 2 or not len(stopping):
        raise RlcrError(f"{rows.run.folder}: too few questions to hold some out; use more")
    parts = [_Examples([encoded[n] for n in kept], rows.verdict[kept]) for kept in (learning, stopping)]
    trainer = _trainer(network, tokenizer, parts, settings, out / CHECKPOINTS)
    checkpoint = last_whole(out / CHECKPOINTS) if resume else None
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    labels = parts[1].labels
    rate, brier = float(labels.mean()), trainer.evaluate()["eval_brier"]
    held_out = {"brier": brier, "base_rate_brier": rate * (1 - rate), "rows": len(labels)}
    result = Trained(out, rows.counts(), held_out, cut)
    if trainer.is_world_process_zero():
        _save(trainer, tokenizer, result, rows, plan)
    return result


def plan_of(rows: Rows, model: str, settings: ClassifierSettings) -> dict[str, Any]:
    """What a training is about: model, settings, and a hash of questions, texts and verdicts."""
    digest = hashlib.sha256()
    texts = _texts(rows, settings.part)
    for question, text, verdict in zip(rows.questions, texts, rows.verdict.tolist(), strict=True):
        digest.update(json.dumps([question, text, verdict]).encode())
    return {"model": model, "data": digest.hexdigest()[:16], "settings": asdict(settings)}


def check_plan(folder: Path, stored: Any, plan: dict[str, Any]) -> None:
    """Raise if what lies in a folder was begun with another plan."""
    stored = stored if isinstance(stored, dict) else {}
    old, new = ({**p, **s} if isinstance(s := p.get("settings"), dict) else p for p in (stored, plan))
    compared = [name for name in new if name not in ("settings", "data")]
    changed = differences(*({name: p.get(name) for name in compared} for p in (old, new)))
    if old.get("data") != new["data"]:
        changed.append("the records (their questions, texts or verdicts) are others")
    if changed:
        raise RlcrError(
            f"{folder}: a classifier of another training: {'; '.join(changed)}; choose another --out"
        )


def _check_out(out: Path, plan: dict[str, Any], resume: bool) -> None:
    if not out.exists() or not any(path.name != LOCK for path in out.iterdir()):
        return
    if not resume:
        raise RlcrError(f"{out}: not empty; choose another --out, or --resume")
    if (out / CLASSIFIER).exists():
        check_plan(out, read_classifier(out), plan)
        return
    try:
        stored = object_of((out / PLAN).read_bytes())
    except (OSError, ValueError):
        raise RlcrError(f"{out}: no training to resume (no {PLAN}); choose another --out") from None
    check_plan(out, stored, plan)


def _finished(out: Path, plan: dict[str, Any]) -> Trained:
    """What came of a training that had ended, but for what a kill may have kept it from removing."""
    description = read_classifier(out)
    _remove_beginnings(out)
    return Trained(out, description["training"], description["held_out"], description["cut"])


def _texts(rows: Rows, part: Part) -> list[str]:
    questions = {name: user_message(problem) for name, problem in rows.problems.items()}
    return [text_of(questions[r.id], read_part(r, part)) for r in rows.records()]


def _load(model: str) -> tuple[Any, Any]:
    """The network with a scalar head, from any causal checkpoint or a classifier's own folder."""
    from rlcr.sample.loading import ONLY_DATA, load_tokenizer

    tokenizer = load_tokenizer(model)
    import torch
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging as transformers_logging

    tokenizer.padding_side = "right"  # what stands before a token must not depend on its neighbours' lengths
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # it warns of the new head, which is what we want
    try:
        network = AutoModelForSequenceClassification.from_pretrained(
            model, num_labels=1, dtype=torch.float32, **ONLY_DATA
        )
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise RlcrError(f"{model}: cannot be made a classifier: {line}") from error
    finally:
        transformers_logging.set_verbosity(level)
    words = network.get_input_embeddings().num_embeddings
    if len(tokenizer) > words:
        raise RlcrError(
            f"{model}: its tokenizer knows {len(tokenizer):,} tokens and its weights {words:,}: they do not"
            " belong together"
        )
    network.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    return network, tokenizer


def _encode(tokenizer: Any, texts: list[str], most: int) -> tuple[list[list[int]], int]:
    """Token ids. Of a text that is too long the beginning is cut: the answer is at the end."""
    ids = [list(row) for row in tokenizer(texts, add_special_tokens=False)["input_ids"]] if texts else []
    # The head reads at the last token that is not padding, so that there must be one.
    empty = [tokenizer.eos_token_id]
    return [row[-most:] or empty for row in ids], sum(len(row) > most for row in ids)


class _Examples:
    """A data set of tokenised texts and verdicts, with lengths for the sampler that groups by them."""

    def __init__(self, ids: list[list[int]], labels: Any) -> None:
        self.ids, self.labels = ids, np.asarray(labels, np.float32)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"input_ids": self.ids[row], "labels": float(self.labels[row])}


def loss_of(loss: Loss, logits: Any, labels: Any) -> Any:
    """↓ Mean over the batch of -log of the chance given to the verdict, or of (σ(logit) - verdict)²."""
    from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

    logits = logits.float()
    if loss == "brier":
        return mse_loss(logits.sigmoid(), labels)
    return binary_cross_entropy_with_logits(logits, labels)


def _trainer(
    network: Any, tokenizer: Any, parts: list[_Examples], settings: ClassifierSettings, folder: Path
) -> Any:
    import torch
    from transformers import DataCollatorWithPadding, EarlyStoppingCallback, Trainer, TrainingArguments
    from transformers.trainer_pt_utils import LengthGroupedSampler

    from rlcr.sample.loading import find_device

    class ByLength(LengthGroupedSampler):
        """An order that depends on seed and epoch alone, so that a resumed training draws the same."""

        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Any:
            drawn = np.random.SeedSequence([settings.seed % 2**32, self.epoch]).generate_state(1)[0]
            self.generator = torch.Generator().manual_seed(int(drawn))
            return super().__iter__()

    class ClassifierTrainer(WholeCheckpoints, Trainer):
        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            return ByLength(settings.batch, lengths=[len(row) for row in parts[0].ids])

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            labels = inputs.pop("labels")
            outputs = model(**inputs)
            loss = loss_of(settings.loss, outputs.logits[:, 0], labels)
            return (loss, outputs) if return_outputs else loss

    def brier(predicted: Any) -> dict[str, float]:
        chance = 1 / (1 + np.exp(-np.asarray(predicted.predictions, np.float64)[:, 0]))
        return {"brier": float(np.mean((chance - predicted.label_ids) ** 2))}

    device = find_device()
    updates = max(1, math.ceil(len(parts[0]) / settings.batch))
    steps = max(1, updates // settings.evals_per_epoch)
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.micro_batch,
        per_device_eval_batch_size=settings.micro_batch,
        gradient_accumulation_steps=settings.batch // (settings.micro_batch * processes()),
        learning_rate=settings.lr,
        lr_scheduler_type="cosine",
        warmup_steps=settings.warmup,
        eval_strategy="steps",
        eval_steps=steps,
        save_strategy="steps",
        save_steps=steps,
        load_best_model_at_end=True,
        metric_for_best_model="brier",
        greater_is_better=False,
        logging_steps=steps,
        report_to=[],
        seed=settings.seed,
        bf16=device == "cuda",
        use_cpu=device == "cpu",
        dataloader_pin_memory=device == "cuda",
        disable_tqdm=True,
    )
    trainer = ClassifierTrainer(
        model=network,
        args=arguments,
        train_dataset=parts[0],  # pyright: ignore[reportArgumentType] (a sequence of rows is enough)
        eval_dataset=parts[1],  # pyright: ignore[reportArgumentType]
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=brier,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=settings.patience)],
    )
    # Else the Trainer takes our mean over a micro-batch for one over the batch, and adds such means up.
    trainer.model_accepts_loss_kwargs = False
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    return trainer


def _save(trainer: Any, tokenizer: Any, result: Trained, rows: Rows, plan: dict[str, Any]) -> None:
    """The folder, whole or absent: weights and tokenizer first, what makes it a classifier last."""
    from rlcr.training.saving import save_model

    saved = result.folder / "weights"
    save_model(trainer.accelerator.unwrap_model(trainer.model), tokenizer, saved)
    for path in sorted(saved.iterdir()):
        path.replace(result.folder / path.name)
    saved.rmdir()
    description = {
        **plan,
        "run": str(rows.run.folder),
        "training": result.counts,
        "held_out": result.held_out,
        "cut": result.cut,
        "questions": sorted(set(rows.questions)),
    }
    write_object(result.folder / CLASSIFIER, description)
    _remove_beginnings(result.folder)


def _remove_beginnings(folder: Path) -> None:
    """What only an unfinished training needs."""
    (folder / PLAN).unlink(missing_ok=True)
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)


# --- using it ---------------------------------------------------------------------------------------


_COPIED = ("model", "run", "settings", "training", "held_out")


def read_classifier(folder: Path) -> dict[str, Any]:
    """What is known of a trained classifier."""
    path = folder / CLASSIFIER
    try:
        description = object_of(path.read_bytes())
        ClassifierSettings(**description["settings"]).check_values()
    except FileNotFoundError:
        raise RlcrError(
            f"{folder}: not a classifier (no {CLASSIFIER}); `rlcr confidence train-classifier` makes one"
        ) from None
    except (ValueError, KeyError, TypeError, RlcrError):
        description = {}
    if not isinstance(description.get("questions"), list) or any(
        name not in description for name in (*_COPIED, "cut")
    ):
        raise RlcrError(f"{path}: not what a training wrote; train the classifier again")
    return description


def classified(
    rows: Rows, folder: Path, *, token_budget: int = 8192
) -> tuple[np.ndarray, dict[str, Any], dict[str, int]]:
    """Confidences of a classifier in the order of the rows, how they came about, and what they cost.

    Rows of questions that it was trained on, or stopped by, get none.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from rlcr.sample.loading import find_device

    description = read_classifier(folder)
    settings = ClassifierSettings(**description["settings"])
    new = unseen(rows, set(description["questions"]))
    network, tokenizer = _load(str(folder))
    network = network.to(find_device()).eval()
    encoded, cut = _encode(tokenizer, _texts(rows, settings.part), settings.max_tokens)
    confidence = np.full(len(rows.keys), np.nan)
    order = sorted(np.flatnonzero(new), key=lambda row: -len(encoded[row]))
    start = tokens = 0
    with torch.inference_mode():
        while start < len(order):
            lot = order[start : start + max(1, token_budget // len(encoded[order[start]]))]
            start += len(lot)
            whole = [torch.tensor(encoded[row]) for row in lot]
            tokens += sum(map(len, whole))
            ids_NT = pad_sequence(whole, batch_first=True, padding_value=tokenizer.pad_token_id)
            mask_NT = pad_sequence([torch.ones_like(row) for row in whole], batch_first=True)
            logits_N1 = network(
                input_ids=ids_NT.to(network.device), attention_mask=mask_NT.to(network.device)
            ).logits
            confidence[lot] = logits_N1[:, 0].double().sigmoid().cpu().numpy()
    kept = {name: description[name] for name in _COPIED}
    kept |= {"classifier": str(folder), "left_out": int((~new).sum()), "cut": cut}
    return confidence, kept, cost(len(order), tokens, completions=len(order))
