"""A hold blocks deletion of all descendants of the mark it names, at any depth and however late they are marked."""

from pathlib import Path

from sqlalchemy import event

from sexton.contract import NewMark
from sexton.insight.why.blocking import WhyContext
from sexton.insight.why.story import story
from sexton.marks.model import Ref
from sexton.marks.sql.ancestors import PARENT_LEVELS, TOO_MANY_LEVELS, find_ancestors
from sexton.operators.holds.model import Hold
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put, stores_of

DAY = 86_400


def hold(kind: str, id_: str) -> Hold:
    return Hold(instance="shop", scope="mark", mark_kind=kind, mark_id=id_, reason="an incident")


def mark(rig: Rig, root: Path, id_: str, parent: tuple[str, str] | None = None, kind: str = "dropped") -> None:
    put(root, f"{id_}.dat")
    rig.mark(kind, NewMark(id=id_, vault="disk", keys=(f"{id_}.dat",), parent=parent))


def test_a_hold_reaches_through_ancestors_in_old_history(rig: Rig, root: Path) -> None:
    mark(rig, root, "i1", ("table", "t1"))
    rig.later(10_801)
    rig.round()
    mark(rig, root, "p1", ("dropped", "i1"))
    rig.later(10_801)
    rig.round()
    mark(rig, root, "r1", ("dropped", "p1"))
    placed, _ = rig.holds.place(hold("table", "t1"), 365 * DAY)
    rig.later(10_801)
    rig.round()
    rig.later(31 * DAY)

    rig.round()
    report = rig.round()

    assert kept_texts(report) == {f"hold {placed.id}": 1}
    assert list(listing(root)) == ["r1.dat"]
    rig.holds.release(placed.id)
    rig.round()
    rig.later(31 * DAY)
    for _ in range(4):
        rig.round()
    assert rig.count("mark_history") == 0  # a chain frees itself from below


def test_a_hold_reaches_any_depth_and_survives_cycles(rig: Rig, root: Path) -> None:
    for n in range(20):
        mark(rig, root, f"m{n}", ("dropped", f"m{n - 1}") if n else ("table", "top"))
    for one, other in (("a", "b"), ("b", "a")):
        mark(rig, root, one, ("dropped", other))
    placed, _ = rig.holds.place(hold("table", "top"), DAY)
    rig.later(10_801)

    report = rig.round()

    assert kept_texts(report) == {f"hold {placed.id}": 16, f"hold {placed.id} ({TOO_MANY_LEVELS})": 4}
    assert len(listing(root)) == 20


def test_a_late_hold_counts_claimed_grandchildren(rig: Rig, root: Path) -> None:
    for id_, parent in (("child", "top"), ("grandchild", "child")):
        put(root, f"{id_}/x.dat")
        rig.mark("dropped", NewMark(id=id_, vault="disk", prefix=f"{id_}/", parent=("dropped", parent)))
    mark(rig, root, "top")
    rig.later(10_801)
    rig.round()
    mark(rig, root, "young", ("dropped", "top"))

    placed, late = rig.holds.place(hold("dropped", "top"), DAY)
    rig.later(10_801)

    assert late == 2
    assert kept_texts(rig.round()) == {f"hold {placed.id}": 3}  # the young one, and two prefixes at their last look
    assert "young.dat" in listing(root)


def test_no_hold_is_missed_beyond_the_levels_that_are_read(rig: Rig, root: Path) -> None:
    for n in range(18):
        mark(rig, root, f"m{n}", ("dropped", f"m{n - 1}") if n else ("table", "top"))
    rig.later(10_801)
    other, _ = rig.holds.place(hold("table", "another"), DAY)
    stores = stores_of(rig.db)
    why = WhyContext(rig.policy, stores.insight, stores.owners, stores.audit)

    planned = rig.plan()
    (mark_story,) = story(rig.db, "m17", "shop", why)
    report = rig.round()

    assert [(held.hold, held.marks) for kind in planned.kinds for held in kind.held] == [(other.id, 2)]
    assert any(f"kept by hold {other.id} ({TOO_MANY_LEVELS})" in shown.text for shown in mark_story.events)
    assert kept_texts(report) == {f"hold {other.id} ({TOO_MANY_LEVELS})": 2}
    assert set(listing(root)) == {"m16.dat", "m17.dat"}
    rig.holds.release(other.id)
    rig.round()
    assert not listing(root)


def test_the_count_of_a_hold_has_marks_with_too_many_levels(rig: Rig, root: Path) -> None:
    for n in range(18):
        mark(rig, root, f"m{n}", ("dropped", f"m{n - 1}") if n else ("table", "top"))
    first, _ = rig.holds.place(hold("table", "another"), DAY)
    second, _ = rig.holds.place(hold("table", "a third"), DAY)
    rig.later(10_801)

    counts = rig.holds.count_blocked(first), rig.holds.count_blocked(second)

    assert counts == ((0, 0, 2), (0, 0, 2))  # each alone would block both
    assert kept_texts(rig.round()) == {f"hold {first.id} ({TOO_MANY_LEVELS})": 2}
    rig.holds.release(first.id)
    assert rig.holds.count_blocked(second) == (0, 0, 2)


def test_a_chain_that_marks_share_is_read_once(rig: Rig) -> None:
    marks = [NewMark(id=f"m{n}", vault="disk", keys=(f"{n}",), parent=("dropped", f"m{n - 1}")) for n in range(1, 301)]
    rig.mark("dropped", *marks)
    refs = [Ref("dropped", f"m{n}") for n in range(101, 301)]
    statements: list[str] = []

    with rig.db.read() as c:
        event.listen(c, "before_cursor_execute", lambda _c, _cursor, statement, *_: statements.append(statement))
        lineages = find_ancestors(rig.db, c, "shop", refs)

    assert not any(lineage.is_whole for lineage in lineages.values())
    assert {len(lineage.refs) for lineage in lineages.values()} == {PARENT_LEVELS + 1}
    assert len(statements) == 2 * (PARENT_LEVELS + 1)
