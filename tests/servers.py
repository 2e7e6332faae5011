"""A small real server that speaks the OpenAI protocol, for tests: in this process, on 127.0.0.1, no GPU.

    with ModelServer(lambda call: "42") as server:
        sampler = EndpointSampler(server.url)

It answers ``/v1/models``, ``/v1/chat/completions`` and ``/v1/completions`` with ``n``, ``logprobs``, ``stop``,
``max_tokens``, assistant prefill and usage. What the model "says" comes from a function of a :class:`Call`:
the rendered prompt (plain: system text, ``User: …``, ``Assistant:``, then the response already begun; the
same in both modes), the number of the sample and the settings. It returns text, which is cut into tokens
here, or the tokens with their logprobs: :func:`model_reply` makes such a function of a transformers model. It
may also refuse: ``raise Refusal(400, "content filter")``.

How servers differ is set by ``refuses`` (fields answered with a 400), ``ignores`` (fields not looked at, such
as ``n``), ``tokens`` (how a character split across tokens is reported), ``reasoning`` (``<think>`` split off into
a field of its own), ``chat_template`` (False: chat is refused), ``key`` (the one it wants) and ``context``.

Misfortune is set by :class:`Faults`: shares of calls that get a 429, a 500, a dropped connection, no answer,
half a JSON text, half a body. Which ones is drawn from the call itself and how often it came, so that a test
meets the same faults whatever the order in which calls arrive.

Afterwards: ``calls`` (path, headers and body of each), ``authorizations`` (that header of everything that
arrived, the list of models included), ``faults_served``, ``most_in_flight``.
"""

from __future__ import annotations

import hashlib
import json
import re
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from rlcr.prompts import render_messages

Token = tuple[bytes, float]
END = b"<|end|>"
FAULTS = ("rate_limit", "error", "drop", "hang", "truncate", "cut")


@dataclass(frozen=True)
class Call:
    """What the model is asked to continue, and how. ``number`` tells samples apart; it is 0 when greedy."""

    prompt: str
    number: int
    temperature: float
    max_tokens: int


Reply = Callable[[Call], str | list[Token]]


@dataclass(frozen=True)
class Faults:
    """The share of calls that meet each misfortune. ``hang`` lasts until the client hangs up."""

    rate_limit: float = 0.0
    error: float = 0.0
    drop: float = 0.0
    hang: float = 0.0
    truncate: float = 0.0
    cut: float = 0.0
    retry_after: str = "0"
    seed: int = 0

    def draw(self, body: bytes, times: int) -> str | None:
        """The fault of the ``times``-th arrival of this body, or None."""
        digest = hashlib.sha256(b"%d %d " % (self.seed, times) + body).digest()
        chance = int.from_bytes(digest[:8], "big") / 2**64
        for name in FAULTS:
            chance -= getattr(self, name)
            if chance < 0:
                return name
        return None


@dataclass
class Seen:
    """A call as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any] = field(default_factory=dict)


class Refusal(Exception):
    """What the server answers with an HTTP status of its own; a reply function may raise it too."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ModelServer:
    """See the head of this file. ``url`` is the base URL, known once the server is entered."""

    def __init__(
        self,
        reply: Reply,
        *,
        models: Sequence[str] = ("tiny",),
        faults: Faults | None = None,
        refuses: Collection[str] = (),
        ignores: Collection[str] = (),
        tokens: Literal["bytes", "vllm", "replaced"] = "bytes",
        reasoning: bool = False,
        chat_template: bool = True,
        key: str | None = None,
        context: int | None = None,
        delay: float = 0.0,
    ) -> None:
        self.reply = reply
        self.models = models
        self.faults = faults or Faults()
        self.refuses, self.ignores = set(refuses), set(ignores)
        self.tokens = tokens
        self.reasoning = reasoning
        self.chat_template = chat_template
        self.key = key
        self.context = context
        self.delay = delay
        self.calls: list[Seen] = []
        self.authorizations: list[str | None] = []
        self.faults_served: Counter[str] = Counter()
        self.in_flight = self.most_in_flight = 0
        self.closing = threading.Event()
        self._arrivals: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.model_server = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def arrive(self, seen: Seen, raw: bytes) -> str | None:
        """Note a call; the fault that it is to meet."""
        with self._lock:
            self.calls.append(seen)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            self._arrivals[raw] += 1
            fault = self.faults.draw(raw, self._arrivals[raw])
            if fault:
                self.faults_served[fault] += 1
            return fault

    def leave(self) -> None:
        """A call is over."""
        with self._lock:
            self.in_flight -= 1

    def answer(self, seen: Seen) -> dict[str, Any]:
        """The JSON of a reply."""
        if self.key is not None and seen.headers.get("authorization") != f"Bearer {self.key}":
            raise Refusal(401, f"Incorrect API key provided: {seen.headers.get('authorization')}")
        body = {name: value for name, value in seen.body.items() if name not in self.ignores}
        for name in sorted(self.refuses & body.keys()):
            raise Refusal(400, f"Unknown parameter: '{name}'.")
        if body["model"] not in self.models:
            raise Refusal(404, f"The model `{body['model']}` does not exist.")
        chat = seen.path == "/v1/chat/completions"
        if chat and not self.chat_template:
            raise Refusal(400, "The tokenizer has no chat template, so you must provide one.")
        prompt = _conversation(body) if chat else body["prompt"]
        prompt_tokens, limit = len(_cut(prompt)), body.get("max_tokens", 16)
        if self.context is not None and prompt_tokens + limit > self.context:
            raise Refusal(400, f"This model's maximum context length is {self.context} tokens.")
        temperature = body.get("temperature", 1.0)
        first = body.get("seed", 0) if temperature else 0
        if self.delay:
            time.sleep(self.delay)
        choices, total = [], 0
        for index in range(body.get("n", 1)):
            said = self.reply(Call(prompt, first + index, temperature, limit))
            choice, count = self._choice(said, body, chat, limit)
            choices.append({"index": index, **choice})
            total += count
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": total}
        return {"id": "x", "model": body["model"], "choices": choices, "usage": usage}

    def _choice(
        self, said: str | list[Token], body: dict[str, Any], chat: bool, limit: int
    ) -> tuple[dict[str, Any], int]:
        tokens = said
        if isinstance(tokens, str):
            tokens = [(token, -0.1 * (1 + i % 7)) for i, token in enumerate([*_cut(tokens), END])]
        finish = "stop" if len(tokens) <= limit else "length"
        tokens = tokens[:limit]
        text = b"".join(token for token, _ in tokens if token != END).decode("utf-8", "replace")
        for stop in body.get("stop") or ():
            if stop in text:
                text, finish = text.partition(stop)[0], "stop"
        if self.tokens == "bytes":  # as OpenAI: the end token is not shown
            tokens = [pair for pair in tokens if pair[0] != END]
        choice: dict[str, Any] = {"finish_reason": finish, "logprobs": None}
        if chat:
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if self.reasoning and "</think>" in text:
                thought, _, content = text.removeprefix("<think>").partition("</think>")
                message |= {"reasoning_content": thought, "content": content}
            choice["message"] = message
        else:
            choice["text"] = text
        if body.get("logprobs"):
            shown = list(_shown([token for token, _ in tokens], self.tokens))
            logprobs = [logprob for _, logprob in tokens]
            if chat:
                choice["logprobs"] = {
                    "content": [
                        {"token": name, "logprob": logprob, "bytes": list(data)}
                        for (name, data), logprob in zip(shown, logprobs, strict=True)
                    ]
                }
            else:
                choice["logprobs"] = {"tokens": [name for name, _ in shown], "token_logprobs": logprobs}
        return choice, len(tokens)


def _conversation(body: dict[str, Any]) -> str:
    messages = list(body["messages"])
    begun = messages.pop()["content"] if body.get("continue_final_message") else ""
    return render_messages(messages) + begun


def _cut(text: str) -> list[bytes]:
    """Tokens: words with the space before them; characters beyond ASCII in two halves."""
    tokens: list[bytes] = []
    for piece in re.findall(r" ?[A-Za-z]+| ?[^\x00-\x7f]|[\x00-\x7f]", text):
        data = piece.encode()
        half = len(data) if piece.isascii() else len(data) - 2
        tokens += [part for part in (data[:half], data[half:]) if part]
    return tokens


def _shown(tokens: Sequence[bytes], style: str) -> Sequence[tuple[str, bytes]]:
    """Each token as the server reports it: its name and its bytes."""
    shown: list[tuple[str, bytes]] = []
    open_bytes = b""
    for token in tokens:
        if style == "bytes":
            try:
                shown.append((token.decode(), token))
            except UnicodeDecodeError:
                shown.append(("bytes:" + "".join(f"\\x{byte:02x}" for byte in token), token))
        elif style == "replaced":
            name = token.decode("utf-8", "replace")
            shown.append((name, name.encode()))
        else:  # vLLM shows nothing until a character is complete
            open_bytes += token
            try:
                name, open_bytes = open_bytes.decode(), b""
            except UnicodeDecodeError:
                name = ""
            shown.append((name, name.encode()))
    return shown


class _Http(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True
    model_server: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what these tests are about: no traceback."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet
    disable_nagle_algorithm = True
    connection: socket.socket

    @property
    def model_server(self) -> ModelServer:
        assert isinstance(self.server, _Http)
        return self.server.model_server

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""

    def do_GET(self) -> None:
        self.model_server.authorizations.append(self.headers["Authorization"])
        if self.path != "/v1/models":
            self._send(404, {"detail": "Not Found"})
            return
        self._send(200, {"object": "list", "data": [{"id": name} for name in self.model_server.models]})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.model_server.authorizations.append(self.headers["Authorization"])
        seen = Seen(self.path, headers, json.loads(raw))
        fault = self.model_server.arrive(seen, raw)
        try:
            self._reply(seen, fault)
        finally:
            self.model_server.leave()

    def _reply(self, seen: Seen, fault: str | None) -> None:
        if fault == "rate_limit":
            retry_after = {"Retry-After": self.model_server.faults.retry_after}
            self._send(429, {"error": {"message": "slow down"}}, headers=retry_after)
        elif fault == "error":
            self._send(500, {"error": {"message": "out of luck"}})
        elif fault == "drop":
            self.close_connection = True
        elif fault == "hang":
            self._hang()
        elif self.path not in ("/v1/chat/completions", "/v1/completions"):
            self._send(404, {"detail": "Not Found"})
        else:
            try:
                self._send(200, self.model_server.answer(seen), fault=fault)
            except Refusal as refusal:
                self._send(refusal.status, {"error": {"message": str(refusal), "code": refusal.status}})

    def _hang(self) -> None:
        while not self.model_server.closing.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.02)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                break
        self.close_connection = True

    def _send(
        self, status: int, reply: object, *, headers: dict[str, str] | None = None, fault: str | None = None
    ) -> None:
        data = json.dumps(reply).encode()
        sent = data[: len(data) // 2] if fault in ("truncate", "cut") else data
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        # "truncate" is whole HTTP with half a JSON text in it, "cut" is half the HTTP body.
        self.send_header("Content-Length", str(len(data if fault == "cut" else sent)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)
        if fault == "cut":
            self.close_connection = True


def model_reply(model: Any, tokenizer: Any) -> Reply:
    """Let a transformers model speak: greedy at temperature 0, else sampled from a seed of the call's number.

    One call at a time, without batching: for small models. The prompt is tokenised as it stands.
    """
    import torch

    from rlcr.sample.tokens import reader

    lock = threading.Lock()
    ends = {tokenizer.eos_token_id, model.generation_config.eos_token_id}

    @torch.no_grad()
    def reply(call: Call) -> list[Token]:
        ids = tokenizer(call.prompt, return_tensors="pt", add_special_tokens=False).input_ids
        generator = torch.Generator().manual_seed(call.number)
        tokens: list[Token] = []
        cache = None
        with lock:
            while len(tokens) < call.max_tokens:
                out = model(ids, past_key_values=cache, use_cache=True)
                cache, logits = out.past_key_values, out.logits[0, -1].float()
                if call.temperature == 0:
                    token = int(logits.argmax())
                else:
                    chances = torch.softmax(logits / call.temperature, -1)
                    token = int(torch.multinomial(chances, 1, generator=generator))
                logprob = float(torch.log_softmax(logits, -1)[token])
                tokens.append((END if token in ends else reader(tokenizer).raw(token), logprob))
                if token in ends:
                    break
                ids = torch.tensor([[token]])
        return tokens

    return reply


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
