"""PostgreSQL does not compare each placed copy with each stored one, whatever its statistics say."""

from collections.abc import Iterator

import pytest

from sexton.database import schema
from sexton.database.engine import Database
from sexton.replication.replicas.model import Copy, Placement, Tablet
from tests.integration.database.query_plans import keep_statistics, loops, maintain, recorded
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance
from tests.servers.postgres import Cluster
from tests.support.rig import DEPLOYMENT

TABLETS = 2_000


@pytest.fixture
def binlogs(postgres: Cluster) -> Iterator[BinlogInstance]:
    """An instance on PostgreSQL whose statistics are of empty tables."""
    url = postgres.new_database()
    schema.init(url, DEPLOYMENT)
    db = Database.open(url)
    keep_statistics(db)
    maintain(db, "ANALYZE")
    yield BinlogInstance(db)
    db.close()


def placement(*backends: str) -> Placement:
    tablets = (
        Tablet(tablet=f"t{n}", part=f"p{n % 10}", copies=tuple(Copy(backend=b, uid=f"{b}-{n}") for b in backends))
        for n in range(TABLETS)
    )
    return Placement(db=DB, table="orders", tablets=tuple(tablets))


@pytest.mark.parametrize("fresh", [False, True], ids=["stale", "fresh"])
def test_a_placement_joins_no_copies(binlogs: BinlogInstance, fresh: bool) -> None:
    place = binlogs.service.placements.place
    with recorded(binlogs.db) as sent:
        placed = [place(SHOP, placement("b1", "b2"))]
        if fresh:
            maintain(binlogs.db, "ANALYZE")
        placed.append(place(SHOP, placement("b2", "b3")))

    assert [(p.added, p.kept, p.removed) for p in placed] == [(4_000, 0, 0), (2_000, 2_000, 2_000)]
    assert loops(binlogs.db, sent) == []
