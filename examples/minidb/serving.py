"""A node's small HTTP server: ``POST /v1/regions/flush``, by which Sexton asks regions that hold a topic to flush."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from examples.minidb.node import Node

PATH = "/v1/regions/flush"
MOST_BYTES = 1 << 20


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    """A flush that has begun is waited for when the server closes."""


@contextmanager
def serving(node: Node) -> Iterator[str]:
    """Take requests on a free port of this machine, and name it in the node's heartbeats; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            if self.path != PATH or not 0 < size <= MOST_BYTES:
                self.send_error(404 if self.path != PATH else 413)
                return
            wanted = sorted({its["region"] for its in json.loads(self.rfile.read(size))["regions"]})
            # "I will", not "I have": a flush takes its time. That it is done a heartbeat says.
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            node.flush(*wanted)  # in the thread of this request, which is answered
            node.beat()  # now: somebody waits for it

        def log_message(self, *_: object) -> None:
            """Say nothing."""

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
