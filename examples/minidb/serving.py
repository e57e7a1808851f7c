"""A node's small HTTP server: with ``POST /v1/regions/flush`` Sexton asks regions that block a purge to flush."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from examples.minidb.node import Node
from sexton.client import SIGNATURE_HEADER, is_signed

PATH = "/v1/regions/flush"
MAX_BODY_BYTES = 1 << 20


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    """Closing the server waits for flushes that have begun."""


@contextmanager
def serving(node: Node, secret: str = "") -> Iterator[str]:
    """Serve on a free port of this machine, put the address into the node's heartbeats, and yield it.

    ``secret``: ``wal.flush_secret`` of Sexton's settings; a request that is not signed with it is refused. Empty: no
    request is refused.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            if self.path != PATH or not 0 < size <= MAX_BODY_BYTES:
                self.send_error(404 if self.path != PATH else 413)
                return
            body, signature = self.rfile.read(size), self.headers.get(SIGNATURE_HEADER, "")
            if secret and not is_signed(secret, signature, self.path, body, time.time()):
                self.send_error(403)
                return
            regions = sorted({region["region"] for region in json.loads(body)["regions"]})
            # Accepted, not done: a flush takes a while. The next heartbeat reports that it is done.
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            node.flush(*regions)  # in the thread of this request, which is answered
            node.heartbeat()  # at once: Sexton waits for it

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    node.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield node.url
    finally:
        node.url = ""
        server.shutdown()
        thread.join()
        server.server_close()
