"""Answer ``GET /metrics`` of one worker, from daemon threads. Metrics never keep a worker from its work."""

import logging
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from sexton.insight.metrics.collector import FigureCollector
from sexton.insight.metrics.families.doris import InFlight
from sexton.insight.metrics.figures.store import FigureStore
from sexton.insight.metrics.port import MetricsListener

log = logging.getLogger(__name__)


def start(wanted: MetricsListener, figures: FigureStore, in_flight: InFlight) -> WSGIServer | None:
    """Serve a worker's metrics as its settings want it; ``in_flight`` is that of its ``Sweeper``."""
    return serve(wanted.listen, FigureCollector(figures.read, in_flight, stats=wanted.enable_recycler_stats_metrics))


def serve(listen: str, collector: FigureCollector) -> WSGIServer | None:
    """Serve the collector's metrics and those of the process on ``host:port``; nothing where ``listen`` is empty.

    Where nothing can listen there the log says what to do, and None is returned: the worker works all the same.
    """
    if not listen:
        return None
    host, _, port = listen.rpartition(":")
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(collector)
    try:
        server, _ = start_http_server(int(port), host.strip("[]"), registry)
    except (OSError, OverflowError) as e:
        log.error(
            "no metrics: cannot listen on %s (%s); the worker goes on without; set SEXTON_METRICS__LISTEN to a free "
            "HOST:PORT, one for each worker of a machine, and restart it",
            listen,
            e,
        )
        return None
    log.info("metrics at http://%s/metrics", listen)
    return server
