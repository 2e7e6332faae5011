# pyright: basic
"""Supervised training of a model on rendered responses, with TRL's SFTTrainer.

`rlcr sft` teaches a model to analyse its solutions, on what `rlcr sft-data` wrote; `rlcr warm-up`
(:mod:`rlcr.training.warm_up`) teaches it the tags of its method. Both train by :func:`fit`.

*What the model sees is what the sampler will show it*: prompts are rendered and both parts are tokenised by
the sampler's own code, the completion by itself, behind the prompt's tokens. TRL gets token ids.

*An end token is taught only where a line says that it ``ends``.* The text of `rlcr sft-data` ends with
``</analysis>``, but a response goes on with ``<confidence>``: an end token there would teach the model to
leave the confidence out. So it learns nothing about what comes next.

*Precision*: weights are float32 everywhere, since steps of 1e-5 vanish in bfloat16; on a GPU the arithmetic
is bfloat16.

    run.json                  settings, hash of the data, versions, the command
    checkpoints/              after each epoch (or every so many updates), the last two, until it is finished
    model/                    the result, an ordinary Hugging Face folder with a model card
    sft.json                  settings, counts, the loss of each step

The paper states neither epochs, learning rate nor batch of its warm-up: the defaults are ours, with the
schedule of the paper's RL runs (constant after a warm-up of a tenth).
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError, need
from rlcr.evaluate.methods import get_method
from rlcr.files import file_sha256
from rlcr.prompts import Prompt, opens_think, render_messages
from rlcr.runs.lines import read_lines, read_object, write_object
from rlcr.runs.store import check_new, create_run, locked, open_run, resume_run
from rlcr.runs.versions import run_facts
from rlcr.sample import Request, Sampling
from rlcr.sample.jobs import Maker
from rlcr.sample.loading import identify, load
from rlcr.sample.local import LocalSampler
from rlcr.training.checkpoint import CHECKPOINTS, is_main, last_whole, processes
from rlcr.training.recipes.settings import Lora
from rlcr.training.saving import MODEL, lora_config, save_model, whole_weights
from rlcr.training.sft_data import SFT, TARGET

REPORT = "sft.json"

#: The model card's title, and what it says of the model and its training.
_ABOUT = (
    "SFT warm-up for RLCR",
    "`{model}`, trained on solutions of its own followed by an expert's analysis of what is",
    "uncertain in them. The trained text ends after the analysis: this model is a start for RL, which",
    "teaches it to state its confidence.",
)

_PACKAGES = ("rlcr", "torch", "transformers", "trl", "accelerate", "peft")


@dataclass(frozen=True)
class Settings:
    """All that decides the weights. A run is resumed only with the same."""

    model: str
    data: str
    epochs: int = 3
    lr: float = 1e-5
    batch: int = 16
    micro_batch: int = 4
    max_tokens: int = 4096
    seed: int = 0
    lora_rank: int | None = None
    max_completion_tokens: int | None = None
    """Longer completions are left out; None where only prompt and completion together are bounded."""
    save_every: int | None = None
    """Updates between checkpoints; None for one after each epoch."""

    def check(self, processes: int) -> None:
        """Raise where the numbers do not fit together."""
        for name in ("epochs", "batch", "micro_batch", "max_tokens"):
            if getattr(self, name) < 1:
                raise RlcrError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.lora_rank is not None and self.lora_rank < 1:
            raise RlcrError(f"lora_rank is {self.lora_rank}; it must be at least 1")
        if not 0 < self.lr < math.inf:
            raise RlcrError(f"lr is {self.lr}; it must be above 0")
        if self.batch % (self.micro_batch * processes):
            at_once = (
                f"{self.micro_batch} x {processes} processes" if processes > 1 else str(self.micro_batch)
            )
            raise RlcrError(f"batch {self.batch} is not a multiple of micro_batch {at_once}")


@dataclass(frozen=True)
class Machine:
    """What it is trained on, and whether the arithmetic there is bfloat16."""

    device: str
    bf16: bool

    @classmethod
    def here(cls) -> Machine:
        """The first device there is; raises if one process sees several."""
        from rlcr.training.preflight.device import choose_device, computes_in_bf16

        device = choose_device()
        return cls(device, bf16=computes_in_bf16("auto", device))


@dataclass(frozen=True)
class Example:
    """A line of the data as token ids. The loss is on the last ``trained`` of them."""

    id: str
    ids: tuple[int, ...]
    trained: int


def train_sft(
    settings: Settings, out: Path | str, *, resume: bool = False, callbacks: Sequence[Any] = ()
) -> dict[str, Any]:
    """Train, and write the run folder. What is in sft.json.

    ``callbacks`` are transformers' TrainerCallbacks. A run that was interrupted goes on from its last whole
    checkpoint and, on a CPU, ends with the same weights bit for bit.
    """
    out = Path(out)
    settings.check(processes())
    need("training", "datasets", "peft", "trl")
    from accelerate import PartialState

    from rlcr.training.preflight.launch import check_sft_launch

    check_sft_launch({"--lora-rank (train all weights, or do not shard)": settings.lora_rank is not None})
    machine = Machine.here()
    # Made here for the first time: without a GPU, processes find each other only if they are told so.
    state = PartialState(cpu=machine.device == "cpu")
    rows, method = read_data(Path(settings.data))
    if resume:
        open_run(out)  # a misspelt folder must not be made by locking it
    elif is_main():
        check_new(out)
    # Loaded before anything is written: a misspelt model must not leave a folder that then is in the way.
    model, tokenizer = load(settings.model, device="cpu", dtype="float32")
    resolved = asdict(settings) | {
        "kind": "sft",
        "model_weights": identify(settings.model),
        "method": method,
        "data_sha256": file_sha256([data_file(Path(settings.data))]),
    }
    data = make_examples(rows, model, tokenizer, settings.max_tokens)
    with locked(out) if is_main() else nullcontext():
        if is_main():
            facts = run_facts(_PACKAGES)
            _ = resume_run(out, resolved) if resume else create_run(out, resolved, {}, facts)
        state.wait_for_everyone()
        if (out / MODEL).is_dir():  # finished
            return read_report(out)
        return fit(
            settings,
            model,
            tokenizer,
            data,
            out,
            resolved=resolved,
            about=_ABOUT,
            machine=machine,
            callbacks=callbacks,
        )


def fit(
    settings: Settings,
    model: Any,
    tokenizer: Any,
    data: tuple[Sequence[Example], Sequence[str]],
    out: Path,
    *,
    resolved: dict[str, Any],
    about: Sequence[str],
    prompt: Prompt | None = None,
    machine: Machine | None = None,
    callbacks: Sequence[Any] = (),
) -> dict[str, Any]:
    """Train on examples from where the run stands, and write the report and the model. The report.

    ``data`` is what :func:`make_examples` gave, ``resolved`` the settings as the run stores them, ``about``
    the title and the lines under it in the model card, ``prompt`` the user's own, if any.
    """
    examples, too_long = data
    trainer = make_trainer(
        settings, model, tokenizer, examples, out / CHECKPOINTS, callbacks, machine=machine
    )
    checkpoint = last_whole(out / CHECKPOINTS)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    report = {
        "settings": resolved,
        **run_facts(_PACKAGES),
        "counts": _counts(examples, too_long),
        "steps": trainer.state.global_step,
        "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
    }
    weights = whole_weights(trainer)
    if is_main():
        write_object(out / REPORT, report)
        trained, card = trainer.accelerator.unwrap_model(trainer.model), model_card(report, about)
        save_model(
            trained,
            tokenizer,
            out / MODEL,
            method=resolved["method"],
            prompt=prompt,
            weights=weights,
            texts={"README.md": card},
        )
        # They are several times the size of the model, and nothing needs them now.
        shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    _release(trainer)
    return report


def _release(trainer: Any) -> None:
    """Let go of the weights and of the launch: what comes next may load a model whole, in one process."""
    from transformers.integrations.deepspeed import unset_hf_deepspeed_config

    trainer.accelerator.free_memory()
    unset_hf_deepspeed_config()  # with it, loading would be divided among all processes under ZeRO-3


def read_report(out: Path) -> dict[str, Any]:
    """What :func:`fit` wrote of a finished run."""
    return read_object(out / REPORT, "the model is whole; only the report of its training is lost")


# --- data -------------------------------------------------------------------------------------------


def data_file(data: Path) -> Path:
    """The file of examples: given itself, or by the folder that `rlcr sft-data` wrote."""
    path = data / SFT if data.is_dir() else data
    if not path.is_file():
        hint = "`rlcr sft-data` writes it when it ends" if data.is_dir() else "no such file or folder"
        raise RlcrError(f"{path}: {hint}")
    return path


def read_data(data: Path) -> tuple[list[dict[str, Any]], str]:
    """The lines of the data, and the method that they train for."""
    path = data_file(data)
    rows = list(read_lines(path))
    for number, row in enumerate(rows, start=1):
        if not _is_example(row):
            raise RlcrError(f"{path}, line {number}: expected messages (roles and contents) and a completion")
    if not rows:
        raise RlcrError(f"{path}: empty")
    methods = sorted({row.get("method", TARGET) for row in rows})
    if len(methods) > 1:
        raise RlcrError(f"{path}: trains for several methods: {', '.join(methods)}; split it")
    return rows, get_method(methods[0]).name


def _is_example(row: Any) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get("completion"), str) or not row["completion"]:
        return False
    turns = row.get("messages")
    return (
        isinstance(turns, list)
        and bool(turns)
        and all(isinstance(turn, dict) and {"role", "content"} <= turn.keys() for turn in turns)
    )


def make_examples(
    rows: Sequence[dict[str, Any]],
    model: Any,
    tokenizer: Any,
    max_tokens: int,
    max_completion_tokens: int | None = None,
) -> tuple[list[Example], list[str]]:
    """The lines as the sampler would tokenise them, and the ids of those that are too long, left out.

    A text that is cut would teach a response that does not end.
    """
    eos_ids = LocalSampler(model, tokenizer, name="").eos_ids
    maker = Maker(tokenizer, Sampling(), eos_ids, room=None)
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None) or max_tokens
    limit = min(max_tokens, room)
    longest = limit if max_completion_tokens is None else max_completion_tokens
    examples: list[Example] = []
    too_long: list[str] = []
    for number, row in enumerate(rows, start=1):
        name = str(row.get("id", f"line {number}"))
        completion = row["completion"]
        if opens_think(render_messages(row["messages"], tokenizer)):
            completion = completion.removeprefix("<think>")  # the chat template has written it
        job = maker.job(Request(name, tuple(row["messages"]), prefix=completion))
        ids, trained = job.ids, len(job.prefix_ids)
        if row.get("ends"):
            ids, trained = (*ids, _end_of(tokenizer, eos_ids)), trained + 1
        if len(ids) <= limit and trained <= longest:
            examples.append(Example(name, ids, trained))
        else:
            too_long.append(name)
    if not examples:
        if max_completion_tokens is not None:
            raise RlcrError(
                f"every example is longer than {limit} tokens, or its response than {longest}; raise"
                " max_prompt_tokens or max_completion_tokens"
            )
        raise RlcrError(f"every example is longer than {limit} tokens; raise --max-tokens")
    return examples, too_long


def _end_of(tokenizer: Any, eos_ids: frozenset[int]) -> int:
    """The token that ends a response: the tokenizer's own, where it has one."""
    return tokenizer.eos_token_id if tokenizer.eos_token_id is not None else min(eos_ids)


# --- training ---------------------------------------------------------------------------------------


def make_trainer(
    settings: Settings,
    model: Any,
    tokenizer: Any,
    examples: Sequence[Example],
    folder: Path,
    callbacks: Sequence[Any] = (),
    *,
    machine: Machine | None = None,
) -> Any:
    """The trainer, ready to start."""
    from datasets import Dataset, disable_progress_bars
    from transformers import PrinterCallback, set_seed
    from trl import SFTConfig  # pyright: ignore[reportPrivateImportUsage]

    from rlcr.training.sft_trainer import PackedSFTTrainer

    if not sys.stderr.isatty():
        disable_progress_bars()  # in a pipe they are noise
    set_seed(settings.seed)  # LoRA draws its weights before the trainer sets the seed
    data = Dataset.from_list(
        [
            {
                "input_ids": list(example.ids),
                "completion_mask": [0] * (len(example.ids) - example.trained) + [1] * example.trained,
            }
            for example in examples
        ]
    )
    machine = machine or Machine.here()
    on_cpu = machine.device == "cpu"
    config = SFTConfig(
        output_dir=str(folder),
        num_train_epochs=settings.epochs,
        learning_rate=settings.lr,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=0.1,  # below 1 it is a share
        per_device_train_batch_size=settings.micro_batch,
        gradient_accumulation_steps=settings.batch // (settings.micro_batch * processes()),
        completion_only_loss=True,
        max_length=None,  # what is too long has been left out
        seed=settings.seed,
        # TRL has both on by default; on a CPU they cost much and save little.
        bf16=machine.bf16,
        gradient_checkpointing=not on_cpu,
        use_cpu=on_cpu,
        dataloader_pin_memory=not on_cpu,
        save_strategy="epoch" if settings.save_every is None else "steps",
        save_steps=settings.save_every or 500,
        logging_steps=1,
        report_to="none",
        disable_tqdm=not sys.stderr.isatty(),
    )
    lora = Lora(rank=settings.lora_rank, alpha=2 * settings.lora_rank) if settings.lora_rank else None
    trainer = PackedSFTTrainer(
        model=model,
        args=config,
        train_dataset=data,
        processing_class=tokenizer,
        callbacks=list(callbacks),
        peft_config=lora_config(lora),
    )
    trainer.remove_callback(PrinterCallback)  # it prints every loss to standard output
    return trainer


# --- the result -------------------------------------------------------------------------------------


def _counts(examples: Sequence[Example], too_long: Sequence[str]) -> dict[str, Any]:
    return {
        "examples": len(examples),
        "too_long": len(too_long),
        "too_long_ids": list(too_long[:20]),
        "tokens": sum(len(example.ids) for example in examples),
        "trained_tokens": sum(example.trained for example in examples),
    }


def model_card(report: dict[str, Any], about: Sequence[str]) -> str:
    """What was trained on what, and how it went. ``about`` is the title and the lines below it."""
    title, *lines_about = about
    settings, counts, losses = report["settings"], report["counts"], report["losses"]
    epochs = _by_epoch(losses, settings["epochs"])
    lines = [
        "---",
        "library_name: transformers",
        "tags: [rlcr, sft, calibration]",
        "---",
        "",
        f"# {title}",
        "",
        *(line.replace("{model}", settings["model"]) for line in lines_about),
        "",
        "| | |",
        "|---|---|",
        f"| method | {settings['method']} |",
        f"| data, sha256 | {settings['data_sha256']} |",
        f"| examples | {counts['examples']:,} ({counts['too_long']:,} more were too long) |",
        f"| tokens with loss | {counts['trained_tokens']:,} of {counts['tokens']:,} |",
        f"| epochs, updates | {settings['epochs']}, {report['steps']:,} |",
        f"| learning rate | {settings['lr']:g}, constant after a warm-up of a tenth |",
        f"| batch | {settings['batch']} ({settings['micro_batch']} at once) |",
        f"| LoRA rank | {settings['lora_rank'] or 'none: all weights'} |",
        f"| seed | {settings['seed']} |",
        f"| mean loss of each epoch | {', '.join(f'{loss:.3f}' for loss in epochs)} |",
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in report["versions"].items()) + ".",
        "",
    ]
    return "\n".join(lines)


def _by_epoch(losses: Sequence[float], epochs: int) -> list[float]:
    steps = max(1, len(losses) // epochs)
    parts = [losses[first : first + steps] for first in range(0, len(losses), steps)]
    return [math.fsum(part) / len(part) for part in parts]
