"""A PostgreSQL cluster of one test alone: it may be restarted and have its connections cut."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.servers.postgres import Cluster, Unavailable


class OwnCluster(Cluster):
    """A cluster that fails on request."""

    def cut_connections(self) -> int:
        """End every backend of Sexton's, whatever it is doing; return how many there were."""
        with psycopg.connect(self.url().replace("+psycopg", ""), autocommit=True) as connection:
            ours = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sexton'"
            return len(connection.execute(ours).fetchall())

    def restart(self) -> None:
        """Crash and recover: nothing is flushed before it ends."""
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
