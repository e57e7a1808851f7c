"""A store that fails on request: an HTTP proxy in front of a real S3 server.

It returns the server's answers, except for programmed faults. The Host header is unchanged, so that requests signed for
the proxy are valid upstream.
"""

import http.client
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from mypy_boto3_s3 import S3Client

from tests.servers.s3 import client
from tests.support.eventually import PATIENCE_SECONDS

FOREVER = 2**62
_NS = "http://s3.amazonaws.com/doc/2006-03-01/"
_QUERY_OPERATIONS = {
    ("POST", "delete"): "DeleteObjects",
    ("GET", "list-type"): "ListObjectsV2",
    ("GET", "versioning"): "GetBucketVersioning",
    ("PUT", "versioning"): "PutBucketVersioning",
    ("GET", "lifecycle"): "GetBucketLifecycleConfiguration",
    ("GET", "object-lock"): "GetObjectLockConfiguration",
    ("GET", "versions"): "ListObjectVersions",
    ("GET", "uploads"): "ListMultipartUploads",
}
_PROBE = "_sexton/probe/"
_VERBS = {"GET": "Get", "PUT": "Put", "HEAD": "Head", "DELETE": "Delete", "POST": "Post"}


@dataclass(frozen=True)
class Entry:
    """One received request, with the status of its answer (0: connection reset)."""

    time: float
    method: str
    path: str
    operation: str
    keys: tuple[str, ...]
    status: int


@dataclass
class _Fault:
    kind: Literal["fail", "reset", "truncate", "answer"]
    left: int
    status: int = 0
    code: str = ""
    after: bool = False
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class FaultProxy:
    """The proxy; use it as a context manager. Faults are programmed by operation name, e.g. ``DeleteObjects``."""

    def __init__(self, upstream_url: str, access_key: str, secret_key: str) -> None:
        self.upstream = urlsplit(upstream_url).netloc
        self.client: S3Client = client(upstream_url, access_key, secret_key)
        self._lock = threading.Lock()
        self._log: list[Entry] = []
        self._faults: defaultdict[str, deque[_Fault]] = defaultdict(deque)
        self._keys: dict[str, tuple[str, int]] = {}
        self._delays: dict[str, float] = {}
        self.fails_about: dict[str, int] = {}
        """Part of a path or key → the status of every request about it; 0: its connection is reset."""
        self.ignores_etags: frozenset[str] = frozenset()
        """The operations of `DeleteObject` and `DeleteObjects` that ignore ETag conditions, as in some stores."""
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads, self._server.block_on_close = True, False
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def log(self) -> list[Entry]:
        """Return every request so far, oldest first, without the probes of a vault that is added."""
        with self._lock:
            return [entry for entry in self._log if not any(_PROBE in at for at in (unquote(entry.path), *entry.keys))]

    def fail_keys(self, codes: dict[str, str], times: int | None = None) -> None:
        """Answer DeleteObjects with these error codes for these keys, which then stay, in the next `times` requests."""
        with self._lock:
            self._keys |= {key: (code, FOREVER if times is None else times) for key, code in codes.items()}

    def faults_left(self, operation: str) -> int:
        """Return how many programmed faults have not been used yet."""
        with self._lock:
            return sum(fault.left for fault in self._faults[operation])

    def fail_next(self, operation: str, status: int, code: str, times: int = 1, *, retry_after: str = "") -> None:
        """Refuse the next requests as a whole; upstream does not see them."""
        headers = (("Retry-After", retry_after),) if retry_after else ()
        self._add(operation, _Fault("fail", times, status, code, headers=headers))

    def reset_next(self, operation: str, times: int = 1, *, after: bool = False) -> None:
        """Reset the connection, before upstream sees the request or after it has done it."""
        self._add(operation, _Fault("reset", times, after=after))

    def truncate_next(self, operation: str, times: int = 1) -> None:
        """Do the request, then send half of the reply's body and close."""
        self._add(operation, _Fault("truncate", times))

    def empty_next(self, operation: str, times: int = 1) -> None:
        """Answer 200 without a body; upstream does not see the request."""
        self.answer_next(operation, b"", times)

    def answer_next(self, operation: str, body: bytes, times: int = 1) -> None:
        """Answer 200 with this body; upstream does not see the request."""
        self._add(operation, _Fault("answer", times, body=body))

    def delay(self, operation: str, seconds: float) -> None:
        """Wait before each request of this kind, until set to 0."""
        with self._lock:
            self._delays[operation] = seconds

    def _add(self, operation: str, fault: _Fault) -> None:
        with self._lock:
            self._faults[operation].append(fault)

    def take(self, operation: str) -> tuple[float, _Fault | None]:
        """For the handler: how long to wait, and the fault of this request if any."""
        with self._lock:
            queue = self._faults[operation]
            fault = queue[0] if queue else None
            if fault is not None:
                fault.left -= 1
                if fault.left <= 0:
                    queue.popleft()
            return self._delays.get(operation, 0.0), fault

    def take_keys(self, keys: Sequence[str]) -> dict[str, str]:
        """For the handler: the error code of each of these keys that is to fail in this request."""
        with self._lock:
            hit = {key: self._keys[key] for key in keys if key in self._keys and self._keys[key][1] > 0}
            self._keys |= {key: (code, left - 1) for key, (code, left) in hit.items()}
            return {key: code for key, (code, _) in hit.items()}

    def record(self, entry: Entry) -> None:
        with self._lock:
            self._log.append(entry)


class _Handler(BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True
    _upstream: http.client.HTTPConnection | None = None
    _entry: Entry

    def _serve(self) -> None:
        started = time.monotonic()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        operation = _operation(self.command, self.path)
        objects, quiet = _delete_request(body) if operation == "DeleteObjects" else ([], False)
        delay, fault = self.proxy.take(operation)
        time.sleep(delay)
        if operation in self.proxy.ignores_etags:
            objects = [{name: value for name, value in o.items() if name != "ETag"} for o in objects]
        keys = tuple(str(o["Key"]) for o in objects)
        self._entry = Entry(started, self.command, self.path, operation, keys, 0)
        for text, status in self.proxy.fails_about.items():
            if any(text in about for about in (unquote(self.path), *keys)):
                fault = _Fault("fail", 1, status, "InternalError") if status else _Fault("reset", 1)
        self._answer(operation, fault, body, objects, quiet)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

    def _answer(
        self, operation: str, fault: _Fault | None, body: bytes, objects: list[dict[str, Any]], quiet: bool
    ) -> None:
        if fault is not None and fault.kind == "fail":
            self._reply(fault.status, _error_xml(fault.code), fault.headers)
            return
        if fault is not None and fault.kind == "answer":
            self._reply(200, fault.body)
            return
        if fault is not None and fault.kind == "reset" and not fault.after:
            self._reset()
            return
        failing = self.proxy.take_keys([str(o["Key"]) for o in objects])
        deaf = operation in self.proxy.ignores_etags
        if deaf and operation == "DeleteObject" and self.headers.get("If-Match"):
            bucket, key = unquote(urlsplit(self.path).path).strip("/").split("/", 1)
            self.proxy.client.delete_object(Bucket=bucket, Key=key)
            self._reply(204, b"")
            return
        if failing or (deaf and objects):
            reply = self._delete_rest(objects, quiet, failing)
            status, headers, content = 200, [("Content-Type", "application/xml")], reply
        else:
            status, headers, content = self._forward(body)
        if fault is not None and fault.kind == "reset":
            self._reset()
            return
        self._reply(status, content, headers, cut=fault is not None and fault.kind == "truncate")

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        for connection in (self._upstream, None):  # a kept connection may have been closed meanwhile
            fresh = connection is None
            connection = connection or http.client.HTTPConnection(self.proxy.upstream, timeout=PATIENCE_SECONDS)
            try:
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("connection", "expect"):
                        connection.putheader(name, value)
                connection.endheaders(body or None)
                reply = connection.getresponse()
                content = reply.read()
            except (http.client.HTTPException, ConnectionError):
                connection.close()
                if fresh:
                    raise
                continue
            self._upstream = connection
            dropped = ("connection", "transfer-encoding", "keep-alive") + (
                () if self.command == "HEAD" else ("content-length",)
            )
            return reply.status, [(n, v) for n, v in reply.getheaders() if n.lower() not in dropped], content
        raise AssertionError("the second attempt returns or raises")

    def _delete_rest(self, objects: list[dict[str, Any]], quiet: bool, failing: dict[str, str]) -> bytes:
        """Delete what is not to fail, and tell of both in one reply."""
        rest = [o for o in objects if o["Key"] not in failing]
        bucket = unquote(urlsplit(self.path).path).strip("/")
        deleted, errors = [], [(key, code, "asked for by the test") for key, code in failing.items()]
        if rest:
            reply = self.proxy.client.delete_objects(Bucket=bucket, Delete={"Objects": rest, "Quiet": False})  # type: ignore[typeddict-item]
            deleted = [d["Key"] for d in reply.get("Deleted", ())]
            errors += [(e["Key"], e["Code"], e["Message"]) for e in reply.get("Errors", ())]
        entries = [] if quiet else [f"<Deleted><Key>{_text(key)}</Key></Deleted>" for key in deleted]
        entries += [
            f"<Error><Key>{_text(key)}</Key><Code>{code}</Code><Message>{_text(message)}</Message></Error>"
            for key, code, message in errors
        ]
        return f'<?xml version="1.0"?>\n<DeleteResult xmlns="{_NS}">{"".join(entries)}</DeleteResult>'.encode()

    def _reply(self, status: int, body: bytes, headers: Sequence[tuple[str, str]] = (), *, cut: bool = False) -> None:
        # Before the client knows: it may ask for the log as soon as it has its answer.
        self.proxy.record(replace(self._entry, status=status))
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers) and status != 204:
            self.send_header("Content-Length", str(len(body)))
        if cut:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)

    def _reset(self) -> None:
        self.proxy.record(self._entry)
        # Linger of 0 s makes close() send RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RD)
        self.connection.close()

    def finish(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the proxy's log is an attribute."""


def _operation(method: str, target: str) -> str:
    parts = urlsplit(target)
    for name in parse_qs(parts.query, keep_blank_values=True):
        if (method, name) in _QUERY_OPERATIONS:
            return _QUERY_OPERATIONS[method, name]
    is_object = "/" in parts.path.strip("/") or (parts.path.count("/") == 2 and not parts.path.endswith("/"))
    if not is_object and method == "PUT":
        return "CreateBucket"
    return _VERBS.get(method, method) + ("Object" if is_object else "Bucket")


def _delete_request(body: bytes) -> tuple[list[dict[str, Any]], bool]:
    root = ElementTree.fromstring(body)
    named = [{child.tag.rpartition("}")[2]: child.text or "" for child in node} for node in root.findall("{*}Object")]
    return named, root.findtext("{*}Quiet", "").lower() == "true"


def _error_xml(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>asked for by the test</Message></Error>".encode()


def _text(value: str) -> str:
    return escape(value, {"\r": "&#xD;"})
