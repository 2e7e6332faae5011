"""The reward service: requests from many clients at once, against calling the core in this process.

    python benchmarks/bench_service.py                               10,000 requests from 64 clients
    python benchmarks/bench_service.py --requests 500 --clients 8    a quick look
    … --write                                                        into benchmarks/results.json

The service is `rlcr serve-reward` in a process of its own, as a user starts it; clients are threads with a
connection each, which is kept, one completion a request in slime's shape. Every reply is compared with the
core's number: a wrong or lost one is an error. Memory is that of the service alone (its workers are others),
after a tenth of the requests and at the end.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench_reward import make_completions
from recording import record
from rlcr.adapters.core import Row, Scorer


def bodies(requests: int) -> tuple[list[bytes], list[Row]]:
    texts, pairs = make_completions()
    rows = [Row(texts[n % len(texts)], pairs[n % len(texts)][0]) for n in range(requests)]
    sent = [{"prompt": "", "response": row.completion, "label": row.gold} for row in rows]
    return [json.dumps(body).encode() for body in sent], rows


def rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


class Clients:
    """Threads that share a list of bodies and write down each reply with its seconds."""

    def __init__(self, port: int, sent: list[bytes]) -> None:
        self.port, self.sent = port, sent
        self.rewards: list[Any] = [None] * len(sent)
        self.seconds = [0.0] * len(sent)
        self._places = iter(range(len(sent)))
        self._lock = threading.Lock()

    def run(self, clients: int) -> float:
        threads = [threading.Thread(target=self._one) for _ in range(clients)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - started

    def _one(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        while True:
            with self._lock:
                place = next(self._places, None)
            if place is None:
                connection.close()
                return
            started = time.perf_counter()
            connection.request("POST", "/", self.sent[place])
            reply = connection.getresponse()
            self.rewards[place] = json.loads(reply.read()) if reply.status == 200 else f"HTTP {reply.status}"
            self.seconds[place] = time.perf_counter() - started


def run(requests: int, clients: int, verifier: str) -> dict[str, Any]:
    sent, rows = bodies(requests)
    scorer = Scorer(verifier=verifier, unscorable=0.0)
    scorer.score(rows[:8])  # starts the processes
    started = time.perf_counter()
    expected = [scorer.score([row])[0].total for row in rows]
    one_by_one = time.perf_counter() - started
    command = [sys.executable, "-m", "rlcr", "serve-reward", "--verifier", verifier, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        first = max(1, requests // 10)
        warm = Clients(port, sent[:first])
        warm.run(clients)
        before = rss_mb(server.pid)
        asked = Clients(port, sent)
        whole = asked.run(clients)
        after = rss_mb(server.pid)
    finally:
        server.terminate()
        server.wait(60)
    wrong = sum(found != wanted for found, wanted in zip(asked.rewards, expected, strict=True))
    if wrong:
        raise SystemExit(f"{wrong} of {requests} replies are not the core's: {asked.rewards[:3]} …")
    quantiles = statistics.quantiles(asked.seconds, n=100)
    return {
        "what": f"{requests:,} requests of one completion from {clients} clients, verifier {verifier}",
        "peer": "the core in this process, one completion a call, one after the other",
        "lost_or_wrong": wrong,
        "requests_per_s": round(requests / whole, 1),
        "in_process_per_s": round(requests / one_by_one, 1),
        "throughput_ratio": round(one_by_one / whole, 3),
        "p50_s": round(quantiles[49], 4),
        "p99_s": round(quantiles[98], 4),
        "p99_in_calls": round(quantiles[98] / (one_by_one / requests), 1),
        "memory_mb": {"after a tenth": round(before, 1), "at the end": round(after, 1)},
        "exit_status": server.returncode,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the reward service.")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--verifiers", nargs="+", default=["exact", "math"])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results = {}
    for verifier in options.verifiers:
        results[f"service, {verifier}"] = found = run(options.requests, options.clients, verifier)
        print(json.dumps(found, indent=1))
    if options.write:
        record(results)


if __name__ == "__main__":
    main()
