"""PostgreSQL reads neither all marks nor all checks for a scrape of the metrics, whatever its statistics say."""

from collections.abc import Iterator

import pytest

from sexton.insight.metrics.figures.store import FigureStore
from tests.integration.database.query_plans import FILL, bad_plans, keep_statistics, maintain, recorded, run_script
from tests.servers.postgres import Cluster
from tests.support.rig import INTERVAL, Rig, stores_of

MORE = """
SET LOCAL session_replication_role = replica;
UPDATE sexton.check_run SET open_counts = '{"ORPHAN": [1, 0]}';
UPDATE sexton.mark SET quarantined_reason = 'UNKNOWN_VAULT' WHERE id IN ('o-1', 'o-2');
"""


@pytest.fixture(params=["empty", "full"])
def crowd(request: pytest.FixtureRequest, postgres: Cluster) -> Iterator[Rig]:
    """An instance with 20,000 marks and checks."""
    rig = Rig(postgres.new_database()).instance("crowd")
    keep_statistics(rig.db)
    if request.param == "empty":
        maintain(rig.db, "ANALYZE")
    run_script(rig.db, FILL)
    run_script(rig.db, MORE)
    if request.param == "full":
        maintain(rig.db, "VACUUM ANALYZE")
    yield rig
    rig.db.close()


def test_a_scrape_reads_neither_all_marks_nor_all_checks(crowd: Rig) -> None:
    figures = FigureStore(crowd.db, stores_of(crowd.db).insight, crowd.policy, INTERVAL)
    with recorded(crowd.db) as sent:
        (found,) = figures.read().instances

    faults = {fault for of_statement in bad_plans(crowd.db, sent).values() for fault in of_statement}
    assert (found.quarantined, found.findings) == ({"UNKNOWN_VAULT": 2}, {"ORPHAN": (1, 0)})
    assert faults.isdisjoint({"reads all of mark", "reads all of check_run"})
