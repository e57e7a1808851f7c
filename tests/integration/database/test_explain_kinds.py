"""PostgreSQL finds kinds with a look-up for each, and reads for a scrape neither all marks nor all checks."""

from typing import Any

import pytest

from sexton.insight.kinds import count_by_kind
from sexton.insight.metrics.figures.store import FigureStore
from sexton.operators.holds.model import Hold
from sexton.recycle.planning.sql.measure import find_kinds, kinds_by_instance
from sexton.replication.replicas.model import Copy, Placement, Tablet
from tests.integration.database.query_plans import (
    FILL,
    bad_plans,
    crowded,
    each_statistics,
    keep_statistics,
    loops,
    maintain,
    recorded,
    rows_read,
    run_script,
)
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance
from tests.servers.postgres import Cluster
from tests.support.rig import INTERVAL, RETENTION, Rig, stores_of

pytestmark = pytest.mark.slow

OTHERS = """
SET LOCAL session_replication_role = replica;
UPDATE sexton.mark SET instance = 'crowd' || right(id, 1), kind = 'own' || length(id);
"""


MORE = """
SET LOCAL session_replication_role = replica;
UPDATE sexton.check_run SET open_counts = '{"ORPHAN": [1, 0]}';
UPDATE sexton.mark SET quarantined_reason = 'UNKNOWN_VAULT' WHERE id IN ('o-1', 'o-2');
"""


def test_kinds_and_figures_are_found_without_reading_all_marks() -> None:
    with crowded(FILL, MORE) as rig:
        for _statistics in each_statistics(rig):
            with recorded(rig.db) as sent, rig.db.read() as c:
                kinds = find_kinds(rig.db, c, "crowd", RETENTION)
            assert kinds.names == ["dropped"]
            assert rows_read(rig.db, sent) < 100

            figures = FigureStore(rig.db, stores_of(rig.db).insight, rig.policy, INTERVAL)
            with recorded(rig.db) as sent:
                (found,) = figures.read().instances
            faults = {fault for of_statement in bad_plans(rig.db, sent).values() for fault in of_statement}
            assert (found.quarantined, found.findings) == ({"UNKNOWN_VAULT": 2}, {"ORPHAN": (1, 0)})
            assert faults.isdisjoint({"reads all of mark", "reads all of check_run"})


def test_kinds_of_many_instances_are_found_by_look_ups() -> None:
    names = [f"crowd{n}" for n in range(10)]
    with crowded(FILL, OTHERS) as rig:
        for name in names:
            rig.instance(name)
        for _statistics in each_statistics(rig):
            with recorded(rig.db) as sent, rig.db.read() as c:
                kinds = kinds_by_instance(rig.db, c, dict.fromkeys(names, RETENTION))
            cutoffs = {("crowd3", "own5"): 2**42, ("crowd3", "own6"): None, ("crowd3", "no"): 0}
            with recorded(rig.db) as counted, rig.db.read() as c:
                counts = count_by_kind(rig.db, c, cutoffs)

            of_lowest, of_third = ([f"own{n}" for n in range(least, 8)] for least in (4, 3))
            assert [kinds["crowd0"].names, kinds["crowd3"].names] == [of_lowest, of_third]
            assert [len(sent), len(counted)] == [1, 2]  # with a SET LOCAL
            assert rows_read(rig.db, sent) < 1_000
            assert [(count.later, count.due) for count in counts.values()] == [(0, 90), (900, 0), (0, 0)]
            assert rows_read(rig.db, counted) < 5_000


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


TABLETS = 2_000


def placement(*backends: str) -> Placement:
    tablets = (
        Tablet(tablet=f"t{n}", part=f"p{n % 10}", copies=tuple(Copy(backend=b, uid=f"{b}-{n}") for b in backends))
        for n in range(TABLETS)
    )
    return Placement(db=DB, table="orders", tablets=tuple(tablets))


def test_a_placement_joins_no_copies() -> None:
    with crowded() as rig:
        binlogs = BinlogInstance(rig.db)
        place = binlogs.service.placements.place
        with recorded(rig.db) as stale:
            placed = [place(SHOP, placement(*backends)) for backends in (("b1", "b2"), ("b2", "b3"))]
        assert loops(rig.db, stale) == []
        maintain(rig.db, "ANALYZE")
        with recorded(rig.db) as fresh:
            placed.append(place(SHOP, placement("b3", "b4")))
        assert loops(rig.db, fresh) == []

        counts = [(p.added, p.kept, p.removed) for p in placed]
        assert counts == [(4_000, 0, 0), (2_000, 2_000, 2_000), (2_000, 2_000, 2_000)]
