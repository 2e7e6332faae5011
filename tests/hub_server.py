"""A small real server that speaks what of the Hugging Face hub an upload needs, for tests: on 127.0.0.1.

    with HubServer(token="hf_secret") as hub:
        …  # HF_ENDPOINT=hub.url, HF_TOKEN=hf_secret, HF_HUB_DISABLE_XET=1
        hub.repositories["me/model"].files["config.json"]

Repositories are made, described and committed to; large files come by Git LFS, everything with ``.safetensors``
being large. Cards are looked at as the hub does: ``base_model`` must be the name of a model.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import yaml


@dataclass
class Repository:
    """One of the hub's, with the files of its last commit."""

    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


class HubServer:
    """See the head of this file. ``asked`` lists method and path of all that arrived."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                hub.asked.append((self.command, self.path))
                if self.headers.get("Authorization") == f"Bearer {hub.token}" or self.command == "PUT":
                    status, reply = hub.reply(self.command, self.path, body)
                else:
                    status, reply = 401, {"error": "Invalid username or password."}
                content = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """The status and the JSON of a reply."""
        if method == "PUT":
            digest = path.removeprefix("/large/")
            if hashlib.sha256(body).hexdigest() != digest:
                return 400, {"error": "not what was announced"}
            self.large[digest] = body
            return 200, {}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return self._look_at_card(json.loads(body)["content"])
        found = re.fullmatch(r"/(?:api/models/)?([^/]+/[^/]+?)(\.git/info/lfs/objects/batch|/.+)?", path)
        if not found or found[1] not in self.repositories:
            return 404, {"error": "Repository not found"}
        name, what = found[1], found[2]
        repository = self.repositories[name]
        if what is None:
            return 200, {"id": name, "private": repository.private, "tags": [], "downloads": 0, "likes": 0}
        if what == "/preupload/main":
            return 200, {"files": [_announced(one["path"]) for one in json.loads(body)["files"]]}
        if what == ".git/info/lfs/objects/batch":
            objects = json.loads(body)["objects"]
            for one in objects:
                one["actions"] = {"upload": {"href": f"{self.url}/large/{one['oid']}"}}
            return 200, {"transfer": "basic", "objects": objects}
        if what == "/commit/main":
            self._commit(repository, [json.loads(line) for line in body.splitlines()])
            number = f"{len(repository.messages):040x}"
            return 200, {
                "success": True,
                "commitOid": number,
                "commitUrl": f"{self.url}/{name}/commit/{number}",
            }
        return 404, {"error": f"{method} {path} is not known here"}

    def _create(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.repositories:
            return 409, {"error": "You already created this model repo", "url": f"{self.url}/{name}"}
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.repositories[name] = Repository(private)
        return 200, {"url": f"{self.url}/{name}"}

    def _look_at_card(self, content: str) -> tuple[int, dict[str, Any]]:
        header = yaml.safe_load(content.split("---")[1]) if content.startswith("---") else {}
        base = header.get("base_model", "a/b")
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", base):
            return 400, {
                "errors": [{"message": f'"base_model" with value "{base}" is not valid'}],
                "warnings": [],
            }
        return 200, {"errors": [], "warnings": []}

    def _commit(self, repository: Repository, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                repository.messages.append(value["summary"])
            elif line["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repository.files[value["path"]] = self.large[value["oid"]]


def _announced(path: str) -> dict[str, Any]:
    large = path.endswith(".safetensors")
    return {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False, "oid": None}
