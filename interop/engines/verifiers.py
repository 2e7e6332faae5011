"""verifiers: `Task.score` on traces, and `vf-eval` against a local server that answers what is stored."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.types import AssistantMessage

from interop.case import Case, split_thought
from interop.checks import Checks
from rlcr import Problem
from rlcr.adapters.example import copy_example
from rlcr.adapters.verifiers import RlcrData, RlcrTask, RlcrTaskConfig
from rlcr.tasks import write_problems

EVALUATED = 10  # each is a process of its own


def message(text: str) -> dict[str, str | None]:
    """What a server makes of a text."""
    thought, rest = split_thought(text)
    return {"content": rest, "reasoning_content": thought or None}


async def scored(text: str, gold: str) -> tuple[float | None, vf.Trace]:
    """The reward of a trace, None where scoring raises."""
    data = RlcrData(prompt="…", gold=(gold,))
    task = RlcrTask(data, RlcrTaskConfig(verifier="math"))
    trace = vf.Trace(
        task=vf.TraceTask(type="RlcrTask", data=data),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        nodes=[vf.MessageNode(message=AssistantMessage(**message(text)), sampled=True)],
    )
    try:
        await task.score(trace)
    except vf.TaskError:
        return None, trace
    return trace.reward, trace


class Server(ThreadingHTTPServer):
    """An OpenAI-compatible server with stored answers."""

    def __init__(self, answers: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = body["messages"][-1]["content"]
        asked = asked if isinstance(asked, str) else "".join(part["text"] for part in asked)
        assert isinstance(self.server, Server)
        said = {"role": "assistant", **message(self.server.answers[asked.strip()])}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        about = {"id": "1", "created": 0, "model": "stored"}
        if not body.get("stream"):
            choice = {"index": 0, "message": said, "finish_reason": "stop"}
            self.reply({**about, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        about["object"] = "chat.completion.chunk"
        chunks = [
            {**about, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
            {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {**about, "choices": [], "usage": usage},
        ]
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self.send("text/event-stream", "".join([*events, "data: [DONE]\n\n"]))

    def do_GET(self) -> None:
        self.reply({"object": "list", "data": [{"id": "stored", "object": "model"}]})

    def reply(self, value: Any) -> None:
        self.send("application/json", json.dumps(value))

    def send(self, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def evaluated(case: Case) -> Path:
    """The file of traces that `vf-eval` writes about the first questions."""
    folder = Path("example").absolute()
    copy_example("verifiers", folder)
    problems = [
        Problem(str(n), f"question {n}", (gold,), "math") for n, gold in enumerate(case.golds[:EVALUATED])
    ]
    write_problems(folder / "problems.jsonl", problems)
    server = Server({f"question {n}": texts[0] for n, texts in enumerate(case.completions)})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [
        "vf-eval", "rlcr_problems", "--model", "stored", "-n", str(EVALUATED), "-c", "2", "--no-push",
        "--client.base-url", f"http://127.0.0.1:{server.server_address[1]}/v1",
        "--client.api-key-var", "STORED_KEY", "--env.agent.harness.id", "null",
        "--env.agent.runtime.type", "subprocess", "--rich", "None", "--output-dir", "traces",
    ]  # fmt: skip
    path = f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": path, "STORED_KEY": "none"}
    subprocess.run(command, check=True, cwd=folder, env=environment)
    server.shutdown()
    (written,) = folder.rglob("traces.jsonl")
    return written


def traces_of(written: Path) -> list[dict[str, Any]]:
    episodes = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    return [trace for episode in episodes for trace in episode["traces"]]


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "verifiers")
    found = [asyncio.run(scored(text, gold)) for _, text, gold, _ in case.rows()]
    checks.equal(
        "reward of `Task.score`, thoughts apart", [reward for reward, _ in found], case.totals_or(None)
    )
    stated = [trace.metrics.get("confidence") for _, trace in found]
    expected = [
        None if total == -0.5 else stated
        for totals, confidences in zip(case.totals, case.confidences, strict=True)
        for total, stated in zip(totals, confidences, strict=True)
    ]
    checks.equal("confidences among its metrics", stated, expected)
    rewards = [None] * EVALUATED
    written = evaluated(case)
    for trace in traces_of(written):
        given = (trace.get("rewards") or {}).get("rlcr")
        rewards[int(trace["task"]["data"]["id"])] = (
            None if given is None else given["score"] * given["weight"]
        )
    checks.equal("rewards of `vf-eval`", rewards, [totals[0] for totals in case.totals[:EVALUATED]])
    checks.imported("its traces", written, case, questions=EVALUATED, samples=1)


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
