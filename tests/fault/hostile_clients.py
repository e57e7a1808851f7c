"""Clients that keep a server busy, in a process of their own: `python -m tests.fault.hostile_clients HOST PORT`.

Each kind has its number of clients, from several addresses; a client that is cut off comes again. The process prints
`under way` when all of them have begun, and runs until it is killed.
"""

import itertools
import os
import resource
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from sexton.operations.fields import MAX_ITEMS_BYTES

TOKEN = "HOSTILE_TOKEN"
"""The variable of the environment with the clients' token."""
NUMBER = {"readers": 200, "uploads": 50, "silent": 2_000}
"""Those that need a handshake begin first: later they would wait behind the silent ones."""
SENDERS = [f"127.0.0.{n}" for n in range(2, 10)]
Client = tuple[Callable[..., None], tuple[object, ...]]
"""What a thread runs, with its arguments."""


class HostileClients:
    """The clients. ``begun`` counts the connections of each kind."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._server, self._token, self.begun = (host, port), token, Counter[str]()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def start(self, kind: str) -> None:
        """Start the clients of a kind."""
        for target, arguments in getattr(self, f"_{kind}")():
            threading.Thread(target=target, args=arguments, daemon=True).start()

    def _silent(self) -> list[Client]:
        """Hold connections, half of them with the beginning of a request."""

        def begin(connection: socket.socket) -> socket.socket:
            if self.begun["silent"] % 2:
                connection.sendall(b"GET /healthz HTT")
            return connection

        return [(self._hold, ("silent", begin))]

    def _readers(self) -> list[Client]:
        """Hold connections that ask for many answers and read none."""
        request = self._head("GET", "/v1/openapi.json") + b"\r\n"

        def begin(connection: socket.socket) -> socket.socket:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            secured = self._secured(connection)
            secured.sendall(request * 20)
            return secured

        return [(self._hold, ("readers", begin))]

    def _uploads(self) -> list[Client]:
        head = self._head("PUT", "/v1/instances/shop/protections/evil/chunks/0")
        head += b"Content-Type: application/json\r\n"
        requests = [head + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies()]
        senders, turns = itertools.cycle(SENDERS), itertools.cycle(requests)
        return [(self._upload, (next(senders), next(turns))) for _ in range(NUMBER["uploads"])]

    def _upload(self, sender: str, request: bytes) -> None:
        """Send a request, over and over."""
        while True:
            with suppress(OSError), self._connect(sender) as plain, self._secured(plain) as connection:
                self.begun["uploads"] += 1
                connection.sendall(request)
                while connection.recv(65_536):
                    pass

    def _hold(self, kind: str, begin: Callable[[socket.socket], socket.socket]) -> None:
        held: list[socket.socket] = []
        for sender in itertools.cycle(SENDERS):
            with suppress(OSError):
                held.append(begin(self._connect(sender)))
                self.begun[kind] += 1
            if len(held) >= NUMBER[kind]:
                time.sleep(0.05)
                held = [each for each in held if not _is_cut_off(each)]

    def _connect(self, sender: str) -> socket.socket:
        return socket.create_connection(self._server, timeout=5, source_address=(sender, 0))

    def _secured(self, connection: socket.socket) -> socket.socket:
        return self._context.wrap_socket(connection)

    def _head(self, method: str, path: str) -> bytes:
        host = f"{self._server[0]}:{self._server[1]}"
        return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {self._token}\r\n".encode()


def bodies() -> list[bytes]:
    """Return bodies of the largest size: one long text, many numbers, many objects, many names of fields."""
    room = MAX_ITEMS_BYTES - 64
    values = [b'"' + b"x" * room + b'"', b"[" + b"1," * (room // 2) + b"1]", b"[" + b"{}," * (room // 3) + b"1]"]
    values.append(b"{" + b",".join(b'"%07d":1' % n for n in range(room // 12)) + b"}")
    return [b'{"objects":' + value + b"}" for value in values]


def _is_cut_off(connection: socket.socket) -> bool:
    try:
        return not socket.socket.recv(connection, 1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def main(host: str, port: str) -> None:
    """Run the clients."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    clients = HostileClients(host, int(port), os.environ[TOKEN])
    for kind in NUMBER:
        clients.start(kind)
        while clients.begun[kind] < NUMBER[kind]:
            print(dict(clients.begun), flush=True)
            time.sleep(0.2)
    print("under way", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
