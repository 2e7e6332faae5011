"""Imports modules, then runs the programs that clients ask for, each in a fork of this process.

Ends when its standard input does, which is held by the process that started it.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn


def serve(address: str, modules: list[str]) -> None:
    for name in modules:
        with suppress(ImportError):  # not installed: whoever needs it will say so
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else every fork would copy all of it at its first collection
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    os.write(1, b"ready\n")
    while True:
        # The processes that look after a program are children, too.
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        ready, _, _ = select.select([listener, 0], [], [], 5)
        if 0 in ready:
            break
        if listener in ready:
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                if (request := receive(connection)) is not None:
                    run(*request)
            connection.close()
    os.unlink(address)
    os.rmdir(os.path.dirname(address))


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The request and the streams, in the process that is to be the program; another looks after it."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    size, body = int.from_bytes(head, "big"), b""
    while len(body) < size:
        part = connection.recv(size - len(body))
        if not part:  # the client is gone
            os._exit(1)
        body += part
    if not (program := os.fork()):
        connection.close()
        return json.loads(body), streams
    for stream in streams:
        os.close(stream)

    def pass_on() -> None:
        while number := connection.recv(1):
            with suppress(ProcessLookupError):
                os.kill(program, number[0])
        with suppress(ProcessLookupError):
            os.kill(program, signal.SIGKILL)

    threading.Thread(target=pass_on, daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with suppress(OSError):
        connection.sendall(status.to_bytes(4, "big", signed=True))
    os._exit(0)


def run(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the program, up to its end: without taking down what was imported, which takes longer than it."""
    try:
        begin(request, streams)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):  # closed, or nobody reads
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)


def begin(request: dict[str, Any], streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    kind, program, *arguments = request["program"]
    if kind == "-m":
        sys.argv = [program, *arguments]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *arguments]
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    sys.path[0] = ""  # as of a program given by its module or its code
    serve(sys.argv[1], sys.argv[2:])
