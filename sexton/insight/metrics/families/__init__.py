"""Turn figures into metric families. Here: what builds one family, and those of all fields that are metrics."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily

from sexton.insight.metrics.model import BinlogFigures, InstanceFigures

Samples: TypeAlias = Iterable[tuple[Sequence[str], float | None]]
"""The values of the labels, and the value; None: there is no such sample."""
Family: TypeAlias = type[GaugeMetricFamily] | type[CounterMetricFamily] | type[UnknownMetricFamily]


def family(name: str, text: str, labels: Sequence[str], samples: Samples, kind: Family = GaugeMetricFamily) -> Metric:
    """Return one family; ``name``: without ``_total``, ``text``: its help."""
    made = kind(name, text, labels=labels)
    for values, value in samples:
        if value is not None:
            made.add_metric(values, value)
    return made


def age(since: int | None, now: int) -> float:
    """Return the seconds since an instant (ms since 1970); 0 for None."""
    return 0.0 if since is None else max(0, now - since) / 1000


def families_of_fields(
    model: type[InstanceFigures] | type[BinlogFigures], figures: Sequence[InstanceFigures | BinlogFigures], now: int
) -> Iterator[Metric]:
    """Yield the family of each field that ``model.metric`` made, with the label ``instance_id``."""
    for field, info in model.model_fields.items():
        if name := info.title:
            values = [((f.instance,), getattr(f, field)) for f in figures]
            if "seconds" in name.split("_"):
                values = [(labels, age(since, now)) for labels, since in values]
            yield family(f"sexton_{name}", info.description or "", ["instance_id"], values)
