"""A store on loopback whose answers a test writes, byte by byte; it keeps connections, and can stand behind a proxy.

Asked to connect to a host, as a proxy is, it answers as that host does, with TLS.
"""

import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.client import parse_headers
from typing import NamedTuple

from tests.servers.certificate import Certificate

PAGE = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
DELETED = b"<DeleteResult/>"


class Sent(NamedTuple):
    """A request as the store received it."""

    method: str
    target: str
    headers: Message
    body: bytes
    connection: int
    """Which of the connections it came over, from 1 on."""

    @property
    def is_of_boto3(self) -> bool:
        return "amz-sdk-invocation-id" in self.headers


class Last(bytes):
    """An answer after which the connection is closed."""


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """Return an answer as it is sent."""
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers))
    return f"{head}\r\n".encode() + body


def usual(sent: Sent) -> bytes:
    """Answer as a store without objects does."""
    return answer(DELETED if sent.method == "POST" else PAGE)


class ScriptedStore:
    """What it received, and how it answers: with the next of ``answers``, else with ``usual``."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.answers: list[bytes | Callable[[Sent], bytes]] = []
        self.usual: bytes | Callable[[Sent], bytes] = usual
        self.connections = 0
        self.connected: list[str] = []
        """The hosts to which it was asked to connect."""
        self.url = ""

    def reply(self, sent: Sent) -> bytes:
        self.sent.append(sent)
        reply = self.answers.pop(0) if self.answers else self.usual
        return reply(sent) if callable(reply) else reply


@contextmanager
def scripted_store(files: Certificate | None = None) -> Iterator[ScriptedStore]:
    """Serve until the block ends; ``files``: with which it answers as a host to which it was asked to connect."""
    store = ScriptedStore()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            store.connections += 1
            number = store.connections
            while line := self.rfile.readline().decode():
                method, target, _ = line.split()
                headers = parse_headers(self.rfile)
                if method == "CONNECT":
                    store.connected.append(target)
                    self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    self.use_tls()
                    continue
                body = self.rfile.read(int(headers.get("Content-Length", "0")))
                reply = store.reply(Sent(method, target, headers, body, number))
                self.wfile.write(reply)
                if isinstance(reply, Last):
                    return

        def use_tls(self) -> None:
            assert files is not None
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.cert, files.key)
            self.request = context.wrap_socket(self.request, server_side=True)
            self.setup()

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address, daemon_threads = True, True

    with Server(("127.0.0.1", 0), Handler) as server:
        store.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield store
        server.shutdown()
