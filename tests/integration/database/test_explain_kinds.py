"""PostgreSQL finds kinds with a look-up for each, and reads for a scrape neither all marks nor all checks."""

from collections.abc import Iterator

import pytest

from sexton.insight.metrics.figures.store import FigureStore
from sexton.recycle.planning.sql.measure import count_by_kind, find_kinds, kinds_by_instance
from tests.integration.database.query_plans import (
    FILL,
    bad_plans,
    crowded,
    maintain,
    recorded,
    rows_read,
    run_script,
)
from tests.support.rig import INTERVAL, RETENTION, Rig, stores_of

OTHERS = """
SET LOCAL session_replication_role = replica;
UPDATE sexton.mark SET instance = 'crowd' || right(id, 1), kind = 'own' || length(id);
"""


@pytest.fixture
def rig() -> Iterator[Rig]:
    """An instance with 20,000 marks, of which PostgreSQL knows nothing."""
    with crowded("empty", FILL) as rig:
        yield rig


def test_the_kinds_are_found_without_reading_all_marks(rig: Rig) -> None:
    with recorded(rig.db) as sent, rig.db.read() as c:
        kinds = find_kinds(rig.db, c, "crowd", RETENTION)

    assert kinds.names == ["dropped"]
    assert rows_read(rig.db, sent) < 100


@pytest.mark.parametrize("statistics", ["empty", "full"])
def test_kinds_of_many_instances_are_found_by_look_ups(rig: Rig, statistics: str) -> None:
    names = [f"crowd{n}" for n in range(10)]
    for name in names:
        rig.instance(name)
    run_script(rig.db, OTHERS)
    if statistics == "full":
        maintain(rig.db, "VACUUM ANALYZE")
    with recorded(rig.db) as sent, rig.db.read() as c:
        kinds = kinds_by_instance(rig.db, c, dict.fromkeys(names, RETENTION))
    with recorded(rig.db) as counted, rig.db.read() as c:
        counts = count_by_kind(rig.db, c, {("crowd3", "own5"): 2**42, ("crowd3", "own6"): None, ("crowd3", "no"): 0})

    faults = {fault for of_statement in bad_plans(rig.db, counted).values() for fault in of_statement}
    assert [kinds["crowd0"].names, kinds["crowd3"].names] == [[f"own{n}" for n in range(least, 8)] for least in (4, 3)]
    assert [len(sent), len(counted)] == [1, 1]
    assert rows_read(rig.db, sent) < 1_000
    assert [(count.waiting, count.due) for count in counts.values()] == [(90, 90), (900, 0), (0, 0)]
    assert "reads all of mark" not in faults


MORE = """
SET LOCAL session_replication_role = replica;
UPDATE sexton.check_run SET open_counts = '{"ORPHAN": [1, 0]}';
UPDATE sexton.mark SET quarantined_reason = 'UNKNOWN_VAULT' WHERE id IN ('o-1', 'o-2');
"""


@pytest.fixture(params=["empty", "full"])
def crowd(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """An instance with 20,000 marks and checks."""
    with crowded(request.param, FILL, MORE) as rig:
        yield rig


def test_a_scrape_reads_neither_all_marks_nor_all_checks(crowd: Rig) -> None:
    figures = FigureStore(crowd.db, stores_of(crowd.db).insight, crowd.policy, INTERVAL)
    with recorded(crowd.db) as sent:
        (found,) = figures.read().instances

    faults = {fault for of_statement in bad_plans(crowd.db, sent).values() for fault in of_statement}
    assert (found.quarantined, found.findings) == ({"UNKNOWN_VAULT": 2}, {"ORPHAN": (1, 0)})
    assert faults.isdisjoint({"reads all of mark", "reads all of check_run"})
