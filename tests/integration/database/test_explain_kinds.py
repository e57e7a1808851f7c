"""PostgreSQL finds the kinds of marks that wait with a look-up for each kind, also with statistics of empty tables."""

from sexton.recycle.planning.sql.measure import find_kinds
from tests.integration.database.query_plans import FILL, keep_statistics, maintain, recorded, rows_read, run_script
from tests.servers.postgres import Cluster
from tests.support.rig import RETENTION, Rig


def test_the_kinds_are_found_without_reading_all_marks(postgres: Cluster) -> None:
    rig = Rig(postgres.new_database()).instance("crowd")
    keep_statistics(rig.db)
    maintain(rig.db, "ANALYZE")
    run_script(rig.db, FILL)
    with recorded(rig.db) as sent, rig.db.read() as c:
        kinds = find_kinds(rig.db, c, "crowd", RETENTION)
    read = rows_read(rig.db, sent)
    rig.db.close()

    assert kinds.names == ["dropped"]
    assert read < 100
