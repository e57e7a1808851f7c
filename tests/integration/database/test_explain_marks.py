"""PostgreSQL lists marks from indexes, a page at a time, whatever its statistics say."""

from collections.abc import Iterator

import pytest

from sexton.insight.marks import Listed, MarkFilter, MarkListing
from sexton.marks.model import Ref
from tests.integration.database.query_plans import keep_statistics, maintain, recorded, rows_read, run_script
from tests.servers.postgres import Cluster
from tests.support.rig import Rig

FILL = """
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, keys, marked_at, parent_kind, parent_id, state, batch, last_file,
        quarantined_reason)
    SELECT CASE n %% 2 WHEN 0 THEN 'crowd' ELSE 'other' END, CASE n %% 3 WHEN 0 THEN 'dropped' ELSE 'compacted' END,
        'o-' || n, 'disk', '["k"]', date_trunc('second', now()) - n * interval '1 second', 'table', n / 1000,
        CASE n %% 50 WHEN 0 THEN 'CLAIMED' ELSE 'MARKED' END, CASE n %% 50 WHEN 0 THEN n / 1000 END,
        CASE n %% 50 WHEN 0 THEN n END, CASE WHEN n %% 5000 = 2 THEN 'NO_VAULT' END
    FROM generate_series(1, 200000) n;
"""
"""200,000 marks of two instances."""
LIMIT = 100


@pytest.fixture(scope="module", params=["empty", "full"])
def crowd(request: pytest.FixtureRequest, postgres: Cluster) -> Iterator[Rig]:
    """Two instances with 100,000 marks each, with statistics of an empty table, or of this one."""
    rig = Rig(postgres.create_database()).instance("crowd")
    keep_statistics(rig.db)
    if request.param == "empty":
        maintain(rig.db, "ANALYZE")
    run_script(rig.db, FILL)
    if request.param == "full":
        maintain(rig.db, "VACUUM ANALYZE")
    yield rig
    rig.db.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "after", "most"),
    [
        (MarkFilter("crowd"), "", 1_500),
        (MarkFilter("crowd", "dropped"), "WAITING/dropped/1690000000000/o-1", 1_500),
        (MarkFilter("crowd", "", Listed.CLAIMED), "CLAIMED/100/100000/dropped/o-1", 1_500),
        (MarkFilter("crowd", "", Listed.QUARANTINED), "", 1_500),
        (MarkFilter("crowd", "", Listed.FENCED), "", 100),
        (MarkFilter("crowd", "", None, Ref("table", "7")), "CHILD/dropped/o-1", 5_000),
    ],
    ids=["all", "kind", "claimed", "quarantined", "fenced", "parent"],
)
def test_a_page_reads_few_rows(crowd: Rig, wanted: MarkFilter, after: str, most: int) -> None:
    with recorded(crowd.db) as sent, crowd.db.read() as c:
        page = MarkListing(crowd.db, crowd.policy).page(c, wanted, after, LIMIT)

    assert rows_read(crowd.db, sent) < most
    assert page.marks or wanted.state is Listed.FENCED
