"""Marks are listed page by page: each once, in a stable order, whatever their state."""

import pytest

from sexton import contract
from sexton.contract import NewMark
from sexton.insight.marks import Listed, MarkFilter, MarkListing
from sexton.insight.views import ListedMark
from sexton.kernel.errors import BadInput
from sexton.marks.model import Ref
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
        assert len(page.marks) <= limit
        marks += page.marks
        after = page.next
        if not after:
            return marks


@pytest.fixture
def filled(rig: Rig) -> Rig:
    rig.instance("shop")
    rig.instance("other")
    fill(rig)
    return rig


@pytest.mark.parametrize("limit", [1, 5, 100])
def test_pages_list_each_mark_of_the_instance_once(filled: Rig, limit: int) -> None:
    marks = listed(filled, MarkFilter("shop"), limit)

    assert len({(m.kind, m.mark) for m in marks}) == len(marks) == 24
    assert [m.quarantined for m in marks[-2:]] == ["NO_VAULT", "NO_VAULT"]
    assert [m.state for m in marks[-4:-2]] == ["CLAIMED", "CLAIMED"]
    assert {m.instance for m in marks} == {"shop"}


@pytest.mark.parametrize(
    ("wanted", "marks"),
    [
        (MarkFilter("shop", "dropped", Listed.WAITING), 9),
        (MarkFilter("shop", "dropped", Listed.CLAIMED), 1),
        (MarkFilter("shop", "", Listed.QUARANTINED), 2),
        (MarkFilter("shop", "", Listed.FENCED), 1),
        (MarkFilter("shop", "", None, Ref("table", "1")), 12),
        (MarkFilter("shop", "dropped", None, Ref("table", "1")), 6),
        (MarkFilter("shop", "dropped", None, Ref("table", "9")), 0),
        (MarkFilter("shop", "orphan"), 0),
    ],
)
def test_filters_list_only_what_they_name(filled: Rig, wanted: MarkFilter, marks: int) -> None:
    assert [len(listed(filled, wanted, limit)) for limit in (2, 100)] == [marks, marks]


def test_a_mark_shows_when_it_is_due_and_its_parent(filled: Rig) -> None:
    [mark] = listed(filled, MarkFilter("shop", "", Listed.FENCED), 10)

    assert (mark.due_at, mark.parent, mark.keys) == (mark.marked_at + 10_800_000, "table/1", 1)


@pytest.mark.parametrize("place", ["x", "WAITING/dropped/soon/id", "CLAIMED/1", "CHILD/dropped/x", "WAITING/none/1/x"])
def test_a_place_of_another_list_is_refused(filled: Rig, place: str) -> None:
    with filled.db.read() as c, pytest.raises(BadInput, match="is no place in this list"):
        MarkListing(filled.db, filled.policy).page(c, MarkFilter("shop"), place)
