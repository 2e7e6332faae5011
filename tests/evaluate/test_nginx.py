"""Two servers behind a real nginx, with our configuration; one of them dies half-way."""

import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.evaluate.capitals import capitals, good_reply, records_of
from tests.servers import Call, ModelServer, free_port

from rlcr.evaluate import Settings, evaluate
from rlcr.sample.opening import Access

CONF = Path(__file__).parents[2] / "results" / "served" / "nginx.conf"

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx (Debian: nginx-light)")


@contextmanager
def nginx(folder: Path, *servers: str) -> Iterator[str]:
    """Our configuration with other ports."""
    front, text = free_port(), CONF.read_text()
    for ours, port in zip(
        ("8101", "8102"), (url.split(":")[2].split("/")[0] for url in servers), strict=True
    ):
        text = text.replace(f"127.0.0.1:{ours}", f"127.0.0.1:{port}")
    (folder / "nginx.conf").write_text(text.replace("127.0.0.1:8100", f"127.0.0.1:{front}"))
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{front}/v1"
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{url}/models", timeout=10).close()
                break
            except OSError:
                time.sleep(0.05)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    half, count = threading.Event(), 0

    def reply(call: Call) -> str:
        nonlocal count
        count += 1
        if count >= 40:
            half.set()
        time.sleep(0.01)
        return good_reply(call)

    task = capitals(tmp_path)  # 20 problems
    with ModelServer(good_reply) as server:
        settings = Settings(server.url, (task,), "rlcr", samples=4)
        wanted = evaluate(settings, tmp_path / "alone")
    with ModelServer(reply) as lasting:
        dying = ModelServer(reply)
        dying.__enter__()
        with nginx(tmp_path, lasting.url, dying.url) as url:
            killer = threading.Thread(target=lambda: (half.wait(60), dying.__exit__()))
            killer.start()
            settings = Settings(url, (task,), "rlcr", samples=4)
            results = evaluate(settings, tmp_path / "run", access=Access(concurrency=8))
            killer.join()
        answered = len(dying.calls)
    assert answered > 0
    records = records_of(tmp_path / "run")
    assert len(records) == len({(record["id"], record["sample"]) for record in records}) == 80
    assert results.to_dict()["tasks"] == wanted.to_dict()["tasks"]
