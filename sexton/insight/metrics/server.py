"""Answer ``GET /metrics``, ``/livez`` and ``/readyz`` of one worker, from daemon threads.

A failure here does not stop the worker.
"""

import errno
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from sexton.insight.health import Health, ProbeAnswer

log = logging.getLogger(__name__)

Respond = Callable[..., Any]
"""``start_response`` of WSGI."""
MAX_CONNECTIONS = 50
"""Connections at a time, each with a thread. One more closes the oldest: an answer takes milliseconds to seconds."""
PORTS = 20
"""So many are tried, from that of the setting on: a machine may have several workers."""
SILENCE_SECONDS = 10
"""A connection that sends nothing for so long is closed."""


class _Server(ThreadingMixIn, WSGIServer):
    """Serves at most ``MAX_CONNECTIONS``: anyone who reaches the port may open some."""

    daemon_threads = True
    allow_reuse_port = False  # a later Python's default would let two workers share a port
    request_queue_size = 128

    def __init__(self, *given: Any) -> None:
        self._open: dict[socket.socket, None] = {}
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._open) >= MAX_CONNECTIONS and (oldest := next(iter(tuple(self._open)), None)) is not None:
            self._open.pop(oldest, None)
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its thread ends
        self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: Any) -> None:
        """Log no traceback: the caller went away, or was silent."""
        log.debug("a request to the metrics was not answered", exc_info=True)


class _ServerOfIPv6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_SECONDS

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def serve(listen: str, registry: CollectorRegistry, health: Health) -> WSGIServer | None:
    """Serve a registry and the health on ``listen``, a ``host:port``, or the next free port; nothing if it is empty.

    Where it cannot listen, log the remedy and return None: the worker works without metrics.
    """
    if not listen:
        return None
    shown_host, _, port = listen.rpartition(":")
    host, first = shown_host.strip("[]"), int(port)
    try:
        family = socket.getaddrinfo(host, first, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        server_class = _ServerOfIPv6 if family == socket.AF_INET6 else _Server
        for number in range(first, first + PORTS):
            try:
                server = make_server(host, number, _application(registry, health), server_class, _Handler)
                break
            except OSError as e:
                if e.errno != errno.EADDRINUSE or number == first + PORTS - 1:
                    raise
    except (OSError, OverflowError) as e:
        log.warning(
            "no metrics and no health: cannot listen on %s (%s); the worker continues without; to have them, set "
            "SEXTON_METRICS__LISTEN=HOST:PORT",
            listen,
            e,
        )
        return None
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    if 0 < first != server.server_port:
        log.warning("%s is in use; the next free port is %d", listen, server.server_port)
    log.info("metrics at http://%s:%d/metrics", shown_host, server.server_port)
    return server


def _application(registry: CollectorRegistry, health: Health) -> Callable[[dict[str, Any], Respond], Iterable[bytes]]:
    """Return the WSGI application. Any other path is answered with 404."""
    metrics = make_wsgi_app(registry)
    probes: dict[str, Callable[[], ProbeAnswer]] = {"/livez": health.livez, "/readyz": health.readyz}

    def answer(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == "/metrics":
            # A selection of names (`name[]`) would leave out the label of the deployment.
            output: Iterable[bytes] = metrics({**environ, "QUERY_STRING": ""}, respond)
            return output
        status = "404 Not Found"
        body: dict[str, object] = {"status": "not found"}
        if path in probes and method in ("GET", "HEAD"):
            result = probes[path]()
            status, body = "503 Service Unavailable" if result.failed else "200 OK", result.body
        respond(status, [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
        return [b"" if method == "HEAD" else json.dumps(body).encode() + b"\n"]

    return answer
