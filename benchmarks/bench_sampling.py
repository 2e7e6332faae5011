"""Sampling 16 times from each of 16 prompts, against transformers.generate with the same batch.

SmolLM2-135M (smollm2.py), prompts of 400 tokens, 64 new ones each, float32, two threads. The peer runs twice:
all 256 samples at once, as ours, and one prompt's 16 samples at a time, the batching that suits it best here.
Each measurement is a process of its own, so that peak memory is its own, and they take turns, since machines
are noisy. ``--quick`` takes 4 prompts, 8 samples, 128 tokens and 16 new ones; ``--shape 1/16/512/64`` is one
group of a training step. ``--cpu`` counts seconds of computing on one thread instead of wall time on two: the
way to measure on a machine that is busy with other work.

vLLM is a further peer where ``VLLM_ENV`` names an environment that has it (tests/setup_vllm.sh makes one) and
``RLCR_SMOLLM2`` the model as a Hugging Face folder, since servers read no GGUF. It gets the same prompts in
one request each, with ``n`` samples, and may end some early (``tokens`` tells). Its seconds and memory are
those of the server and all its processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recording import record
from smollm2 import model_folder

THREADS = 2
ROUNDS = 3
WAYS = ("ours", "generate", "generate, one prompt at a time", "vllm")


@dataclass(frozen=True)
class Shape:
    prompts: int = 16
    samples: int = 16
    prompt_tokens: int = 400
    new_tokens: int = 64


QUICK = Shape(4, 8, 128, 16)


def make_prompts(tokenizer: Any, shape: Shape) -> list[str]:
    """Texts of exactly the wanted number of tokens."""
    # Begins with a space and ends with a full stop: repeated it is read as the same tokens again.
    words = tokenizer(" The river runs past the old town and its seven bridges, and nobody counts the boats.")
    stock = words["input_ids"] * (shape.prompt_tokens // 10 + 2)
    return [tokenizer.decode(stock[i : i + shape.prompt_tokens]) for i in range(shape.prompts)]


def measure(way: str, shape: Shape, clock: Callable[[], float]) -> dict[str, float]:
    """In a process of its own: seconds, tokens and peak memory of one way."""
    return measure_vllm(shape, clock) if way == "vllm" else measure_here(way, shape, clock)


def measure_here(way: str, shape: Shape, clock: Callable[[], float]) -> dict[str, float]:
    """Ours and transformers', in this process."""
    import torch

    from rlcr.sample import Request, Sampling
    from rlcr.sample.local import LocalSampler

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    sampler = LocalSampler.load(model_folder(), device="cpu")
    model, tokenizer = sampler.model, sampler.tokenizer
    # Nobody stops early, so that all do the same work; and prompts are plain text of a known length.
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token = None
    tokenizer.chat_template = None
    prompts = make_prompts(tokenizer, shape)
    lengths = {len(ids) for ids in tokenizer(prompts)["input_ids"]}
    assert lengths == {shape.prompt_tokens}, lengths

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


def measure_vllm(shape: Shape, clock: Callable[[], float]) -> dict[str, float]:
    """A server that is started for this. Its memory: the sum over its processes, shared pages included."""
    from transformers import AutoTokenizer

    from rlcr.sample import Request, Sampling
    from rlcr.sample.endpoint import EndpointSampler

    tokenizer = AutoTokenizer.from_pretrained(os.environ["RLCR_SMOLLM2"])
    prompts = make_prompts(tokenizer, shape)
    room = shape.prompt_tokens + shape.new_tokens + 16
    with vllm_server(room) as (url, pid):
        sampler = EndpointSampler(url, mode="completion", concurrency=shape.prompts, timeout=3600)

        def work(texts: list[str], new_tokens: int) -> int:
            requests = [Request(str(i), (), shape.samples, prefix=text) for i, text in enumerate(texts)]
            completions = sampler.sample(requests, Sampling(max_tokens=new_tokens, temperature=0.7))
            return sum(completion.completion_tokens for completion in completions)

        work(["Another prompt, so that none of the measured ones is remembered."], 1)
        cpu = clock is time.process_time
        started = cpu_seconds(pid) if cpu else clock()
        tokens = work(prompts, shape.new_tokens)
        seconds = (cpu_seconds(pid) if cpu else clock()) - started
        peak = sum(peak_kb(member) for member in process_tree(pid)) / 2**20
    return {"seconds": seconds, "tokens": tokens, "peak_gb": peak}


@contextmanager
def vllm_server(room: int) -> Iterator[tuple[str, int]]:
    """The base URL and process id of a vLLM on this machine alone. Ended with all that it started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        str(Path(os.environ["VLLM_ENV"]) / "bin" / "python"),
        "-m",
        "vllm.entrypoints.openai.api_server",
    ]
    command += ["--model", os.environ["RLCR_SMOLLM2"], "--served-model-name", "smollm2", "--dtype", "float32"]
    # Compiling takes minutes on a CPU and is not part of what is compared.
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", str(room), "--enforce-eager"]
    # On a CPU vLLM 0.32 dies of a request with a seed whose prompt it reads in parts.
    command += ["--no-enable-chunked-prefill"]
    settings = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    settings |= {"PYTHONPATH": "", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env=os.environ | settings, start_new_session=True
        )
        try:
            while True:
                if server.poll() is not None:
                    log.seek(0)
                    raise RuntimeError(f"vLLM did not start:\n{log.read()[-2000:].decode(errors='replace')}")
                with suppress(OSError), opener.open(f"http://127.0.0.1:{port}/health", timeout=10):
                    break
                time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1", server.pid
        finally:
            with suppress(ProcessLookupError):  # the session is ours alone
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def process_tree(pid: int) -> list[int]:
    """A process and all that descend from it, as /proc knows them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it may have ended
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    found = [pid]
    for member in found:  # grows while it is walked
        found += children.get(member, [])
    return found


def cpu_seconds(pid: int) -> float:
    """Seconds of computing of a process tree so far."""
    ticks = sum(int(field) for member in process_tree(pid) for field in _stat(member)[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: the name before it may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def possible_ways() -> tuple[str, ...]:
    vllm = os.environ.get("VLLM_ENV") and os.environ.get("RLCR_SMOLLM2")
    return WAYS if vllm else WAYS[:-1]


def run(
    shape: Shape | None = None, rounds: int = ROUNDS, cpu: bool = False, ways: tuple[str, ...] | None = None
) -> dict[str, Any]:
    """Interleaved rounds; ratios are of medians."""
    shape, ways = shape or Shape(), ways or possible_ways()
    model_folder()  # says what is missing before anything is started
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
    transformers = [middle[way] for way in WAYS[1:3] if way in middle]
    ratios: dict[str, float] = {}
    if "ours" in middle and "generate" in middle:
        ratios["ratio"] = middle["ours"] / middle["generate"]
    if "ours" in middle and transformers:
        ratios["ratio_to_best_batching"] = middle["ours"] / max(transformers)
    if "ours" in middle and "vllm" in middle:
        ratios["ratio_to_vllm"] = middle["ours"] / middle["vllm"]
    return {
        "what": "SmolLM2-135M, float32, {} threads, {} seconds: {prompts} prompts of {prompt_tokens} tokens,"
        " {samples} samples of {new_tokens} tokens each".format(
            threads, "CPU" if cpu else "wall", **asdict(shape)
        ),
        "peer": "transformers.generate with num_return_sequences, same batch",
        "tokens_per_second": {way: round(rate, 1) for way, rate in middle.items()},
        "spread": {way: [round(min(lot), 1), round(max(lot), 1)] for way, lot in rates.items()},
        "tokens": {way: lot[-1]["tokens"] for way, lot in found.items()},
        "peak_gb": {way: round(max(m["peak_gb"] for m in lot), 2) for way, lot in found.items()},
        **{name: round(ratio, 2) for name, ratio in ratios.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller shape")
    parser.add_argument("--shape", help="prompts/samples/prompt tokens/new tokens, such as 1/16/512/64")
    parser.add_argument("--cpu", action="store_true", help="seconds of computing, one thread")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="only these")
    parser.add_argument("--write", action="store_true", help="into benchmarks/results.json")
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "SHAPE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        way, shape = options.measure
        clock = time.process_time if options.cpu else time.perf_counter
        print(json.dumps(measure(way, Shape(**json.loads(shape)), clock)))
    else:
        if "vllm" in (options.ways or ()) and "vllm" not in possible_ways():
            parser.error("vllm needs VLLM_ENV and RLCR_SMOLLM2")
        ways = tuple(options.ways) if options.ways else None
        shape = QUICK if options.quick else Shape()
        if options.shape:
            shape = Shape(*map(int, options.shape.split("/")))
        found = run(shape, options.rounds, options.cpu, ways)
        print(json.dumps(found, indent=2))
        if options.write:
            name = "/".join(str(size) for size in asdict(shape).values())
            record({f"sampling {name}{', CPU seconds' * options.cpu}": found})
