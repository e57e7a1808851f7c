"""Marks are listed page by page: each once, in a stable order, whatever their state."""

from collections.abc import Iterator

import pytest

from sexton import contract
from sexton.contract import NewMark
from sexton.insight.marks import Listed, MarkFilter, MarkListing, SearchedPlace, in_plan
from sexton.insight.views import ListedMark
from sexton.kernel.errors import BadInput
from sexton.marks.model import Ref
from tests.servers.postgres import new_database, shared
from tests.support.rig import Rig


def fill(rig: Rig) -> None:
    """Make marks that wait, are claimed, fenced and quarantined."""
    with rig.db.write() as c:
        for kind in ("compacted", "dropped"):
            marks = [
                NewMark(id=f"{kind}-{n:02}", vault="hot", keys=(f"{kind}/{n}.dat",), parent=("table", str(n % 2)))
                for n in range(12)
            ]
            contract.mark(c, "shop", kind, marks)
        contract.mark(c, "other", "dropped", [NewMark(id="of-other", vault="hot", keys=("x",))])
        for sql in (
            "UPDATE {} SET state = 'CLAIMED', batch = 1, last_file = 5 WHERE id IN ('dropped-03', 'compacted-04')",
            "UPDATE {} SET quarantined_reason = 'NO_VAULT' WHERE id IN ('dropped-05', 'dropped-06')",
            "UPDATE {} SET state = 'FENCED' WHERE id = 'dropped-07'",
        ):
            c.exec_driver_sql(sql.format(rig.db.t.mark.fullname))


def listed(rig: Rig, wanted: MarkFilter, limit: int) -> list[ListedMark]:
    """Return all marks of a filter, read in pages."""
    listing, marks, after = MarkListing(rig.db, rig.policy), [], ""
    while True:
        with rig.db.read() as c:
            page = listing.page(c, wanted, after, limit)
        assert len(page.items) <= limit
        marks += page.items
        after = page.next
        if not after:
            return marks


@pytest.fixture(scope="module")
def only_read() -> Iterator[Rig]:
    """Marks that no test changes."""
    rig = Rig(shared().keep(new_database())).instance().instance("other")
    fill(rig)
    yield rig
    rig.db.close()
    shared().drop_database(rig.url)


@pytest.fixture
def filled(rig: Rig) -> Rig:
    fill(rig.instance("other"))
    return rig


def test_pages_list_each_mark_of_the_instance_once(only_read: Rig) -> None:
    for limit in (1, 5, 100):
        marks = listed(only_read, MarkFilter("shop"), limit)

        assert len({(m.kind, m.mark) for m in marks}) == len(marks) == 24
        assert [m.quarantined for m in marks[-2:]] == ["NO_VAULT", "NO_VAULT"]
        assert [m.state for m in marks[-4:-2]] == ["CLAIMED", "CLAIMED"]
        assert {m.instance for m in marks} == {"shop"}


def test_filters_list_only_what_they_name(only_read: Rig) -> None:
    for wanted, marks in [
        (MarkFilter("shop", "dropped", Listed.WAITING), 9),
        (MarkFilter("shop", "dropped", Listed.CLAIMED), 1),
        (MarkFilter("shop", "", Listed.QUARANTINED), 2),
        (MarkFilter("shop", "", Listed.FENCED), 1),
        (MarkFilter("shop", "", None, Ref("table", "1")), 12),
        (MarkFilter("shop", "dropped", None, Ref("table", "1")), 6),
        (MarkFilter("shop", "dropped", None, Ref("table", "9")), 0),
        (MarkFilter("shop", "orphan"), 0),
    ]:
        assert [len(listed(only_read, wanted, limit)) for limit in (2, 100)] == [marks, marks]


def test_a_mark_shows_when_it_is_due_and_its_parent(only_read: Rig) -> None:
    [mark] = listed(only_read, MarkFilter("shop", "", Listed.FENCED), 10)

    assert (mark.due_at, mark.parent, mark.keys) == (mark.marked_at + 10_800_000, "table/1", 1)


def test_a_place_of_another_list_is_refused(only_read: Rig) -> None:
    for place in [
        *("x", "WAITING/dropped/soon/id", "CLAIMED/1", "CHILD/dropped/x", "WAITING/none/1/x"),
        *(f"WAITING/dropped/{number}/x" for number in (253402300800000, -62135596800001, 2**63, "\u0661")),
        *(f"CLAIMED/{number}/1/dropped/x" for number in (2**63, -(2**63) - 1)),
    ]:
        with only_read.db.read() as c, pytest.raises(BadInput, match="is no place in this list"):
            MarkListing(only_read.db, only_read.policy).page(c, MarkFilter("shop"), place)


def test_marks_are_searched_by_the_beginning_of_a_key(rig: Rig) -> None:
    with rig.db.write() as c:
        marks = [
            NewMark(id="key", vault="hot", keys=("data/a.dat",)),
            NewMark(id="quoted", vault="hot", keys=('data/"q"\\.dat',)),
            NewMark(id="folder", vault="hot", prefix="data/f/"),
            NewMark(id="many", vault="hot", keys=("x/a", "x/über")),
        ]
        contract.mark(c, "shop", "dropped", marks)
    for under, found in [
        ("data/", {"key", "quoted", "folder"}),
        ("data/a", {"key"}),
        ("data/a.dat.old", set()),
        ('data/"q"\\', {"quoted"}),
        ('q"', set()),
        ("data/f/2026/x.dat", {"folder"}),
        ("data/f", {"folder"}),
        ("%", set()),
        ("x/ü", {"many"}),
        ("", {"key", "quoted", "folder", "many"}),
    ]:
        assert {
            mark.mark
            for mark in listed(rig, MarkFilter("shop", under=[SearchedPlace(None, under)] if under else ()), 2)
        } == found


def test_a_plan_and_a_search_list_only_marks_of_their_own(filled: Rig) -> None:
    filled.later(10_801)
    plan = filled.plan("shop")
    filled.later(1)
    filled.mark("dropped", NewMark(id="later", vault="hot", keys=("dropped/later.dat",)))
    filled.later(10_801)

    of_plan = listed(filled, in_plan(plan), 5)

    assert {(m.kind, m.mark) for m in of_plan} == {
        (m.kind, m.mark) for m in listed(filled, MarkFilter("shop", "", Listed.WAITING), 100) if m.mark != "later"
    }
    assert [m.mark for m in listed(filled, in_plan(plan, "dropped", [SearchedPlace("hot", "dropped/1.d")]), 5)] == [
        "dropped-01"
    ]
    filled.mark("dropped", NewMark(id="cold", vault="cold", keys=("dropped/1.dat",)))
    for vault, key, found in (("cold", "", "cold"), ("hot", "dropped/1.", "dropped-01")):
        wanted = MarkFilter("shop", under=[SearchedPlace(vault, key)])
        assert [m.mark for m in listed(filled, wanted, 5)] == [found]
