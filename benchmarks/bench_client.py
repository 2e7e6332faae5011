"""What asking a server costs: requests for each second of CPU time, against a plain loop over its library.

    python benchmarks/bench_client.py                      2,000 requests a turn, 5 turns
    python benchmarks/bench_client.py --requests 500 --rounds 3
    … --write                                              into benchmarks/results.json

The server (fast_server.py) is a process of its own; no two of its texts are the same. All ways send the same
conversations. CPU time is that of this process and all its threads, so that a busy machine matters less; the
ways take turns, and ratios are of medians.

    plain        16 coroutines over one httpx2.AsyncClient: post a body, read the JSON. Nothing else
    sampler      EndpointSampler: bodies made, replies checked, retries, completions in the caller's thread
    evaluation   `evaluate`: the same, parsed, graded, written down and measured
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recording import record
from rlcr.problem import Problem
from rlcr.prompts import load_prompt, messages

HERE = Path(__file__).parent
CONCURRENCY = 16
METHOD = "rlcr"


def problems(count: int) -> list[Problem]:
    question = "Which city is the capital of France?"
    return [Problem(f"q/{number}", f"[{number}] {question}", ("Paris",), "exact") for number in range(count)]


def plain(url: str, count: int) -> None:
    import httpx2

    asked, prompt = iter(problems(count)), load_prompt(METHOD)

    async def worker(client: httpx2.AsyncClient) -> None:
        for problem in asked:
            body = {
                "model": "fast",
                "max_tokens": 4096,
                "temperature": 0.0,
                "messages": messages(prompt, problem),
            }
            reply = await client.post(f"{url}/chat/completions", json=body)
            if not reply.json()["choices"][0]["message"]["content"]:
                raise SystemExit("an empty reply")

    async def everything() -> None:
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            await asyncio.gather(*(worker(client) for _ in range(CONCURRENCY)))

    asyncio.run(everything())


def sampler(url: str, count: int) -> None:
    from rlcr.sample import Request, Sampling
    from rlcr.sample.endpoint import EndpointSampler

    prompt = load_prompt(METHOD)
    requests = (Request(problem.id, tuple(messages(prompt, problem))) for problem in problems(count))
    asking = EndpointSampler(url, "fast", mode="chat", concurrency=CONCURRENCY)
    found = sum(bool(one.text) for one in asking.sample(requests, Sampling()))
    if found != count:
        raise SystemExit(f"{found} completions of {count}")


def evaluation(url: str, count: int) -> None:
    from rlcr.evaluate import Settings, evaluate
    from rlcr.tasks import write_problems

    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.jsonl"
        write_problems(task, problems(count))
        results = evaluate(Settings(f"{url}#fast", (str(task),), METHOD), Path(folder) / "run")
        (coverage,) = results.coverage.values()
        if coverage.answered != count:
            raise SystemExit(f"{coverage.answered} records of {count}")


WAYS: dict[str, Callable[[str, int], None]] = {"plain": plain, "sampler": sampler, "evaluation": evaluation}


def run(requests: int, rounds: int, logprobs: bool) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "fast_server.py"), *(["--logprobs"] if logprobs else [])]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        rates: dict[str, list[float]] = {name: [] for name in WAYS}
        for turn in range(rounds + 1):
            for name, way in WAYS.items():
                started = time.process_time()
                way(url, requests)
                if turn:  # the first imports
                    rates[name].append(requests / (time.process_time() - started))
    finally:
        server.terminate()
        server.wait(60)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratios = {name: round(medians[name] / medians["plain"], 3) for name in ("sampler", "evaluation")}
    return {
        "what": f"{requests:,} requests a turn, {rounds} turns, replies {'with' if logprobs else 'without'}"
        " log-probabilities",
        "peer": "a plain loop over the same HTTP library",
        "requests_per_cpu_s": {name: round(value) for name, value in medians.items()},
        "sampler_ratio": ratios["sampler"],
        "evaluation_ratio": ratios["evaluation"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What our client costs.")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results = {}
    for logprobs in (False, True):
        name = "client, replies with log-probabilities" if logprobs else "client, plain replies"
        results[name] = found = run(options.requests, options.rounds, logprobs)
        print(json.dumps(found, indent=1))
    if options.write:
        record(results)


if __name__ == "__main__":
    main()
