"""A change of any size is journaled in entries of limited size, which together say the same."""

from itertools import product

from sexton.replication.journal.model import (
    MAX_ENTRY_NAMES,
    JournalEntry,
    Op,
    ReplicaOutcome,
    ReportKind,
    Tombstone,
    gc_binlog,
    replicas_info,
)
from sexton.replication.journal.replaying import FollowerState

TABLES = tuple(f"t{n}" for n in range(2 * MAX_ENTRY_NAMES + 1))


def replayed(op: Op, bodies: list[dict[str, object]]) -> FollowerState:
    """Return a follower that has a record and a replica of each table, and has applied the bodies."""
    follower = FollowerState()
    for seq, table in enumerate(TABLES, 1):
        follower.record("sales", seq, [table])
        follower.place(table, "b1")
    follower.record("sales", 999, TABLES)
    for seq, body in enumerate(bodies, 1):
        follower.apply(JournalEntry(seq=seq, op=op, body=body))
    return follower


def test_a_tombstone_of_many_tables_is_cut() -> None:
    for database, dropped in product((True, False), repeat=2):
        whole = Tombstone(database=database, db="sales", tables=TABLES, seq=998, dropped=dropped)

        bodies = gc_binlog([whole])

        tables = [[len(t["tableIds"]) for t in body["tombstones"]] for body in bodies]
        assert tables == [[MAX_ENTRY_NAMES], [MAX_ENTRY_NAMES], [1]]
        at_once = {"tombstones": [whole.model_dump(by_alias=True)]}
        ended = [replayed(Op.GC_BINLOG, each).databases["sales"] for each in (bodies, [at_once])]
        assert ended[0] == ended[1]


def test_tombstones_share_entries_up_to_the_limit() -> None:
    of_one = [Tombstone(database=False, db="sales", tables=(table,), seq=1) for table in TABLES]
    of_all = [Tombstone(database=True, db=f"d{n}", seq=1) for n in range(3)]

    assert [len(body["tombstones"]) for body in gc_binlog([*of_one, *of_all])] == [MAX_ENTRY_NAMES, MAX_ENTRY_NAMES, 4]
    assert gc_binlog([]) == []


def test_a_report_of_many_replicas_is_cut() -> None:
    outcomes = [ReplicaOutcome(tablet=table, kind=ReportKind.BAD) for table in TABLES]

    bodies = replicas_info("b1", outcomes)

    sizes = [len(body["replicaReportInfos"]) for body in bodies]
    assert sizes == [MAX_ENTRY_NAMES, MAX_ENTRY_NAMES, 1]
    assert set(replayed(Op.BACKEND_REPLICAS_INFO, bodies).unhealthy()) == {(table, "b1") for table in TABLES}
