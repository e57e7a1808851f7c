"""Status counts exactly what is due, and says about how many marks only wait, whatever their number."""

from collections.abc import Iterator

import pytest

from sexton.insight.kinds import MOST_COUNTED, kind_statuses
from sexton.insight.views import KindStatus
from tests.integration.database.query_plans import keep_statistics, maintain, recorded, rows_read, run_script
from tests.servers.postgres import new_database
from tests.support.rig import DAY, Rig

MARKS = """
SET LOCAL session_replication_role = replica;
INSERT INTO sexton.mark (instance, kind, id, vault, keys, bytes, marked_at)
    SELECT '{instance}', '{kind}', '{since}-' || n, 'disk', '["a"]', 10,
        date_trunc('milliseconds', clock_timestamp() - interval '{since}') FROM generate_series(1, {number}) n;
"""


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig(new_database()).instance("shop").instance("lake")
    keep_statistics(rig.db)
    yield rig
    rig.db.close()


def add(rig: Rig, instance: str, kind: str, number: int, since: str = "0d") -> None:
    """Add marks of a kind, made so long ago; no trigger runs, and no statistics are made."""
    run_script(rig.db, MARKS.format(instance=instance, kind=kind, number=number, since=since))


def statuses(rig: Rig) -> dict[tuple[str, str], KindStatus]:
    """Return the status of each kind of each instance."""
    with rig.db.read() as c:
        found, _ = kind_statuses(rig.db, c, {"shop": rig.policy, "lake": rig.policy}, rig.db.now(c))
    return {(instance, kind.kind): kind for instance in found for kind in found[instance]}


def waiting(rig: Rig, instance: str = "shop", kind: str = "dropped") -> tuple[str, int]:
    status = statuses(rig)[instance, kind]
    return status.waiting_is, status.waiting


def test_what_is_due_is_exact_beside_any_number_of_waiting_marks(rig: Rig) -> None:
    add(rig, "shop", "dropped", 2 * MOST_COUNTED + 7, since="2d")
    add(rig, "shop", "dropped", 2 * MOST_COUNTED)
    for _ in ("before statistics", "after"):
        status = statuses(rig)["shop", "dropped"]
        assert (status.due, status.due_bytes) == (20_007, 200_070)
        assert status.oldest is not None
        assert status.next_due is not None
        assert status.next_due - status.oldest > DAY * 1_000
        maintain(rig.db, "ANALYZE sexton.mark")


def test_as_many_marks_as_are_counted_are_exact(rig: Rig) -> None:
    add(rig, "shop", "dropped", MOST_COUNTED)
    maintain(rig.db, "ANALYZE sexton.mark")
    assert waiting(rig) == ("exact", MOST_COUNTED)

    add(rig, "shop", "dropped", 1, since="1min")
    assert waiting(rig) == ("at least", MOST_COUNTED)


def test_statistics_say_about_how_many_marks_of_each_kind_wait(rig: Rig) -> None:
    add(rig, "shop", "dropped", 10 * MOST_COUNTED)
    add(rig, "shop", "compacted", 2 * MOST_COUNTED)
    add(rig, "lake", "compacted", 10 * MOST_COUNTED)  # a kind that is rare in one instance is most of another
    maintain(rig.db, "ANALYZE sexton.mark")

    for (instance, kind), number in {
        ("shop", "dropped"): 10,
        ("shop", "compacted"): 2,
        ("lake", "compacted"): 10,
    }.items():
        how, marks = waiting(rig, instance, kind)
        assert (how, marks == pytest.approx(number * MOST_COUNTED, rel=0.2)) == ("about", True), (instance, kind, marks)


def test_without_fresh_statistics_a_status_says_at_least(rig: Rig) -> None:
    add(rig, "shop", "dropped", 2 * MOST_COUNTED)
    assert waiting(rig) == ("at least", MOST_COUNTED)  # there are none

    maintain(rig.db, "ANALYZE sexton.mark")
    assert waiting(rig)[0] == "about"

    add(rig, "lake", "dropped", 2 * MOST_COUNTED)  # they do not know of these, and believe that there are more of shop
    assert (waiting(rig), waiting(rig, "lake")) == (("at least", MOST_COUNTED),) * 2


def test_a_status_reads_as_much_of_many_waiting_marks_as_of_some(rig: Rig) -> None:
    read = []
    add(rig, "shop", "dropped", MOST_COUNTED)
    for more in (0, 4 * MOST_COUNTED, 0):
        add(rig, "shop", "dropped", more, since="1h")
        with recorded(rig.db) as sent:
            statuses(rig)
        read.append(rows_read(rig.db, sent))
        if more:
            maintain(rig.db, "VACUUM ANALYZE sexton.mark")

    assert max(read) <= 1.5 * read[0], read
