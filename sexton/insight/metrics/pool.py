"""Export how many of a process' database connections are in use: a thread that finds none waits for one."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine, QueuePool


class PoolCollector(Collector):
    """The connection pool of an engine."""

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
