"""A hold blocks deletion of every unclaimed mark that it names, and of all descendants, however late."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import event

from sexton.contract import NewMark
from sexton.database.guard import UnknownInstance
from sexton.insight.why.blocking import WhyContext
from sexton.insight.why.story import story
from sexton.kernel import crash_points
from sexton.kernel.errors import BadInput
from sexton.marks import file_list
from sexton.marks.model import Ref
from sexton.marks.sql.rows import PARENT_LEVELS, TOO_MANY_LEVELS, find_ancestors
from sexton.operators.holds.model import Hold
from sexton.operators.holds.store import HoldStore, TooLate
from sexton.storage.model import VaultSpec
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.kept import kept_texts
from tests.support.pauses import Pauses
from tests.support.rig import DAY, GRACE, Rig, listing, put, stores_of


def hold(**fields: str) -> Hold:
    return Hold.model_validate({"instance": "shop", "scope": "instance", "reason": "an incident", **fields})


def mark_hold(kind: str, id_: str) -> Hold:
    return hold(scope="mark", mark_kind=kind, mark_id=id_)


def prefix_hold(prefix: str, vault: str = "disk") -> Hold:
    return hold(scope="prefix", vault=vault, prefix=prefix)


def fill(rig: Rig, root: Path) -> None:
    """Two tables of two marks each, by keys and by prefix, all due."""
    for table in "ab":
        put(root, f"data/{table}1/x.dat")
        put(root, f"data/{table}2/x.dat")
        parent = ("table", table)
        rig.mark("dropped", NewMark(id=f"{table}1", vault="disk", keys=(f"data/{table}1/x.dat",), parent=parent))
        rig.mark("dropped", NewMark(id=f"{table}2", vault="disk", prefix=f"data/{table}2/", parent=parent))
    rig.later(10_801)


def test_a_hold_blocks_the_marks_it_names(rig: Rig, root: Path) -> None:
    for placed_hold, kept_ids in [
        (hold(), "a1 a2 b1 b2"),
        (mark_hold("dropped", "a1"), "a1"),
        (mark_hold("table", "a"), "a1 a2"),
        (prefix_hold("data/a"), "a1 a2"),
        (prefix_hold("data/a2/x"), "a2"),
        (prefix_hold("data/a2/x.dat"), "a2"),
        (prefix_hold(""), "a1 a2 b1 b2"),
        (prefix_hold("data/A"), ""),
        (prefix_hold("data/%"), ""),
    ]:
        fill(rig, root)
        placed, late = rig.holds.place(placed_hold, DAY)

        report = rig.round()

        assert late == 0
        assert set(listing(root)) == {f"data/{name}/x.dat" for name in kept_ids.split()}, placed_hold
        assert kept_texts(report) == ({f"hold {placed.id}": len(kept_ids.split())} if kept_ids else {})
        assert report.claimed == 4 - len(kept_ids.split())
        rig.holds.release(placed.id)
        rig.round()
        assert listing(root) == {}
        rig.round(after=GRACE + 1)
        assert rig.count("mark") == 0
        rig.sql("DELETE FROM {}mark_history")  # the next row makes these marks again


def test_a_hold_of_a_newer_sexton_holds_everything(rig: Rig, root: Path) -> None:
    """During an upgrade an older worker may meet a scope that it does not know."""
    fill(rig, root)
    placed, _ = rig.holds.place(prefix_hold("data/a"), DAY)
    for name in ("hold_scope_check", "hold_names_what_its_scope_needs"):  # as the newer migration does
        rig.sql(f"ALTER TABLE {{}}hold DROP CONSTRAINT {name}")
    rig.sql("UPDATE {}hold SET scope = 'bucket', vault = NULL, prefix = NULL")

    report = rig.round()

    assert kept_texts(report) == {f"hold {placed.id}": 4}
    assert len(listing(root)) == 4
    assert [h.what for h in rig.holds.active("shop")] == ["the whole instance"]


def test_a_hold_expires(rig: Rig, root: Path) -> None:
    fill(rig, root)
    placed, _ = rig.holds.place(hold(), 1_000)
    rig.later(900)
    assert kept_texts(rig.round()) == {f"hold {placed.id}": 4}
    assert [h.id for h in rig.holds.active("shop")] == [placed.id]

    report = rig.round(after=200)

    assert (report.claimed, kept_texts(report)) == (4, {})
    assert rig.holds.active() == []


def test_a_hold_blocks_descendants_of_deleted_parents(rig: Rig, root: Path) -> None:
    put(root, "t.dat")
    put(root, "r.dat")
    rig.mark("dropped", NewMark(id="tablet", vault="disk", keys=("t.dat",), parent=("index", "i")))
    rig.round(after=10_801)
    rig.mark("dropped", NewMark(id="rowset", vault="disk", keys=("r.dat",), parent=("dropped", "tablet")))
    rig.later(10_801)
    placed, _ = rig.holds.place(mark_hold("index", "i"), DAY)

    report = rig.round()

    assert kept_texts(report) == {f"hold {placed.id}": 1}
    assert list(listing(root)) == ["r.dat"]


def test_a_hold_after_the_claim_counts_marks_it_is_too_late_for(rig: Rig, root: Path) -> None:
    fill(rig, root)
    rig.round()

    late = [rig.holds.place(h, DAY)[1] for h in (hold(), prefix_hold("data/a2/"), mark_hold("table", "b"))]

    assert late == [2, 1, 1]  # prefixes wait for their last look, claimed
    for gone in ("a1", "a2"):
        with pytest.raises(TooLate):
            rig.holds.place(mark_hold("dropped", gone), DAY)


def test_a_hold_blocks_the_second_pass(rig: Rig, root: Path) -> None:
    fill(rig, root)
    rig.round()
    put(root, "data/a2/late.dat")
    put(root, "data/b2/late.dat")
    placed, _ = rig.holds.place(prefix_hold("data/a2/"), DAY)

    report = rig.round(after=3_601)

    assert kept_texts(report) == {f"hold {placed.id}": 1}
    assert list(listing(root)) == ["data/a2/late.dat"]
    first = rig.holds.release(placed.id)
    rig.later(5)
    assert rig.holds.release(placed.id) == first
    rig.round()
    assert listing(root) == {}
    rig.later(3_601)  # it found objects: it looks once more
    rig.round()
    assert rig.count("mark") == 0


def test_a_hold_sees_every_file_of_every_list(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_list, "LIST_FILES", 2)
    for name, keys in (("m", ("a/x.dat", "d/x.dat")), ("n", ("b/x.dat", "c/x.dat"))):
        rig.drop_files(root, name, *keys)
        rig.later(10)
    rig.later(10_801)
    rig.holds.place(prefix_hold("c/"), DAY)

    rig.round()

    assert listing(root).keys() == {"b/x.dat", "c/x.dat"}


def test_an_invalid_hold_is_refused(rig: Rig, root: Path) -> None:
    spec = VaultSpec(instance="shop", name="cold", kind="local", location="/v", prefix="wh/", deployment="d", uuid="u")
    rig.registry.insert_vault(spec, "")
    for invalid_hold, seconds, message in [
        (hold(), 0, "lasts"),
        (hold(), 10**12, "lasts"),
        (hold(instance="nobody"), DAY, "nobody"),
        (hold(reason=" "), DAY, "reason"),
        (hold(reason="\udcff"), DAY, "cannot be stored as text"),
        (hold(reason="x" * 501), DAY, "reason"),
        (prefix_hold("a/", "nowhere"), DAY, "no vault nowhere"),
        (prefix_hold("a\0/"), DAY, "NUL"),
        (prefix_hold("/data/a/"), DAY, "relative"),
        (prefix_hold("data//a/"), DAY, "segment"),
        (prefix_hold("wh/data/a/", "cold"), DAY, "write cold/data/a/"),
    ]:
        with pytest.raises(UnknownInstance if invalid_hold.instance == "nobody" else BadInput, match=message):
            rig.holds.place(invalid_hold, seconds)

    with pytest.raises(BadInput, match="no hold 7"):
        rig.holds.release(7)
    assert rig.count("hold") == 0


@pytest.mark.slow
def test_a_claim_and_a_concurrent_hold_never_both_win(rig: Rig, root: Path) -> None:
    """Whoever is second sees the first: a hold placed without a word of lateness keeps its mark."""
    marks = [f"t{n}" for n in range(40)]
    for name in marks:
        rig.drop(root, f"{name}.dat", name)
    rig.later(10_801)
    placed: list[str] = []
    start = threading.Barrier(3)

    def place(names: list[str]) -> None:
        store = HoldStore(rig.db)
        start.wait(PATIENCE_SECONDS)
        for name in names:
            try:
                store.place(mark_hold("dropped", name), DAY)
            except TooLate:
                continue
            placed.append(name)

    def recycle() -> int:
        start.wait(PATIENCE_SECONDS)
        return rig.round().claimed

    pause = Pauses(0.02)

    def drowsy(name: str) -> None:
        if name.split(".")[0] in ("claim", "hold"):
            pause()

    with crash_points.installed(drowsy), pytest.MonkeyPatch.context() as small, ThreadPoolExecutor(3) as pool:
        small.setattr("sexton.recycle.pipeline.ranges.CHUNK_MARKS", 4)
        both = [pool.submit(place, half) for half in (marks[30:], marks[29:10:-1])]
        claimed = pool.submit(recycle).result()
        for each in both:
            each.result()

    assert set(listing(root)) == {f"{name}.dat" for name in placed}
    assert claimed + len(placed) == 40


def test_a_hold_reaches_through_ancestors_in_old_history(rig: Rig, root: Path) -> None:
    rig.mark_file(root, "i1", ("table", "t1"))
    rig.round(after=10_801)
    rig.mark_file(root, "p1", ("dropped", "i1"))
    rig.round(after=10_801)
    rig.mark_file(root, "r1", ("dropped", "p1"))
    placed, _ = rig.holds.place(mark_hold("table", "t1"), 365 * DAY)
    rig.round(after=10_801)

    rig.round(after=31 * DAY)
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
        rig.mark_file(root, f"m{n}", ("dropped", f"m{n - 1}") if n else ("table", "top"))
    for one, other in (("a", "b"), ("b", "a")):
        rig.mark_file(root, one, ("dropped", other))
    placed, _ = rig.holds.place(mark_hold("table", "top"), DAY)

    report = rig.round(after=10_801)

    assert kept_texts(report) == {f"hold {placed.id}": 16, f"hold {placed.id} ({TOO_MANY_LEVELS})": 4}
    assert len(listing(root)) == 20


def test_a_late_hold_counts_claimed_grandchildren(rig: Rig, root: Path) -> None:
    for id_, parent in (("child", "top"), ("grandchild", "child")):
        put(root, f"{id_}/x.dat")
        rig.mark("dropped", NewMark(id=id_, vault="disk", prefix=f"{id_}/", parent=("dropped", parent)))
    rig.mark_file(root, "top")
    rig.round(after=10_801)
    rig.mark_file(root, "young", ("dropped", "top"))

    placed, late = rig.holds.place(mark_hold("dropped", "top"), DAY)
    rig.later(10_801)

    assert late == 2
    assert kept_texts(rig.round()) == {f"hold {placed.id}": 3}  # the young one, and two prefixes at their last look
    assert "young.dat" in listing(root)


def test_no_hold_is_missed_beyond_the_levels_that_are_read(rig: Rig, root: Path) -> None:
    for n in range(18):
        rig.mark_file(root, f"m{n}", ("dropped", f"m{n - 1}") if n else ("table", "top"))
    rig.later(10_801)
    other, _ = rig.holds.place(mark_hold("table", "another"), DAY)
    stores = stores_of(rig.db)
    why = WhyContext(rig.policy, stores.insight, stores.owners, stores.audit)

    planned = rig.plan()
    second, _ = rig.holds.place(mark_hold("table", "a third"), DAY)
    counts = rig.holds.count_blocked(other), rig.holds.count_blocked(second)
    (mark_story,) = story(rig.db, "m17", "shop", why)
    report = rig.round()

    assert [(held.kept, held.marks) for kind in planned.kinds for held in kind.held] == [(other.kept, 2)]
    assert any(f"kept by hold {other.id} ({TOO_MANY_LEVELS})" in shown.text for shown in mark_story.events)
    assert kept_texts(report) == {f"hold {other.id} ({TOO_MANY_LEVELS})": 2}
    assert counts == ((0, 0, 2), (0, 0, 2))  # each alone would block both
    assert set(listing(root)) == {"m16.dat", "m17.dat"}
    rig.holds.release(other.id)
    assert rig.holds.count_blocked(second) == (0, 0, 2)
    rig.holds.release(second.id)
    rig.round()
    assert not listing(root)


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
