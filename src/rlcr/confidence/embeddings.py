# pyright: basic
"""The generating model's own state at the end of each solution, computed once and kept beside the records.

    confidence/embeddings/HASH.npy    (completions, hidden) float32, in the order of the records
    confidence/embeddings/HASH.json   model, layer, what it cost

The hash covers the model's weights, the layer and every token that was read, so that a file is used again
exactly when it would come out the same. Reading it maps it into memory: no more than what is used is
loaded.

A batch holds at most ``token_budget`` tokens, which bounds memory. What sequences have in common is read
once (:mod:`rlcr.engine.sharing`); where a model's attention does not allow that it is run on padded batches
of nearly equal lengths, and the log says so.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from rlcr.confidence.rows import Rows
from rlcr.confidence.texts import read_part
from rlcr.engine.batches import Sample, cut_shared
from rlcr.errors import RlcrError
from rlcr.files import file_sha256, partial_of, writing
from rlcr.prompts import Prompt, messages
from rlcr.runs.columns import COLUMNS
from rlcr.runs.lines import read_object, write_object

log = logging.getLogger(__name__)

TOKEN_BUDGET = 8192
#: Prompt and response as token ids.
Sequence_ = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Embeddings:
    """One row for each completion of a run, mapped from a file, and how many tokens making it took."""

    values: np.ndarray
    path: Path
    layer: int
    tokens: int
    weights: str
    """What the states are of; whether those made the run is not always known."""
    checked: bool


def embed_run(
    rows: Rows,
    model: str | None = None,
    *,
    layer: int = -1,
    token_budget: int = TOKEN_BUDGET,
    device: str = "auto",
    dtype: str = "auto",
    progress: Callable[[float], None] | None = None,
) -> Embeddings:
    """The embeddings of a run's solutions, from the file if they were made before.

    ``model`` is where the generating model is now, if not where the run says. ``layer`` counts as
    transformers does: 0 the word embeddings, -1 the last layer.
    """
    from rlcr.sample.local import LocalSampler

    place = model or rows.run.settings["model"]
    if place.startswith(("http://", "https://")):
        raise RlcrError(
            f"{rows.run.folder}: was made by a server, which does not return hidden states: give --model, a"
            " folder with the same weights"
        )
    if model is None and place == "imported":
        raise RlcrError(
            f"{rows.run.folder}: was imported and does not say what made it: give --model, a folder or hub id"
        )
    sampler = LocalSampler.load(place, device=device, dtype=dtype)
    made_by = str(rows.run.settings.get("model_weights") or "")
    known = bool(made_by) and not made_by.startswith(("http://", "https://"))  # of a server, its address
    if known and sampler.fingerprint != made_by:
        raise RlcrError(
            f"{place}: not the weights that made {rows.run.folder} ({sampler.fingerprint}, then {made_by});"
            " give --model with the folder of those, and --dtype if it is another"
        )
    if not known:
        log.warning("%s: does not record its weights; those of %s are assumed", rows.run.folder, place)
    sequences = _tokenised(rows, sampler)
    depth = sampler.model.config.get_text_config().num_hidden_layers
    chosen = layer if layer >= 0 else depth + 1 + layer
    if not 0 <= chosen <= depth:
        raise RlcrError(
            f"layer {layer}: {place} has layers 0 (word embeddings) to {depth}, or -1 for the last"
        )
    digest = hashlib.sha256(f"{sampler.fingerprint}\0{chosen}\0".encode())
    for key, (prompt, response) in zip(rows.keys, sequences, strict=True):
        digest.update(json.dumps([key, prompt, response]).encode())
    path = rows.run.folder / COLUMNS / "embeddings" / f"{digest.hexdigest()[:16]}.npy"
    if not path.is_file():
        hidden = sampler.model.config.get_text_config().hidden_size
        with _mapped(path, (len(sequences), hidden)) as values:
            tokens = embed(sampler.model, sequences, chosen, values, token_budget, progress)
            description = {"model": place, "weights": sampler.fingerprint, "layer": chosen, "tokens": tokens}
            with writing(path):
                values.flush()
            hashed = {"sha256": file_sha256([Path(str(values.filename))])}
            write_object(path.with_suffix(".json"), description | hashed)
    description = read_object(path.with_suffix(".json"), f"remove {path}, and it is made again")
    if file_sha256([path]) != description.get("sha256"):
        raise RlcrError(f"{path}: damaged: not what {path.stem}.json says; remove it, and it is made again")
    return Embeddings(
        np.load(path, mmap_mode="r"), path, chosen, description["tokens"], sampler.fingerprint, checked=known
    )


def _tokenised(rows: Rows, sampler: Any) -> list[Sequence_]:
    """Prompts and solutions as the sampler tokenises them, checked against what it counted then."""
    from rlcr.sample import Request, Sampling
    from rlcr.sample.jobs import Maker

    settings = rows.run.settings
    prompt = Prompt(settings["prompt"], settings["prompt_text"], None)
    maker = Maker(sampler.tokenizer, Sampling(max_tokens=1), sampler.eos_ids, None)
    prompts: dict[str, tuple[int, ...]] = {}
    sequences: list[Sequence_] = []
    room = getattr(sampler.model.config.get_text_config(), "max_position_embeddings", None)
    for record in rows.records():
        name = record.id
        if name not in prompts:
            conversation = tuple(messages(prompt, rows.problems[name]))
            prompts[name] = maker.job(Request(name, conversation)).ids
            counted = record.prompt_tokens
            if counted and counted != len(prompts[name]):
                raise RlcrError(
                    f"{sampler.name}: another tokenizer or chat template than that of the run: {name} has"
                    f" {len(prompts[name])} tokens here and had {counted} then"
                )
        asked = Request(name, (), prefix=read_part(record), prompt_ids=prompts[name])
        ids = maker.job(asked).ids
        if room is not None and len(ids) > room:
            raise RlcrError(f"{name}: {len(ids)} tokens, but {sampler.name} has {room} positions")
        sequences.append((prompts[name], ids[len(prompts[name]) :]))
    return sequences


@contextmanager
def _mapped(path: Path, shape: tuple[int, int]) -> Iterator[np.memmap]:
    """A new .npy file as an array that is written through; it has its name only once it is whole."""
    with ExitStack() as held:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = held.enter_context(partial_of(path, lambda place: place.touch(exist_ok=False)))
            values = np.lib.format.open_memmap(partial, "w+", np.float32, shape)
            if hasattr(os, "posix_fallocate"):  # a full disk would end the process when it is written through
                with open(partial, "rb+") as file:
                    os.posix_fallocate(file.fileno(), 0, partial.stat().st_size)
        yield values
        with writing(path):
            values.flush()
            partial.replace(path)


def embed(
    model: Any,
    sequences: Sequence[Sequence_],
    layer: int,
    out: np.ndarray,
    token_budget: int = TOKEN_BUDGET,
    progress: Callable[[float], None] | None = None,
) -> int:
    """Write the state after each sequence's last token in a layer to ``out``; returns the tokens read."""
    import torch

    from rlcr.engine.attention import Switch, device_of
    from rlcr.engine.sharing import SharedPrompts, plain_inputs
    from rlcr.engine.trial import try_packed

    device, trial = device_of(model), try_packed(model)
    samples = _samples(sequences)
    shared = [sample for sample in samples if trial.fits(len(sample.prompt) + sample.read)]
    padded = [sample for sample in samples if not trial.fits(len(sample.prompt) + sample.read)]
    if padded:
        reason = trial.reason or f"the model's attention window has {trial.longest} tokens"
        log.warning("embedding %d of %d with padded batches, since %s", len(padded), len(samples), reason)
    lots = [(True, lot) for lot in cut_shared(shared, token_budget)]
    lots += [(False, lot) for lot in _lots(padded, token_budget)]
    row_of = {id(sample): row for row, sample in enumerate(samples)}
    done = tokens = 0
    with _only(model, layer) as read, torch.inference_mode():
        for packed, lot in lots:
            call = (
                SharedPrompts(lot, device, by_length=True).inputs()
                if packed
                else plain_inputs(lot, 0, device)
            )
            at_N = call.pop("at")
            del call["following"]
            with Switch(model) if packed else nullcontext():
                state_NH = read(**call).flatten(0, 1)[at_N]
            out[[row_of[id(sample)] for sample in lot]] = state_NH.float().cpu().numpy()
            tokens += call["input_ids"].numel()
            done += len(lot)
            if progress:
                progress(done / len(samples))
    return tokens


@contextmanager
def _only(model: Any, layer: int) -> Iterator[Callable[..., Any]]:
    """``read(…)`` calls the decoder for the states of one layer; those above it are not run."""
    decoder = model.get_decoder()
    layers, states = decoder.layers, []
    last = layer == len(layers)
    kept = layers[: max(layer, 1)]
    hook = None
    if not last:
        if layer == 0:
            hook = kept[0].register_forward_pre_hook(
                lambda _, args, kwargs: states.append(args[0] if args else kwargs["hidden_states"]),
                with_kwargs=True,
            )
        else:
            hook = kept[-1].register_forward_hook(
                lambda _, __, output: states.append(output[0] if isinstance(output, tuple) else output)
            )
        decoder.layers = kept

    def read(**call: Any) -> Any:
        states.clear()
        output = decoder(**call, use_cache=False).last_hidden_state
        return output if last else states[0]

    try:
        yield read
    finally:
        if hook is not None:
            hook.remove()
            decoder.layers = layers


def _samples(sequences: Sequence[Sequence_]) -> list[Sample]:
    """Sequences as completions behind what they share: their prompt, or the beginning of all prompts.

    The one that saves more tokens: with one response to each question, only the system prompt is shared.
    The state wanted is that which would predict the token after the last, whatever that is.
    """
    groups = {prompt: number for number, prompt in enumerate(dict.fromkeys(p for p, _ in sequences))}
    ends = zip(min(groups), max(groups), strict=False)  # what the first and the last share, all share
    trunk = tuple(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    if trunk and sum(len(prompt) - len(trunk) for prompt, _ in sequences) < sum(map(len, groups)):
        rows = [(0, trunk, (*prompt[len(trunk) :], *response)) for prompt, response in sequences]
    else:
        rows = [(groups[prompt], prompt, response) for prompt, response in sequences]
    return [
        Sample(group, prompt, (*rest, 0), np.zeros(0), np.arange(len(rest) + 1) == len(rest))
        for group, prompt, rest in rows
    ]


def _lots(samples: Sequence[Sample], budget: int) -> Iterator[list[Sample]]:
    """Lots of nearly equal lengths, at most ``budget`` tokens with padding."""
    ordered = sorted(samples, key=lambda sample: len(sample.prompt) + sample.read, reverse=True)
    while ordered:
        longest = len(ordered[0].prompt) + ordered[0].read
        lot, ordered = ordered[: max(1, budget // longest)], ordered[max(1, budget // longest) :]
        yield lot
