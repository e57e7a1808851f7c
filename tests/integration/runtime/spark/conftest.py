"""Spark sessions, and rigs that check and delete on Spark."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from sexton.recycle.rounds.recycler import Recycler
from sexton.runtime.spark.compare import SparkComparison
from sexton.runtime.spark.deleter import SparkDeleter
from sexton.runtime.spark.deletion import Work
from sexton.runtime.spark.locations import ConnectionTarget, without_password
from sexton.runtime.spark.session import Sessions
from tests.integration.check.conftest import owned
from tests.servers import spark
from tests.servers.s3 import RunningS3
from tests.support.rig import DEPLOYMENT, Rig

__all__ = ["owned"]


@pytest.fixture(scope="session")
def sessions(s3_server: RunningS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Spark, started after the store: its executors have the store's keys in their environment."""
    with spark.sessions(tmp_path_factory.mktemp("spark")) as running:
        yield running


def target(rig: Rig) -> ConnectionTarget:
    """Return how executors reach a rig's database and store."""
    return ConnectionTarget(
        deployment=DEPLOYMENT,
        database_url=without_password(rig.url),
        live_database_url=without_password(rig.live_url),
        endpoint_url=rig.endpoint_url,
    )


@pytest.fixture
def on_spark(sessions: Sessions, tmp_path: Path) -> Callable[[Rig], SparkComparison]:
    def made(rig: Rig) -> SparkComparison:
        scratch = str(tmp_path / "scratch")
        return SparkComparison(sessions, target(rig), rig.vaults, rig.live_side, rig.runs, scratch=scratch)

    return made


Deleting = Callable[[Rig], Recycler]


def audit_locations(rig: Rig) -> AuditLocations:
    """Return where executors write the audit of a rig's deletions."""
    return AuditLocations(
        rig.vaults, rig.registry.vaults, deployment=DEPLOYMENT, endpoint_url=rig.endpoint_url, audit_url=""
    )


@pytest.fixture
def deleting(sessions: Sessions, tmp_path: Path) -> Deleting:
    """Let a rig delete on Spark, with its audit where the executors write theirs."""

    def made(rig: Rig) -> Recycler:
        rig.audit = ParquetAudit(audit_locations(rig), 400)
        work = Work(where=target(rig), requests=4)
        rig.recycler = rig.recycler_of(rig.owner, SparkDeleter(sessions, work, 8))
        return rig.recycler

    return made
