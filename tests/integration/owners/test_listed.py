"""An owner outside of Sexton's database lists its garbage, also wrongly, and decides if it is undropped or deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sexton.contract import NewMark
from sexton.marks.kept import IN_USE
from sexton.owners.listed import Garbage, GarbagePage, Undropped
from tests.support.kept import kept_texts
from tests.support.listed_owner import MemoryOwner
from tests.support.planned import waiting_plans
from tests.support.rig import Rig, listing, put

KEYS = [f"data/{n}.dat" for n in range(5)]


class Lake(NamedTuple):
    rig: Rig
    owner: MemoryOwner
    root: Path


@pytest.fixture
def lake(database_url: str, tmp_path: Path) -> Iterator[Lake]:
    """A lake whose five objects were dropped."""
    rig = Rig(database_url)
    owner = MemoryOwner(rig.db)
    rig.owner, rig.recycler = owner, rig.recycler_of(owner)
    rig.instance()
    root = rig.local(tmp_path / "v")
    for n, key in enumerate(KEYS):
        put(root, key)
        owner.drop(f"d{n}", key)
    yield Lake(rig, owner, root)
    rig.db.close()


def due(lake: Lake) -> None:
    """Let a round mark what is listed, and wait until it is due."""
    lake.rig.round()
    lake.rig.later(10_801)


def test_listed_garbage_is_marked_once_and_deleted_when_due(lake: Lake) -> None:
    first, again = lake.rig.round(), lake.rig.round()
    marks = lake.rig.count("mark")
    deleted = lake.rig.round(after=10_801)

    assert (first.deleted, again.deleted, marks) == (0, 0, 5)
    assert (deleted.deleted, listing(lake.root)) == (5, {})
    assert (lake.owner.fenced, lake.owner.dropped) == (set(), {})


def test_an_undropped_object_loses_its_mark_and_stays(lake: Lake) -> None:
    due(lake)
    lake.owner.undrop("d1")
    lake.owner.undrop("d3", listed=False)
    lake.owner.live_keys.clear()  # it shows nothing: of d3 only the fence knows
    report = lake.rig.round()

    assert (report.deleted, set(listing(lake.root))) == (3, {KEYS[1], KEYS[3]})
    assert lake.rig.count("mark") == 0


def test_an_entry_that_cannot_be_marked_stops_no_other(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.owner.list.insert(2, Garbage("dropped", NewMark(id="bad id", vault="disk", keys=("data/x",))))
    due(lake)

    assert lake.rig.count("mark") == 5
    assert "bad id" in caplog.text
    assert lake.rig.round().deleted == 5


def test_a_silent_owner_keeps_what_it_decides_about(lake: Lake) -> None:
    for method in ("garbage", "live", "fence"):
        lake.owner.silent = [method]
        report = lake.rig.round()
        lake.owner.silent = ()

        assert f"owner: {method} does not answer" in kept_texts(report)
        assert (report.deleted, len(listing(lake.root))) == (0, 5)
        assert report.faults > 0
        if method == "garbage":
            due(lake)


def test_marks_stay_claimed_until_the_owner_forgets_them(lake: Lake) -> None:
    due(lake)
    lake.owner.silent = ["forget"]
    deleted = lake.rig.round()
    claimed = lake.rig.count("mark", state="CLAIMED")
    lake.owner.silent = ()
    lake.rig.round()

    assert kept_texts(deleted) == {"owner: forget does not answer": 5}
    assert (listing(lake.root), claimed) == ({}, 5)
    assert (lake.rig.count("mark"), lake.owner.fenced) == (0, set())


def test_a_fenced_object_cannot_be_undropped(lake: Lake) -> None:
    due(lake)
    lake.owner.silent = ["forget"]
    lake.rig.round()

    with pytest.raises(ValueError, match="fenced"):
        lake.owner.undrop("d0")


def orphan(lake: Lake) -> int:
    """Mark an object as a repair does, and wait until the mark is due; return the plan that awaits approval."""
    put(lake.root, "data/lost.dat")
    lake.rig.mark("orphan", NewMark(id="7.1", vault="disk", keys=("data/lost.dat",), bytes=10))
    lake.rig.sql("UPDATE {}mark SET etags = '[\"\"]' WHERE kind = 'orphan'")
    lake.rig.round(after=259_201)
    [plan] = waiting_plans(lake.rig)
    return plan


def test_an_orphan_is_fenced_until_it_is_deleted(lake: Lake) -> None:
    plan = orphan(lake)
    lake.owner.silent = ["forget"]
    lake.rig.round(plan=plan)
    fenced = "7.1" in lake.owner.fenced
    lake.owner.silent = ()
    lake.rig.round()

    assert fenced
    assert "data/lost.dat" not in listing(lake.root)
    assert (lake.rig.row("orphan", "7.1"), "7.1" in lake.owner.fenced) == (None, False)


def test_an_orphan_that_is_committed_before_its_fence_stays(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, fence = orphan(lake), lake.owner.fence

    def commit_first(*arguments: Any) -> Any:
        lake.owner.live_keys.add("data/lost.dat")  # after the owner was asked what is live
        return fence(*arguments)

    monkeypatch.setattr(lake.owner, "fence", commit_first)
    monkeypatch.setattr(lake.owner, "live", lambda *_: {})  # only the fence knows
    report = lake.rig.round(plan=plan)

    assert report.kept[IN_USE] == 1
    assert "data/lost.dat" in listing(lake.root)
    assert lake.rig.row("orphan", "7.1").state == "MARKED"


def test_a_list_that_begins_again_marks_nothing_twice(lake: Lake) -> None:
    due(lake)
    lake.rig.round()
    lake.rig.sql("UPDATE {}instance SET owner_cursor = ''")
    lake.rig.round()

    assert lake.rig.count("mark") == 0
    assert lake.rig.count("mark_history", kind="dropped") == 5


class OddOwner(MemoryOwner):
    """Shows the pages that a test gives it, by position."""

    pages: dict[str, GarbagePage]
    asked = 0

    def garbage(self, instance: str, after: str, limit: int) -> GarbagePage:
        self.asked += 1
        assert self.asked < 50, "the list is read without an end"
        return self.pages.get(after, GarbagePage((), after))


@pytest.fixture
def rig(database_url: str, tmp_path: Path) -> Rig:
    rig = Rig(database_url)
    owner = OddOwner(rig.db)
    rig.owner, rig.recycler = owner, rig.recycler_of(owner)
    rig.instance()
    put(rig.local(tmp_path / "v"), "data/0.dat")
    return rig


def show(rig: Rig, pages: dict[str, GarbagePage]) -> None:
    assert isinstance(rig.owner, OddOwner)
    rig.owner.pages = pages


def garbage(id_: str, parent: tuple[str, str] | None = None) -> Garbage:
    return Garbage("dropped", NewMark(id=id_, vault="disk", keys=("data/0.dat",), parent=parent))


def test_page_without_a_position_is_silence(rig: Rig) -> None:
    """An empty position is the beginning: the list would be read again and again."""
    for end in ("", "1", "1\0"):
        rig.sql("UPDATE {}instance SET owner_cursor = ''")
        show(rig, {"": GarbagePage([garbage("a")], "1"), "1": GarbagePage([garbage("b")], end)})

        assert any("does not move on" in why for why in kept_texts(rig.round()))


def test_page_without_entries_that_moves_on_is_read_past(rig: Rig) -> None:
    show(rig, {"": GarbagePage((), "1"), "1": GarbagePage([garbage("a")], "2")})
    rig.round()
    rig.round()

    assert rig.count("mark") == 1


def test_entry_with_a_wrong_name_stops_no_other(rig: Rig) -> None:
    in_odd_table = garbage("b", ("table", "a\0b"))
    wrong = [garbage("a\0b"), in_odd_table, Undropped("dropped", "a\0b"), Undropped("no kind", "a")]
    for n, odd in enumerate(wrong):
        show(rig, {str(n or ""): GarbagePage([odd, garbage(f"a{n}")], str(n + 1))})
        rig.round()

        assert rig.count("mark") == n + 1


def test_a_page_of_undrops_beats_between_them(rig: Rig) -> None:
    """Each of them is a transaction, and an activity must beat every 10 s."""
    show(rig, {"": GarbagePage([Undropped("dropped", str(n)) for n in range(20)], "1")})
    beats: list[None] = []
    rig.owner.mark_due("shop", {}, lambda: beats.append(None))

    assert len(beats) >= 20
