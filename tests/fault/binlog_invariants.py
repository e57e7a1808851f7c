"""Invariants of a random binlog history, and its end, at which nothing is left below the cuts."""

from sqlalchemy import select

from sexton.replication.agent.model import CutDone
from sexton.replication.binlog.model import MAX_COMMIT_SEQ
from sexton.replication.journal.replaying import ReplicaHealth
from sexton.replication.replicas.model import TabletReport
from tests.fault.binlog_world import BACKENDS, TABLES, BinlogWorld, Reader
from tests.integration.replication.binlog_instance import DB, SHOP


def check_invariants(world: BinlogWorld) -> None:
    """Assert the invariants that hold after any history."""
    for uid, versions in world.disks.items():
        table = uid.removeprefix("t-").partition(".")[0]
        existing = set(range(1, world.versions[table] + 1))
        assert not {v for v in versions if v <= world.acked[uid]}, f"{uid}: left below the acknowledged version"
        assert {v for v in existing if v > world.granted[uid]} <= versions, f"{uid}: missing above the grant"
    for reader in world.readers.values():
        if world.lost(reader):
            continue
        unread = {s for s, tables in world.committed.items() if s > reader.position and _reads(reader, tables)}
        readable = set(world.readable_seqs(reader.table, after=reader.position))
        assert unread == readable, f"{reader.name} lacks {sorted(unread - readable)}, has {sorted(readable - unread)}"
        assert reader.records == sorted(set(reader.records))


def _reads(reader: Reader, tables: frozenset[str]) -> bool:
    """Return whether a reader reads a record of these tables."""
    return not reader.table or reader.table in tables


def check_followers(world: BinlogWorld) -> None:
    """Let the followers catch up, and assert that they equal their leader."""
    t = world.db.t.replica
    with world.db.read() as c:
        rows = c.execute(select(t).where(t.c.dropped.is_(False))).all()
    unwell = {
        (r.tablet, r.backend): ReplicaHealth(bad=r.bad_since is not None, failed=r.failed)
        for r in rows
        if r.bad_since is not None or r.failed >= 0
    }
    logs = {table: world.readable_seqs(table) for table in ("", *(t for t in TABLES if t not in world.dropped))}
    for follower in world.followers:
        while entries := world.entries(follower):
            for entry in entries:
                follower.apply(entry)  # type: ignore[arg-type]
        database = follower.databases.get(DB)
        assert {table: database.log(table) if database else [] for table in logs} == logs
        assert dict(follower.unhealthy()) == unwell


def settle(world: BinlogWorld) -> None:
    """Repair everything, delete everything granted, and assert that nothing is left below the cuts."""
    world.holes.clear()
    for name, reader in list(world.readers.items()):
        world.service.consumers.remove(SHOP, name, DB, reader.table)
    world.readers.clear()
    for _ in range(2):
        world.cut_expired()
        for backend in BACKENDS:
            every = [TabletReport(uid=f"t-{t}.{backend}", ranges=((0, world.versions[t]),)) for t in TABLES]
            world.report(backend, *every)
    for backend in BACKENDS:
        for uid, version in world.granted_cuts(backend).items():
            world.disks[uid] = {v for v in world.disks[uid] if v > version}
            world.granted[uid] = world.acked[uid] = version
            world.service.sender.acknowledge(SHOP, backend, [CutDone(uid=uid, version=version)])
    t = world.db.t
    with world.db.read() as c:
        fold = {r.part: r.version for r in c.execute(select(t.binlog_partition_cut))}
        late = list(c.execute(select(t.replica.c.uid).where(t.replica.c.desired > t.replica.c.acked)).scalars())
        below = c.execute(
            select(t.binlog_table_record.c.seq).join(
                t.binlog_log,
                (t.binlog_log.c.tbl == t.binlog_table_record.c.tbl)
                & (t.binlog_table_record.c.seq <= t.binlog_log.c.watermark),
            )
        ).all()
    assert (late, below) == ([], [])
    for uid, versions in world.disks.items():
        table = uid.removeprefix("t-").partition(".")[0]
        cut = MAX_COMMIT_SEQ if table in world.dropped else fold.get(f"p-{table}", -1)
        assert not {v for v in versions if v <= cut}, uid
