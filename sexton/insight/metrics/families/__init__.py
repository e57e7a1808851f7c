"""Turn figures into metric families. Here: what builds one family, and those of all fields that are metrics."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily

from sexton.insight.metrics.model import COUNTER, By
from sexton.kernel.message import Message

Samples: TypeAlias = Iterable[tuple[Sequence[str], float | None]]
"""The values of the labels, and the value; None: there is no such sample."""
MetricClass: TypeAlias = type[GaugeMetricFamily] | type[CounterMetricFamily] | type[UnknownMetricFamily]
BY_INSTANCE = "instance_id"
"""The first label of what each instance has."""
LARGEST = re.compile(
    r"(_seconds|_seconds_since_[a-z_]+|_ts|_ms|_duration|_per_resource|_in_a_row|_fault|_unapproved_objects|_lag_entries)$"
)
"""Names of metrics whose largest value stands for all instances; other metrics are summed."""


class Series(NamedTuple):
    """One family; ``name``: without ``_total``, ``text``: its help. Read its samples before the next family."""

    name: str
    text: str
    labels: Sequence[str] = ()
    samples: Samples = ()
    kind: MetricClass = GaugeMetricFamily

    def metric(self, per_instance: bool) -> Metric:
        """Return it for a scrape; else than ``per_instance``, without the label of the instance, and much smaller."""
        labels, values = self.labels, self.samples
        if not per_instance and labels[:1] == [BY_INSTANCE]:
            labels, values = labels[1:], self._of_all_instances()
        metric = self.kind(self.name, self.text, labels=labels)
        for of_labels, value in values:
            if value is not None:
                metric.add_metric(of_labels, value)
        return metric

    def _of_all_instances(self) -> Samples:
        merged: dict[tuple[str, ...], float] = {}
        is_largest = self.kind is not CounterMetricFamily and LARGEST.search(self.name)
        for (_, *others), value in self.samples:
            if value is not None:
                key, value = tuple(others), float(value)
                before = merged.get(key, value if is_largest else 0.0)
                merged[key] = max(before, value) if is_largest else before + value
        return merged.items()


def age(since: int | None, now: int) -> float:
    """Return the seconds since an instant (ms since 1970); 0 for None."""
    return 0.0 if since is None else max(0, now - since) / 1000


def families_of_fields(
    model: type[Message], labels: Sequence[str], rows: Sequence[tuple[Sequence[str], Message]], now: int
) -> Iterator[Series]:
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
            yield Series(f"sexton_{info.title}", info.description or "", [*labels, *by], values, kind)
