"""A PostgreSQL cluster of a single test, which may restart it and cut its connections."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.servers.postgres import Cluster, Unavailable


class OwnCluster(Cluster):
    """A cluster that fails on request."""

    def cut_connections(self) -> int:
        """Terminate every backend of Sexton, also busy ones; return how many there were."""
        with psycopg.connect(self.url().replace("+psycopg", ""), autocommit=True) as connection:
            statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sexton'"
            return len(connection.execute(statement).fetchall())

    def restart(self) -> None:
        """Crash and recover: the server flushes nothing before it ends."""
        self._call(self._pg_ctl, "-D", self._data, "-m", "immediate", "-w", "-t", "60", "restart")


@contextmanager
def own_cluster(*, fsync: bool = True) -> Iterator[OwnCluster]:
    try:
        cluster = OwnCluster(fsync=fsync)
    except Unavailable as e:
        pytest.skip(str(e))
    try:
        yield cluster
    finally:
        cluster.stop()
