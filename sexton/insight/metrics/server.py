"""Answer ``GET /metrics``, ``/livez`` and ``/readyz`` of one worker, from daemon threads.

A failure here does not stop the worker.
"""

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server

from sexton.insight.health import Health, ProbeAnswer

log = logging.getLogger(__name__)

Respond = Callable[..., Any]
"""``start_response`` of WSGI."""


def serve(listen: str, registry: CollectorRegistry, health: Health) -> WSGIServer | None:
    """Serve a registry and the health on ``listen``, a ``host:port``; do nothing where it is empty.

    Where the port is taken, log the remedy and return None: the worker works without metrics.
    """
    if not listen:
        return None
    host, _, port = listen.rpartition(":")
    try:
        server, _ = start_http_server(int(port), host.strip("[]"), registry)
    except (OSError, OverflowError) as e:
        log.warning(
            "no metrics and no health: cannot listen on %s (%s); the worker continues without; to have them, give each "
            "worker of a machine its own SEXTON_METRICS__LISTEN=HOST:PORT",
            listen,
            e,
        )
        return None
    server.set_app(_application(registry, health))
    log.info("metrics at http://%s/metrics", listen)
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
