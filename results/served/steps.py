"""What is done with the servers, and what must come of it. Each step returns what it found, or raises."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI, OpenAI
from results.served.servers import FRONT, PORTS, PYTHON, ROOT, end, nginx, vllm

import rlcr
from rlcr.problem import Problem
from rlcr.runs.store import FAILED, UNFINISHED, open_run
from rlcr.tasks import load, write_problems
from rlcr.training.measurements import read_updates

PROBLEMS, SAMPLES = 100, 8
_TOKENS = 80
#: Of the recipe smollm2-rlcr.
_CHAINS = {"dataset": "chain_sum", "min_terms": 2, "max_terms": 4, "min_digits": 1, "max_digits": 3}


def evaluation(model: Path, work: Path) -> dict[str, Any]:
    """`rlcr eval` on one server."""
    with vllm(model, work, PORTS[0]):
        process = start_eval(f"http://127.0.0.1:{PORTS[0]}/v1", work)
        if process.wait():
            raise SystemExit(f"rlcr eval ended with status {process.returncode}; see {work}")
    return found_in(work / "run")


def failover(model: Path, work: Path) -> dict[str, Any]:
    """`rlcr eval` on two servers behind nginx; one is killed when half of the responses are there."""
    with vllm(model, work, *PORTS) as servers, nginx(work) as url:
        process = start_eval(url, work)
        while (there := replies(work / "run")) < PROBLEMS * SAMPLES // 2:
            if process.poll() is not None:
                raise SystemExit(f"rlcr eval ended before half of it was there; see {work}")
            time.sleep(0.05)
        end(servers[PORTS[1]])
        if process.wait():
            raise SystemExit(f"rlcr eval ended with status {process.returncode}; see {work}")
    return {"killed_with_responses": there} | found_in(work / "run") | who_answered(work / "access.log")


def who_answered(log: Path) -> dict[str, Any]:
    """From nginx's log, a line for each request: status, the servers that were tried, what each answered.

    A request may be tried again before the kill too: where a server closes an idle connection in the moment
    in which nginx takes it up.
    """
    requests = []
    for line in log.read_text().splitlines():
        status, *rest = line.split()
        requests.append((status, [server.rstrip(",") for server in rest[: len(rest) // 2]]))
    tried_again = [number for number, (_, servers) in enumerate(requests) if len(servers) > 1]
    return {
        "requests": len(requests),
        "answered_before_the_first_failure": tried_again[0] if tried_again else None,
        "tried_again_by_nginx": len(tried_again),
        "answered_by": dict(sorted(Counter(servers[-1] for _, servers in requests).items())),
        "statuses": dict(Counter(status for status, _ in requests)),
    }


def asking(model: Path, work: Path) -> dict[str, Any]:
    """`rlcr.ask` with the OpenAI client, in both its forms, and `rlcr ask`."""
    with vllm(model, work, PORTS[0]):
        return ask_server(f"http://127.0.0.1:{PORTS[0]}/v1")


def ask_server(url: str) -> dict[str, Any]:
    """One sample, a vote of 8, one that stops early; and the first in two other ways."""
    question = "What is 3 + 4?"
    settings: dict[str, Any] = {"method": "rlcr-short", "max_tokens": _TOKENS, "verifier": "math"}
    client = OpenAI(base_url=url, api_key="none", timeout=3600)
    one = rlcr.ask(client, question, **settings)
    vote = rlcr.ask(client, question, samples=8, **settings)
    early = rlcr.ask(client, question, samples=8, safety=0.95, **settings)
    waiting = AsyncOpenAI(base_url=url, api_key="none", timeout=3600)
    again = asyncio.run(rlcr.ask_async(waiting, question, **settings))
    line = [sys.executable, "-m", "rlcr", "ask", question, "--model", url, "--method", "rlcr-short"]
    line += ["--max-tokens", str(_TOKENS), "--verifier", "math", "--json"]
    typed = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
    assert one.samples == 1, one
    assert vote.samples == 8, vote
    assert 2 <= early.samples <= 8, early
    for answer in (one, vote, early):
        assert answer.text is not None, answer
        assert answer.confidence is not None, answer
        assert 0 <= answer.confidence <= 1, answer
        assert sum(v.votes for v in answer.votes) <= answer.samples, answer
        assert answer.tokens > 0, answer
    # One greedy sample is the same however it is asked for.
    assert again == one, (again, one)
    assert typed == json.loads(json.dumps(asdict(one))), (typed, one)
    return {"one": asdict(one), "vote": asdict(vote), "adaptive": asdict(early)}


def training(model: Path, work: Path) -> dict[str, Any]:
    """`rlcr train` with vLLM inside the trainer, in vLLM's environment, which has TRL and the rest too."""
    rng = random.Random(0)
    pairs = [(rng.randrange(100), rng.randrange(100)) for _ in range(20)]
    sums = [
        Problem(f"sum/{n}", f"What is {a} + {b}?", (str(a + b),), "math") for n, (a, b) in enumerate(pairs)
    ]
    write_problems(work / "sums.jsonl", sums)
    line = [str(PYTHON), "-m", "results.served.unpacked", "train", "smollm2-rlcr", f"model={model}"]
    line += [f"task={work / 'sums.jsonl'}", "task_settings=null", "size=20", "warm_up=null"]
    line += ["sampler=vllm", "vllm.memory=0.5", "updates=2", "prompts=2", "group=4", "micro_batch=4"]
    # The first update changes the weights much: were they not handed over, the second would be far apart.
    line += ["lora.rank=8", "lr=5e-3", "schedule=constant", "max_completion_tokens=48"]
    line += ["eval_every=null", "report_to=[]", "--out", str(work / "run")]
    settings = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    settings["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    done = subprocess.run(line, cwd=work, env=settings, capture_output=True, text=True, check=False)
    (work / "train.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"rlcr train ended with status {done.returncode}; see {work / 'train.log'}")
    return trained(work / "run")


def trained(run: Path) -> dict[str, Any]:
    """Both updates compared sampler and trainer."""
    names = ("update", "mismatch_mean", "mismatch_max", "mismatch_far", "importance_capped", "reward")
    updates = read_updates(run / "updates.jsonl")
    assert [update["update"] for update in updates] == [1, 2]
    assert all(update["mismatch_mean"] is not None for update in updates)
    return {"updates": [{name: update[name] for name in names} for update in updates]}


def start_eval(url: str, work: Path) -> subprocess.Popen[bytes]:
    """`rlcr eval` of sums, in a process of its own."""
    write_problems(work / "sums.jsonl", load("gym", "test", size=PROBLEMS, **_CHAINS).problems)
    line = [sys.executable, "-m", "rlcr", "eval", "--model", url, "--task", str(work / "sums.jsonl")]
    line += ["--method", "rlcr-short", "--samples", str(SAMPLES), "--max-tokens", str(_TOKENS)]
    line += ["--concurrency", "16", "--timeout", "3600", "--out", str(work / "run")]
    with (work / "eval.log").open("wb") as log:
        return subprocess.Popen(line, stdout=log, stderr=log)


def replies(run: Path) -> int:
    """How many replies have arrived: they are kept here until the run is finished."""
    path = run / UNFINISHED
    return path.read_bytes().count(b"\n") if path.exists() else 0


def found_in(folder: Path) -> dict[str, Any]:
    """Nothing is lost and nothing is there twice; and what came of it."""
    run = open_run(folder)
    records = list(run.records())
    keys = {(record.id, record.sample) for record in records}
    assert len(records) == len(keys) == PROBLEMS * SAMPLES, (len(records), len(keys))
    assert not (folder / FAILED).exists(), "some samples failed"
    (task,) = json.loads((folder / "results.json").read_text())["tasks"].values()
    metrics = {name: task["metrics"][name]["value"] for name in ("accuracy", "ece", "brier")}
    tokens = sum(record.tokens for record in records)
    return {"records": len(records), "different": len(keys), "tokens": tokens, **metrics}


STEPS = {"eval": evaluation, "ask": asking, "failover": failover, "train": training}

assert FRONT not in PORTS
