# pyright: basic
"""One GRPO step against stock TRL: sampling, learning and the whole step.

Same model, data, seeds and lengths; nobody stops early, so that all do the same work. One prompt group a
step, SmolLM2-135M (smollm2.py), float32, two threads. Stock TRL takes the whole group as its micro-batch, or
each size of ``--micro``, and there is a ratio to each and to the best. The shape ``quickstart`` is the
quickstart's model with its real data, rewards and logs, on one thread.

Each measurement is a process of its own, so that peak memory is its own (``peak_gb``, of the whole process),
and they take turns, since machines are noisy. A short step goes before the one that is measured; what happens
once in a run, such as our trials of a model, falls into it. A step goes from its start until it is logged.
Tokens are counted on each side: a comparison of unlike amounts of work is refused. ``needed_share`` is what
the update needs in floating-point operations, counted with the prompt once, divided by the time of the
learning phase and by ``matmul_gflops``: the rate of a large matrix product, measured in each process right
before, the median of all.

    python benchmarks/bench_training.py --shape 512/64/16 --micro 16 4 --rounds 3 --write
    python benchmarks/bench_training.py --shape quickstart --rounds 5 --write

``--layers 2`` keeps so many layers only: for trying it out. ``--cpu`` counts seconds of computing on one
thread instead of wall time: the way to measure on a machine that is busy with other work.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recording import record
from smollm2 import model_folder
from stopwatch import TOKENS, count_tokens, matmul_rate, steps_callback, time_call

ROUNDS = 3
QUICKSTART = "quickstart"


@dataclass(frozen=True)
class Job:
    """One measurement."""

    side: str  # ours, plain (ours without shared prompts) or stock
    shape: str
    micro: int
    threads: int
    layers: int | None = None
    cpu: bool = False

    @property
    def sizes(self) -> tuple[int, int, int]:
        prompt, completion, group = map(int, self.shape.split("/"))
        return prompt, completion, group


# --- one measurement, in a process of its own --------------------------------------------------------


def measure(job: Job) -> dict[str, float]:
    import torch

    torch.set_num_threads(job.threads)
    clock = time.process_time if job.cpu else time.perf_counter
    phases: dict[str, float] = dict.fromkeys(("sampling", "training_step", *TOKENS), 0.0)
    steps: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        prepare = _quickstart if job.shape == QUICKSTART else _large
        trainer, rate = prepare(job, Path(folder))
        if job.side == "stock":
            count_tokens(trainer, "_generate_and_score_completions", phases)
            time_call(trainer, "_generate_and_score_completions", phases, "sampling", clock)
        else:
            from rlcr.training import update

            count_tokens(update, "credit", phases)
            for step in ("sample", "score", "credit"):
                time_call(update, step, phases, "sampling", clock)
        time_call(trainer, "training_step", phases, "training_step", clock)
        trainer.add_callback(steps_callback(phases, steps, clock))
        trainer.train()
    kept = steps[1:]  # the first one warms up
    middle = {name: statistics.median(step[name] for step in kept) for name in kept[0]}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return middle | {"peak_gb": peak, "gflops": rate}


def _large(job: Job, folder: Path) -> tuple[Any, float]:
    """SmolLM2 on prompts and completions of exact lengths; rewards are drawn, since only time matters."""
    import numpy as np
    from datasets import Dataset
    from trl.trainer.grpo_trainer import GRPOTrainer

    from rlcr.problem import Problem
    from rlcr.sample.loading import load
    from rlcr.training.data import RenderedPrompt
    from rlcr.training.grpo import CalibrationTrainer
    from rlcr.training.recipes.checks import reward_of
    from rlcr.training.recipes.settings import Recipe
    from rlcr.training.run import grpo_config
    from rlcr.training.update import Example

    prompt, completion, group = job.sizes
    model, tokenizer = load(model_folder(), device="cpu", dtype="float32")
    if job.layers:
        model.model.layers = model.model.layers[: job.layers]
        model.config.num_hidden_layers = job.layers
    model.generation_config.eos_token_id = model.config.eos_token_id = None
    recipe = Recipe(
        model="smollm2", task="arms", method="rlcr", reward="rlcr", prompts=1, group=group, lr=1e-6,
        micro_batch=job.micro, max_prompt_tokens=prompt, max_completion_tokens=completion, temperature=0.7,
        updates=2, device="cpu", dtype="float32", gradient_checkpointing=False, report_to=(), save_every=99,
        schedule="constant", shared_prompts=job.side == "ours",
    )  # fmt: skip
    # Begins with a space and ends with a full stop: repeated it is read as the same tokens again.
    words = tokenizer(" The river runs past the old town and its seven bridges.")["input_ids"] * prompt
    texts = [tokenizer.decode(words[:length]) for length in (16, prompt)]
    data = Dataset.from_dict({"prompt": texts, "index": [0, 1]})
    args = grpo_config(recipe, folder)
    args.shuffle_dataset = False
    rewards = np.random.default_rng(0).random(group)
    if job.side == "stock":
        args = _cut(args, recipe, job.micro)
        tokenizer.eos_token = None

        def reward(completions: list[str], **_: Any) -> list[float | None]:
            return rewards[: len(completions)].tolist()

        trainer: Any = GRPOTrainer(
            model, reward_funcs=reward, args=args, train_dataset=data, processing_class=tokenizer
        )
        trainer.generation_config.eos_token_id = None
        trainer.eos_token_ids = []
    else:
        from rlcr.training import update

        # All completions are malformed, and nothing would be learned from equal rewards.
        update.part_advantages = lambda parts, *_: {name: rewards - rewards.mean() for name in parts}
        ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        examples = [
            Example(Problem(str(i), "", ("1",), "exact"), RenderedPrompt(text, array("i", tokens)))
            for i, (text, tokens) in enumerate(zip(texts, ids, strict=True))
        ]
        tokenizer.eos_token = None
        trainer = CalibrationTrainer(
            model,
            recipe=recipe,
            reward=reward_of(recipe),
            examples=examples,
            observe=lambda rollouts, numbers: {},
            args=args,
            train_dataset=data,
            processing_class=tokenizer,
        )
    return trainer, matmul_rate(time.process_time if job.cpu else time.perf_counter)


def _quickstart(job: Job, folder: Path) -> tuple[Any, float]:
    """The quickstart's model, problems and rewards, at the recipe's own sizes."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    from rlcr.sample.loading import load
    from rlcr.training.data import load_problems, prepare_problems
    from rlcr.training.embedded import build
    from rlcr.training.grpo import CalibrationTrainer
    from rlcr.training.measurements import measure_update
    from rlcr.training.recipes import load_recipe
    from rlcr.training.recipes.checks import reward_of
    from rlcr.training.rollouts import RolloutLog
    from rlcr.training.run import dataset, grpo_config
    from rlcr.training.update import Example

    recipe = load_recipe("tiny-arms-brier").recipe
    recipe = recipe.model_copy(
        update={"updates": 9, "report_to": (), "size": 2000, "shared_prompts": job.side == "ours"}
    )
    model, tokenizer = load(build(recipe.seed), device="cpu", dtype="float32")
    prepared = prepare_problems(recipe, load_problems(recipe), tokenizer)
    examples = [Example(*pair) for pair in zip(prepared.problems, prepared.prompts, strict=True)]
    args, reward = grpo_config(recipe, folder), reward_of(recipe)
    if job.side == "stock":

        def total(completions: list[str], index: list[int], **_: Any) -> list[float | None]:
            return reward.score(completions, [examples[at].problem for at in index]).rewards.totals()

        trainer: Any = GRPOTrainer(
            model,
            reward_funcs=total,
            args=_cut(args, recipe, job.micro),
            train_dataset=dataset(examples),
            processing_class=tokenizer,
        )
    else:
        rollouts = RolloutLog(folder / "rollouts")

        def observe(made: Any, numbers: dict[str, float]) -> dict[str, Any]:
            rollouts.write(int(numbers["update"]), made)
            return {"reward": measure_update(made, recipe.group)["reward"]}

        trainer = CalibrationTrainer(
            model,
            recipe=recipe,
            reward=reward,
            examples=examples,
            observe=observe,
            args=args,
            train_dataset=dataset(examples),
            processing_class=tokenizer,
        )
    return trainer, matmul_rate(time.process_time if job.cpu else time.perf_counter)


def _cut(args: Any, recipe: Any, micro: int) -> Any:
    """Stock TRL's way to cut an update."""
    from dataclasses import replace

    steps = recipe.completions // micro
    return replace(
        args,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=steps,
        steps_per_generation=steps,
        generation_batch_size=None,
    )


# --- the whole comparison ----------------------------------------------------------------------------


def needed_gflop(job: Job) -> float:
    """What an update needs: forward and twice that backward, each prompt once, logits of completions only.

    A token takes 2 operations for each weight of the layers, a scored one 2 for each of the head, and a pair
    of a query and a key 4 for each number of a head.
    """
    from transformers import AutoConfig

    prompt, completion, group = job.sizes
    folder = model_folder()
    gguf = {} if (folder / "config.json").exists() else {"gguf_file": next(folder.glob("*.gguf")).name}
    config = AutoConfig.from_pretrained(folder, **gguf)
    layers = job.layers or config.num_hidden_layers
    heads = config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    wide = 2 * heads * dim + 2 * config.num_key_value_heads * dim + 3 * config.intermediate_size
    read = prompt + group * (completion - 1)
    pairs = prompt * (prompt + 1) / 2 + group * (completion - 1) * (prompt + completion / 2)
    forward = layers * (2 * config.hidden_size * wide * read + 4 * heads * dim * pairs)
    forward += 2 * config.hidden_size * config.vocab_size * group * completion
    return 3 * forward / 1e9


def run(
    shape: str, micros: list[int], rounds: int, layers: int | None, cpu: bool, sides: tuple[str, ...]
) -> dict[str, Any]:
    """Interleaved rounds; ratios are of medians."""
    from rlcr.training.embedded import build
    from rlcr.training.recipes import load_recipe

    threads = 1 if cpu or shape == QUICKSTART else 2
    quickstart = load_recipe("tiny-arms-brier").recipe
    first = quickstart.completions if shape == QUICKSTART else int(shape.split("/")[2])
    jobs = {side: Job(side, shape, first, threads, layers, cpu) for side in sides if side != "stock"}
    if "stock" in sides:
        for micro in micros or [first]:
            jobs[f"stock, micro-batch {micro}"] = Job("stock", shape, micro, threads, layers, cpu)
    if shape == QUICKSTART:  # taught once, and not while anything is measured
        build(quickstart.seed)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads), "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    for _ in range(rounds):
        for name, job in jobs.items():
            call = [sys.executable, __file__, "--measure", json.dumps(asdict(job))]
            output = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
            if output.returncode:
                raise RuntimeError(f"measuring {name!r} failed:\n{output.stderr[-3000:]}")
            found[name].append(json.loads(output.stdout.splitlines()[-1]))
            print(name, {k: round(v, 3) for k, v in found[name][-1].items()}, file=sys.stderr)
    _refuse_unlike(found, 0.05 if shape == QUICKSTART else 0.0)
    return _summary(jobs, found, shape, layers, cpu, threads)


def _refuse_unlike(found: dict[str, list[dict[str, float]]], allowed: float) -> None:
    """All sides must have had the same work; where completions end by themselves, nearly."""
    for name in TOKENS:
        counts = {side: statistics.median(m[name] for m in lot) for side, lot in found.items()}
        if max(counts.values()) > (1 + allowed) * min(counts.values()):
            raise SystemExit(f"not comparable: {name.replace('_', ' ')} of a step are {counts}")


def _summary(
    jobs: dict[str, Job], found: dict[str, Any], shape: str, layers: int | None, cpu: bool, threads: int
) -> dict[str, Any]:
    def middle(name: str, phase: str) -> float:
        return statistics.median(m[phase] for m in found[name])

    phases = ("sampling", "learning", "whole")
    summary: dict[str, Any] = {
        "what": f"one GRPO step, prompt/completion/group {shape}, float32, {threads} threads,"
        f" {'CPU' if cpu else 'wall'} seconds" + (f", {layers} layers only" if layers else ""),
        "peer": "trl.GRPOTrainer",
        "seconds": {n: {p: round(middle(n, p), 3) for p in phases} for n in jobs},
        "spread": {
            n: {
                p: [round(min(m[p] for m in found[n]), 3), round(max(m[p] for m in found[n]), 3)]
                for p in phases
            }
            for n in jobs
        },
        "tokens": {n: {name: middle(n, name) for name in TOKENS} for n in jobs},
        "peak_gb": {n: round(max(m["peak_gb"] for m in found[n]), 2) for n in jobs},
        "matmul_gflops": round(statistics.median(m["gflops"] for lot in found.values() for m in lot), 1),
    }
    stock = [name for name in jobs if name.startswith("stock")]
    if "ours" in jobs and stock:
        summary["ratio"] = {}
        for phase in phases:
            ratios = {name: round(middle(name, phase) / middle("ours", phase), 2) for name in stock}
            summary["ratio"][phase] = ratios | {"best": min(ratios.values())}
        peaks = summary["peak_gb"]
        summary["ratio"]["memory"] = {name: round(peaks[name] / peaks["ours"], 2) for name in stock}
    if "ours" in jobs and shape != QUICKSTART:
        needed = needed_gflop(jobs["ours"])
        summary["needed_gflop"] = round(needed, 1)
        summary["needed_share"] = round(needed / middle("ours", "learning") / summary["matmul_gflops"], 3)
    return summary


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", default="512/64/16", help="prompt/completion/group, or quickstart")
    parser.add_argument("--micro", type=int, nargs="*", default=[], help="of stock TRL; the whole group")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--cpu", action="store_true", help="seconds of computing, one thread")
    parser.add_argument("--sides", nargs="+", choices=("ours", "plain", "stock"), default=["ours", "stock"])
    parser.add_argument("--write", action="store_true", help="into benchmarks/results.json")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(Job(**json.loads(options.measure)))))
    else:
        if options.write and options.layers:
            parser.error("--layers is for trying out: it is not written")
        sides = tuple(options.sides)
        found = run(options.shape, options.micro, options.rounds, options.layers, options.cpu, sides)
        print(json.dumps(found, indent=2))
        if options.write:
            record({f"training {options.shape}{', CPU seconds' * options.cpu}": found})
