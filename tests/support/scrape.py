"""Read a collector as Prometheus does: parse the exported text with the library's own parser."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from sexton.database.engine import Database
from sexton.insight.metrics.collector import FigureCollector
from sexton.insight.metrics.figures.store import FigureStore
from tests.support.rig import INTERVAL, Rig, stores_of

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scraped:
    """The samples of one scrape: ``scraped("name", label=value)`` is a sample's value, None if there is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: Samples = {}
        for family in text_string_to_metric_families(text):
            for s in family.samples:
                self.samples[s.name, frozenset(s.labels.items())] = s.value

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.samples.get((name, frozenset(labels.items())))

    def names(self) -> set[str]:
        """Return the names that have a sample."""
        return {name for name, _ in self.samples}

    def values(self, label: str) -> set[str]:
        """Return all values of one label."""
        return {v for _, labels in self.samples for k, v in labels if k == label}

    def starting_with(self, prefix: str) -> Samples:
        """Return the samples whose names begin with a prefix."""
        return {key: value for key, value in self.samples.items() if key[0].startswith(prefix)}


def collector(
    rig: Rig, *, db: Database | None = None, in_flight: Mapping[tuple[str, str], int] | None = None, **options: Any
) -> FigureCollector:
    """Return a collector of the rig's database, which reads anew at each scrape by default."""
    db = db or rig.db
    store = FigureStore(db, stores_of(db).insight, rig.policy, INTERVAL)
    running_requests = rig.deleter.in_flight if in_flight is None else in_flight
    options = {"cache_seconds": 0.0, **options}
    return FigureCollector(store.read, running_requests, update=store.update, **options)


def scrape(source: Collector | Rig) -> Scraped:
    """Scrape a collector, or a new collector of a rig; return the samples."""
    registry = CollectorRegistry()
    registry.register(collector(source) if isinstance(source, Rig) else source)
    return Scraped(generate_latest(registry).decode())
