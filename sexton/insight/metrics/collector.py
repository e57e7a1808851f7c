"""Turn figures into metric families at each scrape. A scrape never fails: what is not known is left out and said so."""

import importlib.metadata
import logging
import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sexton.insight.metrics.families import doris, engine
from sexton.insight.metrics.model import Figures
from sexton.kernel.errors import SextonError

log = logging.getLogger(__name__)

KEEP_SECONDS = 5.0
"""Scrapes that come closer together than this are answered from the same figures."""
NO_FIGURES = Figures(now=0, interval_seconds=0, retention_seconds={})


class FigureCollector(Collector):
    """All metrics of a process. Safe for scrapes at the same time: one of them reads, the others wait for it."""

    def __init__(
        self,
        read: Callable[[], Figures],
        in_flight: doris.InFlight,
        *,
        stats: bool = True,
        worker: bool = True,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        """Nothing is read yet.

        Args:
            read: returns the figures of this moment.
            in_flight: what the process deletes now.
            stats: whether the seed's ``recycler_…`` are there too (``enable_recycler_stats_metrics``).
            worker: whether the process works; the API, which does not, must not look like a worker that lives.
            keep_seconds: how long figures are used.
        """
        self._read = read
        self._in_flight = in_flight
        self._stats = stats
        self._up_name = "sexton_up" if worker else "sexton_api_up"
        self._keep = keep_seconds
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._figures: Figures | None = None
        self._errors = 0
        self._up = True

    def collect(self) -> Iterator[Metric]:
        """Yield every family. Where the database is not readable only what the process knows: old ages would lie."""
        with self._lock:
            if time.monotonic() - self._read_at >= self._keep:
                self._refresh()
            figures, errors = self._figures, self._errors
        yield from _process(self._up_name, figures is not None, errors)
        if figures is not None:
            yield from self._families(figures)

    def describe(self) -> Iterator[Metric]:
        """Yield every family without samples, so that names are known before the database is."""
        yield from _process(self._up_name, False, 0)
        yield from self._families(NO_FIGURES)

    def _families(self, figures: Figures) -> Iterator[Metric]:
        yield from engine.families(figures)
        if self._stats:
            yield from doris.families(figures, self._in_flight)

    def _refresh(self) -> None:
        try:
            self._figures = self._read()
            self._errors += self._figures.unreadable
        except SextonError as e:
            self._figures = None
            self._errors += 1
            if self._up:  # once, not at every scrape
                log.error("%s", e)
        except Exception:
            self._figures = None
            self._errors += 1
            log.exception("metrics: a scrape found what it did not expect; the worker goes on")
        self._up = self._figures is not None
        self._read_at = time.monotonic()


def _process(name: str, up: bool, errors: int) -> Iterator[Metric]:
    yield GaugeMetricFamily(name, "1 where this process could read its database for this scrape.", value=up)
    told = "Failed looks at the database or at a stored report, since this process started."
    yield CounterMetricFamily("sexton_scrape_errors", told, value=errors)
    build = GaugeMetricFamily("sexton_build_info", "1, with the version of this process.", labels=["version"])
    build.add_metric([importlib.metadata.version("sexton")], 1)
    yield build
