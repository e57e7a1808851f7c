"""Turn figures into metric families. Here: what builds one family, and those of all fields that are metrics."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily

from sexton.insight.metrics.model import COUNTER, By
from sexton.kernel.message import Message

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
    model: type[Message], labels: Sequence[str], rows: Sequence[tuple[Sequence[str], Message]], now: int
) -> Iterator[Metric]:
    """Yield the family of each field that ``model.metric`` made; ``rows``: the values of the labels, and figures."""
    for field, info in model.model_fields.items():
        if info.title:
            values = [(label_values, getattr(figures, field)) for label_values, figures in rows]
            by = [mark.label for mark in info.metadata if isinstance(mark, By)]
            if by:
                values = [((*of_row, text.replace(" ", "_")), n) for of_row, ns in values for text, n in ns.items()]
            elif info.default is None:
                values = [(label_values, age(since, now)) for label_values, since in values]
            kind = CounterMetricFamily if COUNTER in info.metadata else GaugeMetricFamily
            yield family(f"sexton_{info.title}", info.description or "", [*labels, *by], values, kind)
