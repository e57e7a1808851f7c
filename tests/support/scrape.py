"""Read a collector as Prometheus does: the text it exports, parsed by the library's own parser."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sexton.database.engine import Database
from sexton.insight.metrics.collector import FigureCollector
from sexton.insight.metrics.figures.store import FigureStore
from tests.support.rig import INTERVAL, Rig, stores_of

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scraped:
    """What one scrape says: ``scraped("name", label=value)`` is a sample's value, None where there is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: Samples = {}
        for family in text_string_to_metric_families(text):
            for s in family.samples:
                self.samples[s.name, frozenset(s.labels.items())] = s.value

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.samples.get((name, frozenset(labels.items())))

    def names(self) -> set[str]:
        """Names that have a sample."""
        return {name for name, _ in self.samples}

    def values(self, label: str) -> set[str]:
        """Return all values of one label."""
        return {v for _, labels in self.samples for k, v in labels if k == label}

    def of(self, prefix: str) -> Samples:
        """Samples whose names begin so."""
        return {key: value for key, value in self.samples.items() if key[0].startswith(prefix)}


def collector(
    rig: Rig, *, db: Database | None = None, in_flight: Mapping[tuple[str, str], int] | None = None, **given: Any
) -> FigureCollector:
    """Return a collector of the rig's database that keeps nothing between scrapes, unless told otherwise."""
    db = db or rig.db
    store = FigureStore(db, stores_of(db).insight, rig.policy, INTERVAL)
    flying = rig.deleter.in_flight if in_flight is None else in_flight
    return FigureCollector(store.read, flying, **{"cache_seconds": 0.0, **given})


def scrape(of: FigureCollector | Rig) -> Scraped:
    """Scrape a collector, or a new one of the rig's."""
    registry = CollectorRegistry()
    registry.register(of if isinstance(of, FigureCollector) else collector(of))
    return Scraped(generate_latest(registry).decode())
