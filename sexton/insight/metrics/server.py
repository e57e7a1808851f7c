"""Answer ``GET /metrics`` of one worker, from daemon threads. A failure here does not stop the worker."""

import logging
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server

from sexton.insight.metrics.collector import FigureCollector
from sexton.insight.metrics.families.doris import InFlight
from sexton.insight.metrics.figures.store import FigureStore
from sexton.insight.metrics.port import MetricsListener
from sexton.insight.metrics.registry import DeploymentRegistry

log = logging.getLogger(__name__)


def start(deployment: str, settings: MetricsListener, figures: FigureStore, in_flight: InFlight) -> WSGIServer | None:
    """Serve a worker's metrics as its settings say; ``in_flight``: the pages that its deleter has under way."""
    collector = FigureCollector(figures.read, in_flight, stats=settings.enable_recycler_stats_metrics)
    return serve(settings.listen, DeploymentRegistry(deployment, collector))


def serve(listen: str, registry: CollectorRegistry) -> WSGIServer | None:
    """Serve the metrics of a registry on ``listen``, a ``host:port``; do nothing where it is empty.

    Where the port is taken, log the remedy and return None: the worker works without metrics.
    """
    if not listen:
        return None
    host, _, port = listen.rpartition(":")
    try:
        server, _ = start_http_server(int(port), host.strip("[]"), registry)
    except (OSError, OverflowError) as e:
        log.error(
            "no metrics: cannot listen on %s (%s); the worker continues without; set SEXTON_METRICS__LISTEN to a free "
            "HOST:PORT, one for each worker of a machine, and restart it",
            listen,
            e,
        )
        return None
    log.info("metrics at http://%s/metrics", listen)
    return server
