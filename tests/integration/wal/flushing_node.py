"""A node that takes requests to flush, over HTTP."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.servers.certificate import Certificate

FlushedRegions = list[tuple[str, str]]


@contextmanager
def flushing_node(flush: Callable[[FlushedRegions], int], tls: Certificate | None = None) -> Iterator[str]:
    """Serve on loopback and yield the URL; ``flush`` gets topics and regions, and returns the status of the answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/regions/flush"
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(flush([(r["topic"], r["region"]) for r in body["regions"]]))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.cert, tls.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
