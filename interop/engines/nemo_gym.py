"""NeMo-Gym: the resources server of docs/interop.md behind its own web application, and our service."""

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from nemo_gym.base_resources_server import BaseResourcesServerConfig, BaseVerifyResponse
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import DictConfig

from interop.case import Case, split_thought
from interop.checks import Checks
from interop.serving import reward_service
from interop.snippets import write_module


def response(text: str) -> dict[str, Any]:
    """What a Responses API makes of a text: a thought is an item of its own."""
    output: list[dict[str, Any]] = []
    thought, text = split_thought(text)
    if thought:
        output.append(
            {"type": "reasoning", "id": "1", "summary": [{"type": "summary_text", "text": thought}]}
        )
    part = {"type": "output_text", "text": text, "annotations": []}
    said = {"type": "message", "id": "2", "role": "assistant", "status": "completed", "content": [part]}
    about = {"id": "r", "created_at": 0.0, "model": "stored", "object": "response"}
    tools = {"parallel_tool_calls": False, "tool_choice": "none", "tools": []}
    return {**about, **tools, "output": [*output, said]}


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "nemo-gym")
    write_module("NeMo-Gym", Path("my_server.py"))
    sys.path.insert(0, str(Path.cwd()))
    from my_server import RlcrServer  # pyright: ignore[reportMissingImports]

    address = {"host": "127.0.0.1", "port": 8000}
    server = RlcrServer(
        config=BaseResourcesServerConfig(**address, entrypoint="", name="rlcr"),
        server_client=ServerClient(
            head_server_config=BaseServerConfig(**address), global_config_dict=DictConfig({})
        ),
    )
    bodies = [
        {
            "responses_create_params": {"input": [{"role": "user", "content": f"question {question}"}]},
            "response": response(text),
            "expected_answer": gold,
        }
        for question, text, gold, _ in case.rows()
    ]
    with TestClient(server.setup_webserver()) as client:
        assert client.post("/seed_session", json={}).status_code == 200
        replies = [client.post("/verify", json=body) for body in bodies]
    assert {reply.status_code for reply in replies} == {200}
    rewards = [reply.json()["reward"] for reply in replies]
    checks.equal("`/verify` of a resources server with the lines above", rewards, case.totals_or(0.0))

    # What the service replies must be what NeMo-Gym reads.
    def posted(url: str, body: dict[str, Any]) -> float:
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{url}/verify", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked) as reply:
            return BaseVerifyResponse.model_validate_json(reply.read()).reward

    with reward_service() as url:
        served = [posted(url, body) for body in bodies]
    checks.equal("`/verify` of `rlcr serve-reward`", served, case.totals_or(0.0))


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
