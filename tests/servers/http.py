"""An HTTP server on loopback whose answers a test makes."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tests.servers.certificate import Certificate


class Asked(NamedTuple):
    """A request; ``path``: with its query."""

    method: str
    path: str
    headers: HTTPMessage
    body: bytes


@contextmanager
def answering(answer: Callable[[Asked], tuple[int, bytes] | None], tls: Certificate | None = None) -> Iterator[str]:
    """Serve until the block ends; yield the URL.

    Args:
        answer: returns the status and the body of an answer; None: the connection is closed without one.
        tls: the certificate of the server; None: it speaks HTTP.
    """

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answered = answer(Asked(self.command, self.path, self.headers, body))
            if answered is None:
                self.connection.close()
                return
            status, content = answered
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.cert, tls.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
