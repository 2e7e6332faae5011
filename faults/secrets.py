"""Secrets planted where users keep them, and then searched in every byte that comes out.

A key in each of the environment variables that hold one, a password and a key in an address, the same sent
back by a server or a proxy. Afterwards everything is searched: what was printed, replies of our own servers,
and every file below the folder of the trial, unpacked where it is packed.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.confidence.colour_runs import colour_run
from tests.evaluate.capitals import capitals
from tests.training.tiny_recipe import RECIPE

from faults.commands import Ended, run
from faults.endpoint import task
from faults.fault import Fault, Outcome, Trial
from faults.hostile_server import Asked, Behaviour, HostileServer, choice, honest, http
from faults.served import Serving, ask
from faults.stages import local_model

#: What they have in common, by which they are found.
_MARK = "c5f1d0e9b7a3"
KEY = f"sk-{_MARK}-key"
PASSWORD = f"{_MARK}-password"
TOKEN = f"{_MARK}-token"
ENVIRONMENT = {
    "RLCR_API_KEY": KEY,
    "OPENAI_API_KEY": f"sk-{_MARK}-openai",
    "RLCR_SERVE_TOKEN": TOKEN,
    "HF_TOKEN": f"hf_{_MARK}",
    "WANDB_API_KEY": f"{_MARK}-wandb",
    "AWS_SECRET_ACCESS_KEY": f"{_MARK}-aws",
    "DATABASE_PASSWORD": f"{_MARK}-database",
}


class Search:
    """The commands of a trial, and what they said."""

    def __init__(self, folder: Path, outcome: Outcome) -> None:
        self.folder, self.outcome = folder, outcome
        self.said: list[tuple[str, bytes]] = []

    def rlcr(self, *arguments: object, fails: bool = False, **more: str) -> Ended:
        """Run a command with all secrets in its environment, and ``more``."""
        prepare = partial(_prepare, {**ENVIRONMENT, **more})
        ended = run(arguments, self.folder.parent / f"{self.folder.name}.log", first=prepare)
        self.heard(str(arguments[0]), f"{ended.output}\n{ended.errors}".encode())
        if fails and not ended.status:
            self.outcome.fail(f"{arguments[0]}: was to be refused")
        if not fails and (ended.fault or ended.status):
            self.outcome.fail(f"{arguments[0]}: {ended.fault or ended.last_line}")
        return ended

    def heard(self, where: str, content: bytes) -> None:
        """Something that came out, to be searched."""
        self.said.append((where, content))

    def leaks(self) -> list[str]:
        """Where a secret came out."""
        files = [(str(path.relative_to(self.folder)), path) for path in self.folder.rglob("*")]
        contents = [(name, _content(path)) for name, path in files if path.is_file()]
        names = [("the name of a file", name.encode()) for name, _ in files]
        return [where for where, content in (*self.said, *contents, *names) if _holds_secret(content)]


def _prepare(environment: dict[str, str], *first: Callable[[], None]) -> None:
    os.environ.update(environment)
    for do in first:
        do()


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def _holds_secret(content: bytes) -> bool:
    coded = {base64.b64encode(b" " * shift + _MARK.encode())[4:-4] for shift in range(3)}
    return _MARK.encode() in content or any(one in content for one in coded)


# --- servers and addresses -----------------------------------------------------------------------------


def _evaluate(search: Search, behave: Behaviour, *, fails: bool) -> None:
    """`rlcr eval` on a server, and what reads the run, if there is one."""
    with HostileServer(behave) as server:
        out = search.folder / "run"
        begin = ["eval", "--model", f"{server.url}#tiny", "--task", task(search.folder), "--method", "rlcr"]
        search.rlcr(*begin, "--samples", 2, "--timeout", 20, "--out", out, fails=fails)
        if not any(asked.authorization == f"Bearer {KEY}" for asked in server.asked):
            search.outcome.fail("the key was not sent, so that nothing was tried")
        server.behave = honest
        if fails:
            search.rlcr("eval", "--resume", "--retry-failed", "--model", f"{server.url}#tiny", "--out", out)
    _read(search, out)


def _read(search: Search, out: Path) -> None:
    """Commands that read a run and write more."""
    search.rlcr("rescore", out)
    search.rlcr("vote", out, "--json")
    search.rlcr("confidence", "add", "agreement", out)
    search.rlcr("metrics", out)
    search.rlcr("runs", search.folder)
    search.rlcr("export", out, "--out", search.folder / "exported")
    search.rlcr("report", out, "--out", search.folder / "report.html")


def _honest(search: Search) -> None:
    _evaluate(search, honest, fails=False)
    search.rlcr(
        "report", search.folder / "run", "--figures", search.folder, "--out", search.folder / "page.html"
    )


def _repeating(search: Search) -> None:
    """A server that refuses the key and repeats it, in JSON and in a page, and as the name of a model."""
    said = f"wrong key {KEY} of http://me:{PASSWORD}@here/?key={PASSWORD}"

    def refuses(asked: Asked) -> Iterator[bytes]:
        body = json.dumps({"error": {"message": said}}).encode()
        yield http(body, "401 No")

    _evaluate(search, refuses, fails=True)


def _failing(search: Search) -> None:
    """The same, as failures that may pass: a page, a broken reply, a body that is no JSON."""
    texts = (f"<html>{KEY}</html>", f'{{"choices": ["{PASSWORD}"]}}', f"Bearer {KEY}")

    def fails(asked: Asked) -> Iterator[bytes]:
        if asked.times < 3:
            status = ("500 Oops", "200 OK", "503 Later")[asked.times]
            yield http(texts[asked.times].encode(), status)
        else:
            yield from honest(asked)

    _evaluate(search, fails, fails=False)


def _echoing(search: Search) -> None:
    """A server whose completions repeat the key: none of them is kept."""

    def echoes(asked: Asked) -> Iterator[bytes]:
        one = choice(asked)
        one["message"]["content"] += f" {asked.authorization}"
        choices = [one | {"index": index} for index in range(asked.body.get("n", 1))]
        yield http(json.dumps({"choices": choices}).encode())

    _evaluate(search, echoes, fails=True)


def _redirecting(search: Search) -> None:
    def away(_: Asked) -> Iterator[bytes]:
        yield http(b"", "307 Away", Location=f"http://me:{PASSWORD}@127.0.0.1:9/{KEY}?key={PASSWORD}")

    _evaluate(search, away, fails=True)


def _proxy(search: Search) -> None:
    """A proxy with a password, which refuses and repeats it, and one that is not there."""
    source = task(search.folder)

    def refuses(_: Asked) -> Iterator[bytes]:
        yield http(f"no {PASSWORD} for me:{PASSWORD}@".encode(), "407 Who")

    with HostileServer(refuses) as server:
        port = server.url.rpartition(":")[2].removesuffix("/v1")
        for place in (port, "9"):
            proxy = f"http://me:{PASSWORD}@127.0.0.1:{place}"
            for scheme in ("http", "https"):
                model, out = f"{scheme}://model.example/v1#tiny", search.folder / f"{scheme}-{place}"
                begin = ["eval", "--model", model, "--task", source, "--method", "rlcr", "--out", out]
                search.rlcr(*begin, "--timeout", 5, fails=True, HTTP_PROXY=proxy, HTTPS_PROXY=proxy)


def _addresses(host: str) -> list[str]:
    return [
        f"http://me:{PASSWORD}@{host}/v1",
        f"HTTP://{PASSWORD}@{host}/v1#tiny",
        f"https://{host}/v1?key={PASSWORD}",
        f"http://{host}/v1?x=1&access_token={PASSWORD}#tiny",
        f"http://me:a/{PASSWORD}@{host}/v1",
        f"http://me:a@{PASSWORD}@{host}/v1",
        f"http://me:{PASSWORD}@[::1/v1",
        f"http:///me:{PASSWORD}@{host}/v1",
    ]


def _named(search: Search) -> None:
    """Addresses with a password or a key, wherever a model, a file or a folder may be named."""
    source = task(search.folder)
    finished = colour_run(search.folder / "finished", 6)
    with HostileServer(honest) as server:
        for number, address in enumerate(_addresses(server.url.removeprefix("http://").removesuffix("/v1"))):
            out = search.folder / f"run-{number}"
            common = ["--task", source, "--method", "rlcr", "--out", out]
            for command in (
                ["eval", "--model", address, *common],
                ["eval", "--model", server.url, "--judge", address, "--verifier", "judge", *common],
                ["eval", "--model", server.url, "--task", address, "--method", "rlcr", "--out", out],
                ["rescore", finished, "--judge", address, "--verifier", "judge"],
                ["sft-data", "--model", address, "--task", source, "--expert", address, "--out", out],
                ["analyses", finished, "--model", address],
                ["ask", "why?", "--model", address],
                ["tasks", "show", address],
                ["metrics", address],
                ["import", address, "--out", out],
                ["train", address, "--out", out],
                ["report", address],
            ):
                search.rlcr(*command, fails=True)
        if server.asked and any(PASSWORD in str(vars(asked)) for asked in server.asked):
            search.outcome.fail("a password was sent to a server")


def _imported(search: Search) -> None:
    """What the user says a model is may be an address; it is kept in the run without its secrets."""
    table = search.folder / "table.jsonl"
    lines = ({"q": f"{n}?", "gold": "3", "text": f"<answer>{n}</answer>"} for n in range(6))
    table.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for number, address in enumerate(_addresses("host:8000")[:4]):
        out = search.folder / f"run-{number}"
        names = ["--completion", "text", "--gold", "gold", "--question", "q", "--format", "rlvr"]
        search.rlcr("import", table, *names, "--model", address, "--out", out)
        search.rlcr("runs", search.folder)
        search.rlcr("report", out, "--out", search.folder / f"report-{number}.html")
        search.rlcr("eval", "--resume", "--out", out, fails=True)


def _stored(search: Search) -> None:
    """A run of somebody else, whose settings name a server with a password."""
    source, out = task(search.folder), search.folder.parent / f"{search.folder.name}-stored"
    with HostileServer(honest) as server:
        search.rlcr(
            "eval", "--model", f"{server.url}#tiny", "--task", source, "--method", "rlcr", "--out", out
        )
        facts = json.loads((out / "run.json").read_text())
        facts.pop("crc", None)
        facts["settings"]["model"] = server.url.replace("//", f"//me:{PASSWORD}@") + f"?key={PASSWORD}"
        (out / "run.json").write_text(json.dumps(facts))
        for command in (
            ["eval", "--resume", "--out", out],
            ["analyses", out],
            ["rescore", out, "--verifier", "judge"],
        ):
            search.rlcr(*command, fails=True)


# --- tracebacks ----------------------------------------------------------------------------------------


def _traceback(search: Search) -> None:
    """Errors that nobody foresaw, whose texts hold the headers and the address of a request."""
    for where in (_break_sending, _break_a_thread, _break_with_a_warning):
        with HostileServer(honest) as server:
            out = search.folder / where.__name__
            begin = [
                "eval",
                "--model",
                f"{server.url}#tiny",
                "--task",
                task(search.folder),
                "--method",
                "rlcr",
            ]
            arguments = [*begin, "--out", out]
            ended = run(arguments, search.folder.parent / "log", first=partial(_prepare, ENVIRONMENT, where))
            search.heard(where.__name__, f"{ended.output}\n{ended.errors}".encode())
            if "[hidden]" not in ended.errors:
                search.outcome.fail(f"{where.__name__}: nothing was hidden: {ended.last_line}")


def _secretive() -> str:
    return f"Bearer {KEY} to http://me:{PASSWORD}@host/v1?api_key={PASSWORD}"


def _break_sending() -> None:
    import httpx2

    async def send(*_: object, **__: object) -> None:
        raise RuntimeError(_secretive())

    httpx2.AsyncClient.send = send  # pyright: ignore[reportAttributeAccessIssue]


def _break_a_thread() -> None:
    import threading

    def fail() -> None:
        raise RuntimeError(_secretive())

    _before_grading(lambda: threading.Thread(target=fail).start())


def _break_with_a_warning() -> None:
    import warnings

    _before_grading(lambda: warnings.warn(_secretive(), RuntimeWarning, stacklevel=1))


def _before_grading(do: Callable[[], None]) -> None:
    from rlcr.evaluate import stages

    grade = stages.grade

    def first(*arguments: object, **options: object) -> object:
        do()
        return grade(*arguments, **options)  # pyright: ignore[reportArgumentType]

    stages.grade = first  # pyright: ignore[reportAttributeAccessIssue]


# --- our own servers -----------------------------------------------------------------------------------


def _rewards(search: Search) -> None:
    """`rlcr serve-reward`, asked with the token, without, and with bodies that it refuses."""
    good = json.dumps({"query": ["<answer>3</answer>"], "prompts": [""], "labels": ["3"]}).encode()
    with _serving(search, ["serve-reward", "--port", 0]) as url:
        for path in ("/", f"/?token={TOKEN}", f"/{TOKEN}?token=x{TOKEN}", "/metrics", "/health", "/%zz"):
            for body in (
                good,
                b"{",
                json.dumps({"query": TOKEN}).encode().replace(TOKEN.encode(), b"x"),
                None,
            ):
                for headers in (
                    {},
                    {"Authorization": f"Bearer {TOKEN}"},
                    {"Authorization": f"Basic {TOKEN}"},
                ):
                    search.heard(f"a reply to {path}", ask(f"{url}{path}", body, headers))


def _view(search: Search) -> None:
    """`rlcr view`: its page, its data, and addresses that it does not have."""
    run_folder = colour_run(search.folder / "run", 20)
    with _serving(search, ["view", run_folder, "--port", 0]) as url:
        for path in (
            "",
            "state",
            "answers",
            "answers?text=x",
            "answers?bad=1",
            f"no?key={PASSWORD}",
            "..%2f",
        ):
            search.heard(f"a reply to {path}", ask(f"{url}/{path}", None, {"Cookie": TOKEN}))


@contextmanager
def _serving(search: Search, arguments: Sequence[object]) -> Iterator[str]:
    serving = Serving(arguments, search.folder.parent / "served.log", partial(_prepare, ENVIRONMENT))
    try:
        yield serving.url()
    finally:
        serving.signal(signal.SIGTERM)
        ended = serving.end()
        search.heard("a server", f"{ended.output}\n{ended.errors}".encode())
        if ended.fault or ended.status:
            search.outcome.fail(ended.fault or ended.last_line)


# --- training ------------------------------------------------------------------------------------------


def _trained(search: Search) -> None:
    model = local_model(search.folder / "start")
    recipe = search.folder / "recipe.yaml"
    recipe.write_text(RECIPE.format(model=model))
    search.rlcr("train", recipe, "--out", search.folder / "run")
    search.rlcr("report", search.folder / "run", "--out", search.folder / "report.html")


def _taught(search: Search) -> None:
    from tests.training.sft_runs import rows, write_data  # torch is slow to import

    model, data = local_model(search.folder / "start"), write_data(search.folder / "data", rows(8))
    common = ["--data", data, "--batch", 4, "--lr", 0.003]
    search.rlcr("sft", "--model", model, *common, "--out", search.folder / "run")


def _evaluated(search: Search) -> None:
    model, source = local_model(search.folder / "start"), capitals(search.folder, 1)
    common = ["--task", source, "--method", "rlcr", "--max-tokens", 16]
    search.rlcr("eval", "--model", model, *common, "--out", search.folder / "run")


def _misread(search: Search) -> None:
    """An address that is taken for the name of a local model, and one given as a tokenizer."""
    source = task(search.folder)
    common = ["--task", source, "--method", "rlcr", "--out", search.folder / "run"]
    search.rlcr("eval", "--model", f"me:{PASSWORD}@localhost/v1", *common, fails=True)
    tokenizer = ["--mode", "completion", "--tokenizer", f"http://me:{PASSWORD}@127.0.0.1:9/x?key={KEY}"]
    search.rlcr("eval", "--model", "http://127.0.0.1:9/v1", *tokenizer, *common, fails=True)


def _examined(search: Search) -> None:
    search.rlcr("doctor")


_LIGHT: tuple[Callable[[Search], None], ...] = (
    _honest, _repeating, _failing, _echoing, _redirecting, _proxy, _named, _imported, _stored, _traceback,
    _rewards, _view,
)  # fmt: skip
_HEAVY: tuple[Callable[[Search], None], ...] = (_trained, _taught, _evaluated, _misread, _examined)


def _fault(what: str, ways: Sequence[Callable[[Search], None]], *, torch: bool = False) -> Fault:
    @contextmanager
    def prepare(_: Path) -> Iterator[Trial]:
        def trial(own: Path, number: int) -> Outcome:
            outcome, way = Outcome(), ways[number % len(ways)]
            (own / "all").mkdir()
            search = Search(own / "all", outcome)
            way(search)
            outcome.count(
                "outputs searched", len(search.said) + sum(map(Path.is_file, search.folder.rglob("*")))
            )
            for where in search.leaks():
                outcome.fail(f"{way.__name__.strip('_')}: a secret in {where}")
            return outcome

        yield trial

    return Fault(what, len(ways), prepare, torch)


FAULTS = {
    "secrets": _fault(
        "keys and passwords in environment, addresses, replies, proxies and tracebacks", _LIGHT
    ),
    "secrets-train": _fault("keys in the environment of training, SFT and a local model", _HEAVY, torch=True),
}
