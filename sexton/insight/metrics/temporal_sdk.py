"""Export the metrics of Temporal's SDK, named as its own exporter names them with units and seconds."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from temporalio.runtime import BufferedMetric, BufferedMetricUpdate

COUNTER, GAUGE, HISTOGRAM = 0, 1, 2
"""The SDK's kinds of metrics."""
KINDS = {COUNTER: "counter", GAUGE: "gauge", HISTOGRAM: "histogram"}
DRAIN_SECONDS = 1.0
MOST_SERIES = 2_000
"""Further label sets are left out: a worker has some hundreds."""
LEFT_OUT = frozenset({"service_name"})
"""A label with one value."""
_DEFAULT = (0.05, 0.1, 0.5, 1.0, 2.5, 10.0)
_WAITS = (0.1, 0.5, 1.0, 5.0, 10.0, 100.0, 1000.0)
_TASKS = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
BUCKETS: Mapping[str, Sequence[float]] = {
    "temporal_workflow_task_schedule_to_start_latency": _WAITS,
    "temporal_activity_schedule_to_start_latency": _WAITS,
    "temporal_workflow_task_execution_latency": _TASKS,
    "temporal_workflow_task_replay_latency": _TASKS,
    "temporal_activity_execution_latency": (0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0),
    "temporal_workflow_endtoend_latency": (
        *(0.1, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 30600.0, 86400.0),
    ),
}
"""The SDK's own upper bounds in seconds; others have ``_DEFAULT``."""

Labels = tuple[tuple[str, str], ...]


class SdkCollector(Collector):
    """Sums up the SDK's updates, which it fetches each second: the SDK drops what its buffer cannot hold."""

    def __init__(self, retrieve: "Callable[[], Sequence[BufferedMetricUpdate]]") -> None:
        """Store what returns, and forgets, the updates since the last call."""
        self._retrieve, self._lock = retrieve, threading.Lock()
        self._metrics: dict[str, BufferedMetric] = {}
        self._values: dict[tuple[str, Labels], float] = {}
        self._buckets: dict[tuple[str, Labels], list[int]] = {}

        def drain_always() -> None:
            pause = threading.Event()
            while not pause.wait(DRAIN_SECONDS):
                self._drain()

        threading.Thread(target=drain_always, name="temporal-metrics", daemon=True).start()

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        self._drain()
        with self._lock:
            families = {}
            for name, metric in self._metrics.items():
                full_name = f"{name}_seconds" if metric.unit == "s" else name
                families[name] = Metric(full_name, metric.description or name, KINDS[metric.kind])
            for key, value in self._values.items():
                name, labels = key[0], dict(key[1])
                family, kind = families[name], self._metrics[name].kind
                if kind != HISTOGRAM:
                    family.add_sample(f"{family.name}_total" if kind == COUNTER else family.name, labels, value)
                    continue
                counts = list(accumulate(self._buckets[key]))
                bounds = [str(bound) for bound in BUCKETS.get(name, _DEFAULT)]
                for bound, count in zip([*bounds, "+Inf"], counts, strict=True):
                    family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
                family.add_sample(f"{family.name}_count", labels, counts[-1])
                family.add_sample(f"{family.name}_sum", labels, value)
        yield from families.values()

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: which metrics there are is known when the SDK has counted something."""
        yield from ()

    def _drain(self) -> None:
        with self._lock:
            for update in self._retrieve():
                metric = update.metric
                values = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in update.attributes.items()}
                labels = tuple(sorted((k, v) for k, v in values.items() if k not in LEFT_OUT))
                key = metric.name, labels
                if metric.kind not in KINDS or (key not in self._values and len(self._values) >= MOST_SERIES):
                    continue
                self._metrics.setdefault(metric.name, metric)
                before = 0.0 if metric.kind == GAUGE else self._values.get(key, 0.0)
                self._values[key] = before + update.value
                if metric.kind == HISTOGRAM:
                    bounds = BUCKETS.get(metric.name, _DEFAULT)
                    counts = self._buckets.setdefault(key, [0] * (len(bounds) + 1))
                    counts[bisect_left(bounds, update.value)] += 1
