"""A store that only deletes, with a limit of keys a second in each first folder. It runs in its own process.

It stores no objects (S3 answers a missing key as a deleted one) and counts accepted and refused requests. Each folder
has a token bucket; a request for more keys is refused as a whole, as S3 does: 503 SlowDown.
"""

import multiprocessing
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Self

_KEY = re.compile(rb"<Key>([^<]*)</Key>")
_REPLIES = {
    "delete": b'<?xml version="1.0"?>\n<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></DeleteResult>',
    "versioning": b'<?xml version="1.0"?>\n<VersioningConfiguration/>',
}
_SLOW_DOWN = (
    b'<?xml version="1.0"?>\n<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'
)


@dataclass
class Counts:
    """Requests accepted and refused, and keys deleted by first folder."""

    taken: int
    refused: int
    keys: dict[str, int]


class LimitedS3:
    """The store; use it as a context manager."""

    def __init__(self, keys_per_second: float, burst_seconds: float = 1.0, latency_seconds: float = 0.02) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        arguments = (theirs, keys_per_second, burst_seconds, latency_seconds)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        self.url = f"http://127.0.0.1:{self._ours.recv()}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    def counts(self) -> Counts:
        """Return the counts since the last call."""
        self._ours.send("counts")
        counts: Counts = self._ours.recv()
        return counts


def _serve(pipe: Connection, keys_per_second: float, burst_seconds: float, latency_seconds: float) -> None:
    limits = _Limits(keys_per_second, burst_seconds)
    handler = type("Handler", (_Handler,), {"limits": limits, "latency_seconds": latency_seconds})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(server.server_address[1])
    while pipe.recv():
        pipe.send(limits.counts())


class _Limits:
    def __init__(self, keys_per_second: float, burst_seconds: float) -> None:
        self._rate, self._burst = keys_per_second, max(1_000.0, keys_per_second * burst_seconds)
        self._left: dict[str, tuple[float, float]] = {}
        self._taken = self._refused = 0
        self._keys: Counter[str] = Counter()
        self._lock = threading.Lock()

    def admit(self, folders: Counter[str]) -> bool:
        with self._lock:
            now = time.monotonic()
            left = {}
            for folder in folders:
                had, at = self._left.get(folder, (self._burst, now))
                left[folder] = min(self._burst, had + self._rate * (now - at))
            admitted = all(left[folder] >= keys for folder, keys in folders.items())
            for folder, keys in folders.items():
                self._left[folder] = (left[folder] - keys * admitted, now)
            self._taken, self._refused = self._taken + admitted, self._refused + (not admitted)
            if admitted:
                self._keys += folders
            return admitted

    def counts(self) -> Counts:
        with self._lock:
            counts = Counts(self._taken, self._refused, dict(self._keys))
            self._taken = self._refused = 0
            self._keys = Counter()
        return counts


class _Handler(BaseHTTPRequestHandler):
    limits: _Limits
    latency_seconds: float
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        folders = Counter(key.split(b"/", 1)[0].decode() for key in _KEY.findall(body))
        admitted = self.limits.admit(folders)
        if admitted:
            time.sleep(self.latency_seconds)
        self._reply(200 if admitted else 503, _REPLIES["delete"] if admitted else _SLOW_DOWN)

    def do_GET(self) -> None:
        self._reply(200, _REPLIES["versioning"])

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
