"""Records, reports and acknowledgements that cannot be stored are refused."""

import pytest

from sexton.kernel.errors import BadInput, SextonError
from sexton.replication.binlog.errors import OutOfOrder
from sexton.replication.binlog.model import CutDone, Record
from sexton.replication.replicas.model import TabletReport
from tests.integration.replication.world import DB, SHOP, World


def test_text_that_no_database_stores_is_refused(world: World) -> None:
    world.keep(10)
    nul, its = "a\x00b", (SHOP, "b1")
    for refused in (
        lambda: world.b.records.add(SHOP, DB, [Record(commit_seq=1, type="ALTER", data=nul)]),
        lambda: world.b.configs.logs(SHOP, (nul, "")),
        lambda: world.b.journal.read(SHOP, 0, nul),
        lambda: world.report("b1", TabletReport(uid=nul, version=1)),
        lambda: world.b.consumers.acknowledge(SHOP, nul, DB, "", 0),
    ):
        with pytest.raises(SextonError):
            refused()
    for done in (
        CutDone(uid=nul, version=1),
        CutDone(uid="u", version=10**30),
        CutDone(uid="u", version=1, outcome=nul),
    ):
        assert world.b.sender.acknowledge(*its, [done]).ignored == 1


@pytest.mark.parametrize("part", ["a\x00b", "\ud800", "x" * 129, ""])
def test_an_impossible_partition_id_is_refused(world: World, part: str) -> None:
    world.keep(10)

    with pytest.raises(BadInput):
        world.commit(1, orders={part: 3})


def test_a_different_record_with_a_known_number_is_refused(world: World) -> None:
    world.keep(None)
    world.commit(1, orders={"p1": 3})

    with pytest.raises(OutOfOrder, match="with another type or data"):
        world.commit(1, orders={"p1": 9})
