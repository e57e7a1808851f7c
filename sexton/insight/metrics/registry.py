"""The registry of a process, which names the deployment of everything that it exports, and its connections."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine, QueuePool


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
