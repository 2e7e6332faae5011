"""Embedding responses of about 300 tokens with SmolLM2-135M for a probe, against the two usual ways.

Records as a run has them: our system prompt, questions of some 90 tokens, 8 responses to each whose lengths
vary around 300 as real ones do (log-normal). The peers are what people write: the causal model with
``output_hidden_states``, one response after the other, and in batches of 16 in the order of the file,
padded to the longest. ``stricter`` peers leave out the output layer, which nobody needs here. A second
shape is the worst for us: one response to each question and all exactly 300 tokens long, where nothing but
the system prompt is shared and padding costs nothing.

1,000 responses take ten minutes even on a quiet machine, so a round takes 16, and the ratios are per
response. Ways take turns within a round. Seconds are those of computing on one thread, so that a busy
machine does not matter. Memory is the peak of a process that embeds and nothing else, at two sizes of the
run.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import recording
from rlcr.confidence.embeddings import TOKEN_BUDGET, embed
from rlcr.prompts import load_prompt
from rlcr.sample.loading import load
from smollm2 import model_folder

QUESTIONS, SAMPLES, BATCH, ROUNDS = 2, 8, 16, 3
# Both sizes fill several batches: if memory follows the budget and not the run, their peaks are alike.
MEMORY_SIZES, MEMORY_BUDGET = (16, 48), 2048
Sequences = list[tuple[tuple[int, ...], tuple[int, ...]]]


def make_sequences(tokenizer: Any, seed: int, *, equal: bool) -> Sequences:
    rng = random.Random(seed)
    system = tokenizer(load_prompt("rlcr").text)["input_ids"]
    words = range(1000, 40000)
    found: Sequences = []
    for _ in range(QUESTIONS * SAMPLES if equal else QUESTIONS):
        prompt = (*system, *rng.choices(words, k=90 if equal else rng.randrange(60, 120)))
        for _ in range(1 if equal else SAMPLES):
            length = 300 if equal else min(1200, max(40, round(rng.lognormvariate(5.6, 0.45))))
            found.append((prompt, tuple(rng.choices(words, k=length))))
    return found


def one_by_one(model: Any, sequences: Sequences, head: bool) -> np.ndarray:
    return np.concatenate([padded(model, [row], head) for row in sequences])


def padded(model: Any, sequences: Sequences, head: bool) -> np.ndarray:
    whole = [torch.tensor([*prompt, *response]) for prompt, response in sequences]
    ids = torch.nn.utils.rnn.pad_sequence(whole, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in whole], batch_first=True)
    last = torch.tensor([len(row) - 1 for row in whole])
    with torch.inference_mode():
        if head:
            output = model(input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False)
            state = output.hidden_states[-1]
        else:
            state = model.get_decoder()(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    return state[torch.arange(len(whole)), last].numpy()


def ours(model: Any, sequences: Sequences) -> np.ndarray:
    out = np.empty((len(sequences), model.config.hidden_size), np.float32)
    embed(model, sequences, model.config.num_hidden_layers, out, TOKEN_BUDGET)
    return out


def measure(model: Any, tokenizer: Any, rounds: int, *, equal: bool) -> dict[str, Any]:
    ways: dict[str, Callable[[Sequences], np.ndarray]] = {
        "ours": lambda rows: ours(model, rows),
        "one by one": lambda rows: one_by_one(model, rows, True),
        "padded": lambda rows: padded(model, rows, True),
        "one by one, stricter": lambda rows: one_by_one(model, rows, False),
        "padded, stricter": lambda rows: padded(model, rows, False),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    worst = 0.0
    for turn in range(rounds):
        sequences = make_sequences(tokenizer, turn, equal=equal)
        states = {}
        for way, job in ways.items():
            started = time.process_time()
            states[way] = job(sequences)
            seconds[way].append((time.process_time() - started) / len(sequences))
        worst = max(worst, float(np.abs(states["ours"] - states["one by one"]).max()))
    each = {way: statistics.median(found) for way, found in seconds.items()}
    return {
        "cpu_seconds_per_response": {way: round(value, 3) for way, value in each.items()},
        "ratio": {way: round(value / each["ours"], 2) for way, value in each.items() if way != "ours"},
        "greatest_difference": worst,
        "rounds": rounds,
    }


def peak_alone(responses: int) -> float:
    """Gigabytes at the peak of a process of its own, which does nothing but load the model and embed."""
    found = subprocess.run(
        [sys.executable, __file__, "--alone", str(responses)], check=True, capture_output=True, text=True
    )
    return float(found.stdout)


def embed_alone(responses: int) -> None:
    torch.set_num_threads(1)
    model, tokenizer = load(model_folder(), device="cpu")
    seeds = range(-(-responses // BATCH))
    sequences = [row for seed in seeds for row in make_sequences(tokenizer, seed, equal=True)][:responses]
    out = np.empty((responses, model.config.hidden_size), np.float32)
    embed(model, sequences, model.config.num_hidden_layers, out, MEMORY_BUDGET)
    print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3))


def run(rounds: int = ROUNDS) -> dict[str, Any]:
    torch.set_num_threads(1)
    model, tokenizer = load(model_folder(), device="cpu")
    return {
        "what": f"embedding responses of 300 tokens, SmolLM2-135M, float32, 1 thread, {BATCH} a round",
        "peer": "transformers with output_hidden_states, one by one and in padded batches of 16",
        "as runs have them": measure(model, tokenizer, rounds, equal=False),
        "one response a question, all of 300 tokens": measure(
            model, tokenizer, max(1, rounds // 3), equal=True
        ),
        "peak_gb_ours_alone": {
            f"{size} responses, {MEMORY_BUDGET} tokens a batch": peak_alone(size) for size in MEMORY_SIZES
        },
        "wanted_ratio": 2,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        embed_alone(given.alone)
    else:
        found = run(given.rounds)
        print(json.dumps(found, indent=2))
        recording.record({"embedding": found})
