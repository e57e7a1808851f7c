"""A PostgreSQL cluster of a single test, which may restart it and cut its connections."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.servers.postgres import Cluster, driver_url
from tests.support.eventually import eventually


class OwnCluster(Cluster):
    """A cluster that fails on request."""

    def cut_connections(self) -> None:
        """Terminate every backend of Sexton, also busy ones."""
        with psycopg.connect(driver_url(self.url()), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sexton'"
            )

    def restart(self) -> None:
        """Crash and recover: the server flushes nothing before it ends."""
        child = self.server.child
        assert child.pid is not None
        os.kill(child.pid, signal.SIGQUIT)
        eventually("the server has ended", lambda: child.exit_code() is not None)
        self.server.start()


@contextmanager
def own_cluster() -> Iterator[OwnCluster]:
    cluster = OwnCluster()
    try:
        yield cluster
    finally:
        cluster.stop()
