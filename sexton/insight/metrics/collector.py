"""The registry of a process, and what it exports: the figures, and the connections to the database.

A scrape never fails: unknown figures are left out and counted.
"""

import importlib.metadata
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine, QueuePool

from sexton.insight.metrics.families import doris, engine
from sexton.insight.metrics.model import Figures
from sexton.kernel.errors import SextonError

log = logging.getLogger(__name__)

CACHE_SECONDS = 1.0
"""Scrapes within this time are answered from the same figures; only what moves with each page is read again."""
CACHE_READS = 4
"""Figures that took long to read are reused for so many times as long: scrapes read a fifth of the time at most."""
NO_FIGURES = Figures(now=0)


class FigureCollector(Collector):
    """All metrics of a process. It may be scraped concurrently: one scrape reads, the others wait for it."""

    def __init__(
        self,
        read: Callable[[], Figures | None],
        in_flight: doris.InFlight | None,
        *,
        update: Callable[[Figures], Figures] = lambda figures: figures,
        stats: bool = True,
        per_instance: bool = True,
        cache_seconds: float = CACHE_SECONDS,
    ) -> None:
        """Store the source of the figures; it returns None while another process exports those of the database.

        ``update`` returns figures with what moves while a round runs as of this moment; by default none moves.
        ``in_flight``: None: the API must not look like a worker, and never exports the seed's ``recycler_…``; ``stats``
        says whether a worker does (``enable_recycler_stats_metrics``). ``per_instance``: whether each instance has
        samples of its own; else a sample is of all of them. ``cache_seconds``: how long figures are reused at least; 0:
        each scrape reads.
        """
        self._read = read
        self._update = update
        self._in_flight = in_flight if stats else None
        self._up_name = "sexton_up" if in_flight is not None else "sexton_api_up"
        self._per_instance = per_instance
        self._cache_seconds = cache_seconds
        self._lock = threading.Lock()
        self._reused_until = float("-inf")
        self._figures: Figures | None = None
        self._errors = 0
        self._up = True

    def collect(self) -> Iterator[Metric]:
        """Yield every family; while the database is unreadable, only the process' own, as old ages would mislead."""
        with self._lock:
            if (began := time.monotonic()) >= self._reused_until:
                self._set(self._read)
                self._errors += self._figures.unreadable if self._figures is not None else 0
                ended = time.monotonic()
                reuse = max(self._cache_seconds, CACHE_READS * (ended - began)) if self._cache_seconds else 0.0
                self._reused_until = ended + reuse
            elif self._figures is not None:
                self._set(partial(self._update, self._figures))
            figures, up, errors = self._figures, self._up, self._errors
        yield from _process(self._up_name, up, errors)
        if up:
            yield from self._families(figures)

    def describe(self) -> Iterator[Metric]:
        """Yield every family without samples: the registry needs their names before the database is read."""
        yield from _process(self._up_name, False, 0)
        yield from self._families(NO_FIGURES)

    def _families(self, figures: Figures | None) -> Iterator[Metric]:
        parts = [] if figures is None else [engine.families(figures)]
        if self._in_flight is not None:
            parts.append(iter([doris.concurrency(figures.instances if figures else (), self._in_flight)]))
            parts += [] if figures is None else [doris.families(figures)]
        yield from (family.metric(self._per_instance) for family in chain(*parts))

    def _set(self, read: Callable[[], Figures | None]) -> None:
        self._figures, was_up, self._up = None, self._up, False
        try:
            self._figures = read()
            self._up = True
        except SextonError as e:
            if was_up:  # once, not at each scrape
                log.error("%s", e)
        except Exception:
            log.exception("a scrape failed with an unexpected error; the worker continues")
        self._errors += not self._up


def _process(name: str, up: bool, errors: int) -> Iterator[Metric]:
    yield GaugeMetricFamily(name, "1 if this process could read its database for this scrape.", value=up)
    text = "Failed reads of the database, a stored report or the sizes of tables, since this process started."
    yield CounterMetricFamily("sexton_scrape_errors", text, value=errors)
    build = GaugeMetricFamily("sexton_build_info", "1, with the version of this process.", labels=["version"])
    build.add_metric([importlib.metadata.version("sexton")], 1)
    yield build


class DeploymentRegistry(CollectorRegistry):
    """Exports collectors and the process' own metrics; every sample has the label ``deployment``.

    One Prometheus may scrape several deployments, whose instances may have the same names.
    """

    def __init__(self, deployment: str, *collectors: Collector) -> None:
        super().__init__()
        self._labels = {"deployment": deployment}
        ProcessCollector(registry=self)
        for collector in collectors:
            self.register(collector)

    def collect(self) -> Iterable[Metric]:
        """Yield the families of all collectors."""
        for family in super().collect():
            family.samples = [s._replace(labels=self._labels | s.labels) for s in family.samples]
            yield family


class PoolCollector(Collector):
    """The connection pool of an engine: how many connections are in use. A thread that finds none waits for one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield the connections by state, and their maximum."""
        text = "Connections to the database that this process has open: used by a thread, or idle."
        connections = GaugeMetricFamily("sexton_database_connections", text, labels=["state"])
        text = "Connections that this process may open at once; above that, threads wait for one."
        most = GaugeMetricFamily("sexton_database_connections_max", text)
        pool = self._engine.pool
        if isinstance(pool, QueuePool):
            connections.add_metric(["used"], pool.checkedout())
            connections.add_metric(["idle"], pool.checkedin())
            most.add_metric([], pool.size() + pool._max_overflow)
        yield from (connections, most)
