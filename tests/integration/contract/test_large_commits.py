"""A commit looks up its ids alone: also where some of many are lost, and in a session older than the marks."""

import re
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from tests.integration.database.query_plans import keep_statistics, run_script
from tests.machine import REASON
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
    """A session that prepares and commits; ``plans``: of each statement that ran in it, with rows."""

    def __init__(self, c: psycopg.Connection) -> None:
        self._c = c
        self.plans: list[str] = []
        c.add_notice_handler(lambda notice: self.plans.append(str(notice.message_primary)))
        try:
            c.execute("LOAD 'auto_explain'")
        except psycopg.errors.UndefinedFile:
            pytest.skip(f"{REASON}auto_explain, which PostgreSQL from the wheel lacks")
        for setting in ("log_min_duration = 0", "log_nested_statements = on", "log_analyze = on", "log_level = notice"):
            c.execute(f"SET auto_explain.{setting}".encode())

    def prepare(self, ids: Sequence[str]) -> None:
        prefixes = [f"{id_}/" for id_ in ids]
        self._c.execute("SELECT sexton.prepare('shop', 't1', %s, 'disk', %s, '1 h')", (ids, prefixes))

    def commit(self, ids: Sequence[str]) -> None:
        self._c.execute("SELECT sexton.commit('shop', %s)", (ids,))


@pytest.fixture
def session(postgres_rig: Rig) -> Iterator[OwnerSession]:
    with psycopg.connect(postgres_rig.url.replace("+psycopg", ""), autocommit=True) as c:
        yield OwnerSession(c)


def test_lost_ids_are_not_compared_with_each_committed_one(session: OwnerSession) -> None:
    ids = [f"r{n}" for n in range(20)]
    session.prepare(ids)
    for _ in range(CALLS):
        with pytest.raises(psycopg.Error, match="SX001 collected: lost was never prepared"):
            session.commit([*ids, "lost"])

    assert sum("was never prepared" in plan for plan in session.plans) == CALLS
    assert not any("<> ALL (" in plan for plan in session.plans)


def test_an_old_session_reads_no_other_marks_to_commit(postgres_rig: Rig, session: OwnerSession) -> None:
    keep_statistics(postgres_rig.db)
    for _ in range(CALLS):
        session.prepare(["r1"])
        session.commit(["r1"])
    run_script(postgres_rig.db, FILL)
    session.plans.clear()
    session.prepare(["r1"])
    session.commit(["r1"])

    left_out = [int(n) for plan in session.plans for n in re.findall(r"Rows Removed by Filter: (\d+)", plan)]
    assert any("'orphan'" in plan for plan in session.plans)
    assert sum(left_out) < ORPHANS / 10
