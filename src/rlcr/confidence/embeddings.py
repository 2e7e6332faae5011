# pyright: basic
"""The generating model's own state at the end of each solution, computed once and kept beside the records.

    confidence/embeddings/HASH.npy    (completions, hidden) float32, in the order of the records
    confidence/embeddings/HASH.json   model, layer, what it cost

The hash covers the model's weights, the layer and every token that was read, so that a file is used again
exactly when it would come out the same. Reading it maps it into memory: no more than what is used is
loaded.

A batch holds at most ``token_budget`` tokens, which bounds memory. What sequences have in common is read
once (:mod:`rlcr.engine.prefixes`); a model whose attention does not allow that is run on padded batches
of equal lengths, and the log says so.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlcr.confidence.rows import Rows
from rlcr.confidence.texts import read_part
from rlcr.errors import RlcrError
from rlcr.files import writing
from rlcr.prompts import Prompt, messages
from rlcr.runs.columns import COLUMNS
from rlcr.runs.store import write_whole

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
            f"{rows.run.folder}: was made by a server, which does not tell hidden states: give --model, a"
            " folder with the same weights"
        )
    if model is None and place == "imported":
        raise RlcrError(
            f"{rows.run.folder}: was imported and does not say what made it: give --model, a folder or hub id"
        )
    sampler = LocalSampler.load(place, device=device, dtype=dtype)
    made_by = str(rows.run.settings.get("model_weights") or "")
    known = bool(made_by) and not made_by.startswith(("http://", "https://"))  # a server tells its address
    if known and sampler.fingerprint != made_by:
        raise RlcrError(
            f"{place}: not the weights that made {rows.run.folder} ({sampler.fingerprint}, then {made_by});"
            " give --model with the folder of those, and --dtype if it is another"
        )
    if not known:
        log.warning("%s: does not tell its weights; those of %s are taken for them", rows.run.folder, place)
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
            told = {"model": place, "weights": sampler.fingerprint, "layer": chosen, "tokens": tokens}
            write_whole(path.with_suffix(".json"), json.dumps(told, indent=2) + "\n")
    told = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return Embeddings(
        np.load(path, mmap_mode="r"), path, chosen, told["tokens"], sampler.fingerprint, checked=known
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
def _mapped(path: Path, shape: tuple[int, int]) -> Iterator[np.ndarray]:
    """A new .npy file as an array that is written through; it has its name only once it is whole."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        values = np.lib.format.open_memmap(made, "w+", np.float32, shape)
    try:
        yield values
        with writing(path):
            values.flush()
            made.replace(path)
    finally:
        made.unlink(missing_ok=True)


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

    from rlcr.engine import prefixes

    device = model.get_input_embeddings().weight.device
    done = tokens = 0
    with _only(model, layer) as read, torch.inference_mode():
        shared = _can_share(model, sequences, read)
        for rows in (_trees if shared else _lots)(sequences, token_budget):
            lot = [sequences[row] for row in rows]
            if shared:
                tree = prefixes.grow(lot)
                with prefixes.switched(model):
                    state = read(lambda decoder, t=tree: prefixes.run(decoder, t, device))[tree.last]
                tokens += len(tree.ids)
            else:
                state = _padded(read, lot, device)
                tokens += len(lot) * max(len(p) + len(r) for p, r in lot)
            out[rows] = state.float().cpu().numpy()
            done += len(rows)
            if progress:
                progress(done / len(sequences))
    return tokens


@contextmanager
def _only(model: Any, layer: int) -> Iterator[Callable[..., Any]]:
    """``read(call)`` for the states of one layer; those above it are not run."""
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

    def read(call: Callable[[Any], Any]) -> Any:
        states.clear()
        output = call(decoder)
        return output if last else states[0].reshape(output.shape)

    try:
        yield read
    finally:
        if hook is not None:
            hook.remove()
            decoder.layers = layers


def _padded(read: Callable[..., Any], lot: Sequence[Sequence_], device: Any) -> Any:
    """The plain way: padding on the right, which no token before it can see."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    whole = [torch.tensor([*prompt, *response]) for prompt, response in lot]
    ids_NT = pad_sequence(whole, batch_first=True).to(device)
    mask_NT = pad_sequence([torch.ones(len(row), dtype=torch.long) for row in whole], batch_first=True)
    state_NTH = read(
        lambda decoder: (
            decoder(input_ids=ids_NT, attention_mask=mask_NT.to(device), use_cache=False).last_hidden_state
        )
    )
    return state_NTH[torch.arange(len(lot)), torch.tensor([len(row) - 1 for row in whole])]


def _can_share(model: Any, sequences: Sequence[Sequence_], read: Callable[..., Any]) -> bool:
    """Whether the fast way gives what the plain one gives, tried on pieces of some sequences."""
    from rlcr.engine import prefixes

    device = model.get_input_embeddings().weight.device
    # Ends of a few are enough, and cost next to nothing; sorted, as those of one prompt must be neighbours.
    some = sequences[:: max(1, len(sequences) // 4)][:4]
    lot = sorted((_ends(prompt), _ends(response)) for prompt, response in some)
    plain = _padded(read, lot, device).float()
    try:
        tree = prefixes.grow(lot)
        with prefixes.switched(model):
            ours = read(lambda decoder: prefixes.run(decoder, tree, device))[tree.last].float()
    except (TypeError, RuntimeError, ValueError, AttributeError, KeyError) as error:
        log.warning("embedding with padded batches, since %s", (str(error).splitlines() or ["?"])[0])
        return False
    # Half precision differs by some percent of the spread; a wrong way by several spreads.
    allowed = 0.01 if model.dtype.itemsize >= 4 else 0.5
    if bool((ours - plain).abs().max() <= allowed * plain.std()):
        return True
    log.warning("embedding with padded batches, since a trial gave other states than the model's own way")
    return False


def _ends(ids: tuple[int, ...], most: int = 16) -> tuple[int, ...]:
    return ids if len(ids) <= most else ids[: most // 2] + ids[-most // 2 :]


def _trees(sequences: Sequence[Sequence_], budget: int) -> Iterator[list[int]]:
    """Rows in lots whose tree has at most ``budget`` tokens (or holds one sequence), prompts together."""
    from rlcr.engine.prefixes import common

    order = sorted(range(len(sequences)), key=lambda row: sequences[row][0])
    trunk = common([sequences[order[0]][0], sequences[order[-1]][0]])  # of sorted ones the first and the last
    lot: list[int] = []
    size, current = trunk, None
    for row in order:
        prompt, response = sequences[row]
        more = len(response) + (0 if prompt == current else len(prompt) - trunk)
        if lot and size + more > budget:
            yield lot
            lot, size, more = [], trunk, len(prompt) - trunk + len(response)
        lot.append(row)
        size, current = size + more, prompt
    if lot:
        yield lot


def _lots(sequences: Sequence[Sequence_], budget: int) -> Iterator[list[int]]:
    """Rows in lots of nearly equal lengths, at most ``budget`` tokens with padding."""
    order = sorted(range(len(sequences)), key=lambda row: sum(map(len, sequences[row])), reverse=True)
    start = 0
    while start < len(order):
        longest = max(1, sum(map(len, sequences[order[start]])))
        lot = order[start : start + max(1, budget // longest)]
        start += len(lot)
        yield lot
