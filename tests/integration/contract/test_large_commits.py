"""A commit looks up its ids alone: also where some of many are lost, and in a session older than the marks."""

from collections.abc import Iterator, Sequence

import psycopg
import pytest

from tests.integration.database.query_plans import keep_statistics, rows_touched, run_script
from tests.support.rig import Rig

CALLS = 7
"""From the sixth call on a session may use plans that were made for any number of ids."""
ORPHANS = 5_000
FILL = f"""
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, keys, parent_kind, parent_id)
    SELECT 'shop', 'orphan', 'o' || n, 'disk', '["x"]', 'rowset', 'other' || n FROM generate_series(1, {ORPHANS}) n;
INSERT INTO sexton.mark_history
    (instance, kind, id, vault, objects, bytes, marked_at, claimed_at, gone_at, batch, round, parent_kind, parent_id)
    SELECT 'shop', 'orphan', 'h' || n, 'disk', 1, 10, now(), now(), now(), 1, 1, 'rowset', 'other' || n
    FROM generate_series(1, {ORPHANS}) n;
"""


class OwnerSession:
    """A session that prepares and commits."""

    def __init__(self, c: psycopg.Connection) -> None:
        self.c = c

    def prepare(self, ids: Sequence[str]) -> None:
        prefixes = [f"{id_}/" for id_ in ids]
        self.c.execute("SELECT sexton.prepare('shop', 't1', %s, 'disk', %s, '1 h')", (ids, prefixes))

    def commit(self, ids: Sequence[str]) -> None:
        self.c.execute("SELECT sexton.commit('shop', %s)", (ids,))


@pytest.fixture
def session(rig: Rig) -> Iterator[OwnerSession]:
    with psycopg.connect(rig.url.replace("+psycopg", ""), autocommit=True) as c:
        yield OwnerSession(c)


def test_lost_ids_are_not_compared_with_each_committed_one(session: OwnerSession) -> None:
    ids = [f"r{n}" for n in range(20)]
    session.prepare(ids)
    for _ in range(CALLS):
        with pytest.raises(psycopg.Error, match="SX001 collected: lost was never prepared"):
            session.commit([*ids, "lost"])

    source = session.c.execute("SELECT pg_get_functiondef('sexton.commit(text,text[])'::regprocedure)").fetchone()
    assert "was never prepared" in str(source)
    assert "<> ALL" not in str(source)  # which no plan makes a look-up of


def test_an_old_session_reads_no_other_marks_to_commit(rig: Rig, session: OwnerSession) -> None:
    keep_statistics(rig.db)
    for _ in range(CALLS):
        session.prepare(["r1"])
        session.commit(["r1"])
    run_script(rig.db, FILL)
    with session.c.transaction():
        session.prepare(["r1"])
        session.commit(["r1"])
        read = rows_touched(session.c, "mark", "mark_history")

    assert 0 < read < ORPHANS / 10
