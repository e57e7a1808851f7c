"""PostgreSQL compares no mark with each descendant of a mark that is held, whatever its statistics say."""

from typing import Any

import pytest

from sexton.operators.holds.model import Hold
from tests.integration.database.query_plans import keep_statistics, maintain, recorded, rows_read, run_script
from tests.servers.postgres import Cluster
from tests.support.rig import Rig

FEW, MANY = 500, 2_000
LITTLE_MEMORY = """
DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET work_mem = ''64kB'''; END $$;
"""
"""With 64 KiB, as many marks are too many to hash as 20,000 are with the default."""
CHILDREN = """
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, keys, bytes, marked_at, parent_kind, parent_id)
    SELECT 'shop', 'dropped', 'm-' || n, 'disk', jsonb_build_array('data/' || n || '.dat'), 10,
        date_trunc('milliseconds', clock_timestamp() - interval '1 day'), 'table', 't'
    FROM generate_series(1, {children}) n;
"""


def reads(url: str, children: int, *, analyzed: bool) -> dict[str, int]:
    """Return how many rows it takes to place a hold on a parent, to count what it blocks, and to plan."""
    setup = Rig(url).instance()
    run_script(setup.db, LITTLE_MEMORY)
    keep_statistics(setup.db)
    maintain(setup.db, "ANALYZE")
    setup.db.close()
    rig = Rig(url)
    run_script(rig.db, CHILDREN.format(children=children))
    if analyzed:
        maintain(rig.db, "VACUUM ANALYZE")
    hold = Hold(instance="shop", scope="mark", mark_kind="table", mark_id="t", reason="a test")
    sent: dict[str, dict[str, Any]] = {}
    with recorded(rig.db) as sent["place"]:
        placed, _ = rig.holds.place(hold, 86_400)
    with recorded(rig.db) as sent["count"]:
        assert rig.holds.count_blocked(placed) == (children, 0, 0)
    with recorded(rig.db) as sent["plan"]:
        (planned,) = rig.plan().kinds
    assert [held.marks for held in planned.held] == [children]
    found = {what: rows_read(rig.db, statements) for what, statements in sent.items()}
    rig.db.close()
    return found


@pytest.mark.parametrize("analyzed", [False, True], ids=["empty", "marked"])
def test_a_hold_on_a_parent_costs_a_look_up_for_each_child(postgres: Cluster, analyzed: bool) -> None:
    few = reads(postgres.new_database(), FEW, analyzed=analyzed)
    many = reads(postgres.new_database(), MANY, analyzed=analyzed)

    assert {what: (few[what], many[what]) for what in few if many[what] > 6 * few[what]} == {}
