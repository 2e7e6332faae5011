"""Has a program run by the server, with the streams, folder and environment of this process."""

import array
import json
import os
import signal
import socket
import sys


def main() -> None:
    address, *program = sys.argv[1:]
    request = json.dumps(
        {"program": program, "folder": os.getcwd(), "environment": dict(os.environ)}
    ).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    connection.sendmsg([len(request).to_bytes(4, "big")], streams)
    connection.sendall(request)

    def pass_on(number: int, _: object) -> None:
        connection.sendall(bytes([number]))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    reply = connection.recv(4)
    status = int.from_bytes(reply, "big", signed=True) if reply else 1
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
