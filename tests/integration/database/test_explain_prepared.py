"""A claim finds loads below a prefix, and a load the prefixes above it, by indexes, whatever the statistics say."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from sexton import contract
from sexton.marks.model import Candidate, Place, Ref
from sexton.marks.sql.prepared import find_loads
from tests.integration.database.query_plans import crowded, keep_statistics, recorded, rows_read, run_script
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


@pytest.fixture(scope="module", params=["empty", "full"])
def crowd(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Two instances with statistics of an empty table, or of this one."""
    with crowded(request.param, FILL) as rig:
        yield rig


def candidate(id_: str, *places: Place) -> Candidate:
    return Candidate(Ref("dropped", id_), places=places)


@pytest.mark.parametrize(
    ("candidates", "found", "most"),
    [
        ([candidate("t1", Place("disk", prefix="data/t1/"))], {"t1": "load3"}, 100),
        ([candidate("o", Place("disk", keys=("data/t1/load2/x.dat",), etags=("e",)))], {"o": "load2"}, 100),
        (
            [candidate(f"d{n}", Place("disk", prefix=f"data/t1/r{n}/")) for n in range(CHUNK)],
            {},
            10 * CHUNK,
        ),
    ],
    ids=["a table", "an orphan", "a chunk"],
)
def test_loads_below_prefixes_are_found_in_few_rows(
    crowd: Rig, candidates: list[Candidate], found: dict[str, str], most: int
) -> None:
    with recorded(crowd.db) as sent, crowd.db.read() as c:
        loads = find_loads(crowd.db, c, "crowd", candidates)

    assert {ref.id: load.id for ref, load in loads.items()} == found
    assert rows_read(crowd.db, sent) < most


@pytest.mark.slow
@pytest.mark.parametrize("table", ["t1", "t0"], ids=["beside many marks", "alone"])
def test_a_load_reads_few_marks_in_an_old_session(rig: Rig, table: str) -> None:
    """The session made its plans when there was no mark."""
    db = rig.instance("crowd").db
    keep_statistics(db)

    def load(c: Connection, id_: str) -> int:
        contract.prepare(c, "crowd", "load", [id_], "disk", [f"data/{table}/{id_}/"], 60)
        contract.commit(c, "crowd", [id_])
        return int(c.exec_driver_sql(READ).scalar_one())

    with db.engine.connect() as owner:
        for n in range(CALLS):
            load(owner, f"before{n}")
            owner.commit()
        run_script(db, FILL)
        run_script(db, HISTORY)

        assert load(owner, "after") < 50
