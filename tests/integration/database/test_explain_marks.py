"""PostgreSQL lists and finds marks by indexes, whatever its statistics say."""

import pytest

from sexton.insight.marks import Listed, MarkFilter, MarkListing
from sexton.marks.model import Ref
from tests.integration.database.query_plans import crowded, each_statistics, recorded, rows_read
from tests.support.stories import stories_of

pytestmark = pytest.mark.slow

FILL = """
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, keys, marked_at, parent_kind, parent_id, state, batch, last_file,
        quarantined_reason)
    SELECT CASE n %% 2 WHEN 0 THEN 'crowd' ELSE 'other' END, CASE n %% 3 WHEN 0 THEN 'dropped' ELSE 'compacted' END,
        'o-' || n, 'disk', CASE n %% 1000 WHEN 2 THEN jsonb_build_array('one/' || n, 'two/' || n)
            ELSE jsonb_build_array('one/' || n) END, date_trunc('second', now()) - n * interval '1 second',
        'table', n / 1000, CASE n %% 50 WHEN 0 THEN 'CLAIMED' ELSE 'MARKED' END, CASE n %% 50 WHEN 0 THEN n / 1000 END,
        CASE n %% 50 WHEN 0 THEN n END, CASE WHEN n %% 5000 = 2 THEN 'NO_VAULT' END
    FROM generate_series(1, 200000) n;
INSERT INTO sexton.mark_history
    (instance, kind, id, vault, keys, objects, bytes, marked_at, claimed_at, gone_at, batch, round)
    SELECT 'crowd', 'dropped', 'h-' || n, 'disk', CASE n %% 1000 WHEN 2 THEN jsonb_build_array('old/' || n, 'two/' || n)
        ELSE jsonb_build_array('old/' || n) END, 1, 10, now(), now(), now(), 1, 1 FROM generate_series(1, 200000) n;
"""
"""200,000 marks of two instances, and as many that are deleted; one in 1,000 has two keys."""
LIMIT = 100


PAGES = [
    (MarkFilter("crowd"), "", 1_500),
    (MarkFilter("crowd", "dropped"), "WAITING/dropped/1690000000000/o-1", 1_500),
    (MarkFilter("crowd", "", Listed.CLAIMED), "CLAIMED/100/100000/dropped/o-1", 1_500),
    (MarkFilter("crowd", "", Listed.QUARANTINED), "", 1_500),
    (MarkFilter("crowd", "", Listed.FENCED), "", 100),
    (MarkFilter("crowd", "", None, Ref("table", "7")), "CHILD/dropped/o-1", 5_000),
]
"""What is listed, after which mark, and how many rows may be read for it."""
NAMES: dict[str, set[str]] = {
    "one/4": {"o-4"},
    "two/2002": {"o-2002", "h-2002"},
    "old/7": {"h-7"},
    "o-4": {"o-4"},
    "absent/8": set(),
}
"""A key or an id, and the marks that ``sexton why`` finds for it."""


def test_a_page_of_marks_and_a_story_read_few_rows(subtests: pytest.Subtests) -> None:
    with crowded(FILL) as rig:
        for statistics in each_statistics(rig):
            for wanted, after, most in PAGES:
                with subtests.test(statistics=statistics, wanted=wanted):
                    with recorded(rig.db) as sent, rig.db.read() as c:
                        page = MarkListing(rig.db, rig.policy).page(c, wanted, after, LIMIT)

                    assert rows_read(rig.db, sent) < most
                    assert page.items or wanted.state is Listed.FENCED
            for name, found in NAMES.items():
                with subtests.test(statistics=statistics, name=name):
                    with recorded(rig.db) as sent:
                        stories = stories_of(rig, name, "crowd")

                    assert {story.id for story in stories} == found
                    assert rows_read(rig.db, sent) < 2_500
