"""A claim finds loads below a prefix, and a load the prefixes above it, by indexes, whatever the statistics say."""

import pytest
from sqlalchemy import Connection

from sexton import contract
from sexton.marks.model import Candidate, Place, Ref
from sexton.marks.sql.prepared import find_loads
from tests.integration.database.query_plans import crowded, each_statistics, recorded, rows_read, run_script
from tests.support.rig import Rig

MARKS = 50_000
FILL = f"""
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, prefix)
    SELECT 'crowd', 'dropped', 'd' || n, 'disk', 'data/t1/r' || n || '/' FROM generate_series(1, {MARKS}) n;
INSERT INTO sexton.mark (instance, kind, id, vault, prefix, expires_at, state)
    SELECT CASE n %% 2 WHEN 0 THEN 'crowd' ELSE 'other' END, 'prepared', 'p' || n, 'disk', 'data/t' || n || '/r/',
        date_trunc('second', now()) + n * interval '1 second', CASE n %% 3 WHEN 0 THEN 'CLAIMED' ELSE 'MARKED' END
    FROM generate_series(2, {MARKS}) n;
INSERT INTO sexton.mark (instance, kind, id, vault, prefix, owner_txn, expires_at)
    SELECT 'crowd', 'prepared', 'load' || n, 'disk', 'data/t1/load' || n || '/', 'load' || n, '2099-01-01'
    FROM generate_series(1, 3) n;
"""
"""Many dropped marks below one table, many loads of other tables, and three loads of this one."""
HISTORY = f"""
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, keys, parent_kind, parent_id)
    SELECT 'crowd', 'orphan', 'o' || n, 'disk', '["x"]', 'rowset', 'other' || n FROM generate_series(1, 5000) n;
INSERT INTO sexton.mark_history
    (instance, kind, id, vault, objects, bytes, marked_at, claimed_at, gone_at, batch, round, parent_kind, parent_id)
    SELECT 'crowd', 'orphan', 'h' || n, 'disk', 1, 10, now(), now(), now(), 1, 1, 'rowset', 'other' || n
    FROM generate_series(1, 5000) n;
INSERT INTO sexton.mark_history
    (instance, kind, id, vault, prefix, objects, bytes, marked_at, claimed_at, gone_at, batch, round)
    SELECT 'crowd', 'dropped', 'g' || n, 'disk', 'data/t1/g' || n || '/', 1, 10, now(), now(), now(), 1, 1
    FROM generate_series(1, {MARKS}) n;
"""
CHUNK = 200
CALLS = 7
"""From the sixth call on a session may use plans that were made for any arguments."""
READ = """
SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables
WHERE relname IN ('mark', 'mark_history') AND schemaname = 'sexton'
"""
"""The rows that the transaction has read of marks and of history."""


def candidate(id_: str, *places: Place) -> Candidate:
    return Candidate(Ref("dropped", id_), places=places)


CANDIDATES: list[tuple[list[Candidate], dict[str, str], int]] = [
    ([candidate("t1", Place("disk", prefix="data/t1/"))], {"t1": "load3"}, 100),
    ([candidate("o", Place("disk", keys=("data/t1/load2/x.dat",), etags=("e",)))], {"o": "load2"}, 100),
    ([candidate(f"d{n}", Place("disk", prefix=f"data/t1/r{n}/")) for n in range(CHUNK)], {}, 10 * CHUNK),
]
"""A table, an orphan and a chunk; the loads that are found below; how many rows may be read."""


def load(c: Connection, id_: str, table: str = "t1") -> int:
    """Prepare and commit a load; return how many rows its transaction read of marks and of history."""
    contract.prepare(c, "crowd", "load", [id_], "disk", [f"data/{table}/{id_}/"], 60)
    contract.commit(c, "crowd", [id_])
    return int(c.exec_driver_sql(READ).scalar_one())


@pytest.mark.slow
def test_a_claim_and_a_load_find_each_other_in_few_rows() -> None:
    """The load also in a session that made its plans when there was no mark."""
    with crowded() as rig, rig.db.engine.connect() as old_session:
        for n in range(CALLS):
            load(old_session, f"before{n}")
            old_session.commit()
        run_script(rig.db, FILL)
        run_script(rig.db, HISTORY)

        for table in ("t1", "t0"):  # beside many marks, and alone
            assert load(old_session, "after", table) < 50
            old_session.rollback()
        for _statistics in each_statistics(rig):
            for candidates, found, most in CANDIDATES:
                with recorded(rig.db) as sent, rig.db.read() as c:
                    loads = find_loads(rig.db, c, "crowd", candidates)

                assert {ref.id: blocking.id for ref, blocking in loads.items()} == found
                assert rows_read(rig.db, sent) < most


def test_lost_ids_are_not_compared_with_each_committed_one(rig: Rig) -> None:
    with rig.db.read() as c:
        query = "SELECT pg_get_functiondef('sexton.commit(text,text[])'::regprocedure)"
        source = str(c.exec_driver_sql(query).scalar_one())

    assert "was never prepared" in source
    assert "<> ALL" not in source  # which no plan makes a look-up of
