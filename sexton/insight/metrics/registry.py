"""The registry of a process, and the one place that names the deployment of everything that it exports."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector


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
