# pyright: basic
"""The vllm block: what it may say, what becomes of it in TRL, and a server asked before anything is loaded."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.training.updates import recipe

from rlcr.errors import RlcrError
from rlcr.training.preflight.memory import CARD, estimate
from rlcr.training.preflight.model_shape import KNOWN
from rlcr.training.preflight.vllm_server import check_vllm_server, serve_line
from rlcr.training.recipes import load_recipe
from rlcr.training.run import grpo_config

VLLM = {"sampler": "vllm"}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"vllm.memory": 0.5}, "says how vLLM samples, but sampler is rlcr: set sampler=vllm"),
        (VLLM | {"vllm.max_model_len": 4000}, r"4,000 tokens do not hold .* \(3,072 \+ 1,536 = 4,608"),
        (VLLM | {"vllm.server": "node1:8000"}, "node1:8000 is no address; write it as http://host:8000"),
        (VLLM | {"vllm.server": "http://a:1", "vllm.sleep": True}, "vllm.sleep: is for vLLM inside"),
        (VLLM | {"vllm.memory": 1.5}, "vllm.memory: must be less than 1, got 1.5"),
        (VLLM | {"vllm.tensor_paralel": 2}, "vllm.tensor_paralel .*did you mean tensor_parallel"),
        ({"importance_cap": 0}, "importance_cap: must be greater than 0"),
    ],
)
def test_contradictions_are_refused(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(RlcrError, match=words):
        load_recipe("hotpotqa-rlcr", overrides)


def test_the_block_in_the_words_of_trl(tmp_path: Path) -> None:
    inside = {"memory": 0.4, "tensor_parallel": 2, "sleep": True}
    args = grpo_config(recipe(sampler="vllm", vllm=inside, max_prompt_tokens=500), tmp_path)
    assert (args.use_vllm, args.vllm_mode, args.vllm_server_base_url) == (True, "colocate", None)
    assert (args.vllm_gpu_memory_utilization, args.vllm_tensor_parallel_size) == (0.4, 2)
    assert args.vllm_enable_sleep_mode
    assert args.vllm_max_model_length == 500 + 512
    args = grpo_config(recipe(sampler="vllm", vllm={"server": "http://a:1", "max_model_len": 9000}), tmp_path)
    assert (args.vllm_mode, args.vllm_server_base_url) == ("server", "http://a:1")
    assert args.vllm_max_model_length == 9000
    assert not grpo_config(recipe(), tmp_path).use_vllm


def test_memory_follows_the_block() -> None:

    def taken(**vllm: Any) -> float:
        return estimate(recipe(sampler="vllm", vllm=vllm or None), KNOWN["Qwen/Qwen2.5-7B"]).vllm

    assert taken() == 0.3 * CARD
    assert taken(memory=0.5) == 0.5 * CARD
    assert taken(server="http://a:1") == taken(sleep=True) == 0


# --- a server -----------------------------------------------------------------------------------------

GOOD = {
    "model_config": {"logprobs_mode": "processed_logprobs", "max_model_len": 4608},
    "weight_transfer_config": {"backend": "nccl"},
}


@contextmanager
def server(config: Any) -> Iterator[str]:
    """Answers /server_info as vLLM does in its development mode; without a config, 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = config is not None and self.path == "/server_info?config_format=json"
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"vllm_config": config}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{httpd.server_port}"
        finally:
            httpd.shutdown()


def check(config: Any, device: str = "cuda") -> None:
    with server(config) as url:
        check_vllm_server(load_recipe("hotpotqa-rlcr", VLLM | {"vllm.server": url}).recipe, device)


def test_a_server_that_will_do() -> None:
    check(GOOD)
    check_vllm_server(load_recipe("hotpotqa-rlcr", VLLM).recipe, "cpu")  # none is named, none is asked


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, r"does not tell its configuration \(HTTP 404\); start it with: VLLM_SERVER_DEV_MODE=1"),
        (GOOD | {"weight_transfer_config": None}, "cannot be given new weights; start it with"),
        (GOOD | {"model_config": {"logprobs_mode": "raw_logprobs"}}, "before the temperature .*raw_logprobs"),
        (
            GOOD | {"model_config": {"logprobs_mode": "processed_logprobs", "max_model_len": 2048}},
            "holds 2,048 tokens of prompt and completion, the recipe needs 4,608",
        ),
        ([], "does not tell its configuration; start it with"),
    ],
)
def test_a_server_that_will_not(config: Any, words: str) -> None:
    with pytest.raises(RlcrError, match=words):
        check(config)


def test_a_server_that_is_not_there_and_a_trainer_without_a_gpu() -> None:
    settings = load_recipe("hotpotqa-rlcr", VLLM | {"vllm.server": "http://127.0.0.1:1"}).recipe
    with pytest.raises(RlcrError, match="no vLLM answers at http://127.0.0.1:1 .*start it with"):
        check_vllm_server(settings, "cuda")
    with pytest.raises(RlcrError, match="from GPU to GPU .* but trains on cpu: leave out vllm.server"):
        check_vllm_server(settings, "cpu")
    assert "--max-model-len 4608" in serve_line(settings)
