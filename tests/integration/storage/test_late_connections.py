"""A delete is not sent over a connection that took too long to make: its lease may be another worker's by then."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sexton.kernel.trust import Trust
from sexton.storage.model import KeyOutcome, VaultSpec
from sexton.storage.port import VaultFault
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import Results, Target, delete

BACKLOG = 4
"""Connections after which a socket that accepts none answers no more."""
Delete = Callable[[int], Results]


class Store(BaseHTTPRequestHandler):
    """Answers DeleteObjects without failures."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'<?xml version="1.0"?><DeleteResult></DeleteResult>'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def delete_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Delete]:
    """Delete an object of a store at whose name so many addresses drop packets before one answers."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    look_up = socket.getaddrinfo
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with ExitStack() as sockets:

        def delete_with(silent: int) -> Results:
            hosts = [f"127.0.0.{n}" for n in range(2, 2 + silent)]
            for host in hosts:
                listening = sockets.enter_context(socket.socket())
                listening.bind((host, port))
                listening.listen(0)
                for _ in range(BACKLOG):
                    waiting = sockets.enter_context(socket.socket())
                    waiting.setblocking(False)
                    waiting.connect_ex((host, port))
            addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in [*hosts, "127.0.0.1"]]
            monkeypatch.setattr(
                socket, "getaddrinfo", lambda host, *rest: addresses if host == "store.test" else look_up(host, *rest)
            )
            spec = VaultSpec(instance="shop", name="cold", kind="s3", location=f"bucket-{silent}")
            return delete(
                S3Bucket(spec, f"http://store.test:{port}", trust=Trust(insecure_http=True)), [Target("a.dat")]
            )

        yield delete_with
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("silent", [0, 1])
def test_a_silent_address_is_passed_over(delete_at: Delete, silent: int) -> None:
    [result] = delete_at(silent).values()

    assert result.outcome is KeyOutcome.DELETED


@pytest.mark.slow
def test_after_two_silent_addresses_no_delete_is_sent(delete_at: Delete, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[str] = []
    monkeypatch.setattr(Store, "do_POST", lambda request: received.append(request.path))
    with pytest.raises(VaultFault, match="Connect timeout"):
        delete_at(2)

    assert received == []
