"""A collector of OpenTelemetry on loopback: it accepts traces as OTLP over HTTP, and keeps their spans."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    """One span, with the ids that connect it, its attributes and those of its resource."""

    name: str
    trace: bytes
    id: bytes
    parent: bytes
    attributes: dict[str, object]
    resource: dict[str, object]


@dataclass
class Collector:
    """What a collector received, and its URL."""

    url: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    def receive(self, path: str, body: bytes) -> None:
        """Keep the spans of one request."""
        self.paths.add(path)
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(group.resource.attributes)
            for scope in group.scope_spans:
                for span in scope.spans:
                    ids = (span.trace_id, span.span_id, span.parent_span_id)
                    self.spans.append(ReceivedSpan(span.name, *ids, _values(span.attributes), resource))


def _values(attributes: object) -> dict[str, object]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}  # type: ignore[attr-defined]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector until the block ends."""
    import gzip

    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            collector.receive(self.path, gzip.decompress(body) if self.headers.get("Content-Encoding") else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield collector
    server.shutdown()
    server.server_close()
