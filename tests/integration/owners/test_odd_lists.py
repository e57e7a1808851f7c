"""What an owner's list may say wrongly without stopping the other entries, or reading without an end."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.owners.listed import Garbage, GarbagePage, Undropped
from tests.support.kept import kept_texts
from tests.support.listed_owner import MemoryOwner
from tests.support.rig import Rig, put


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


@pytest.mark.parametrize("end", ["", "1", "1\0"])
def test_page_without_a_position_is_silence(rig: Rig, end: str) -> None:
    """An empty position is the beginning: the list would be read again and again."""
    show(rig, {"": GarbagePage([garbage("a")], "1"), "1": GarbagePage([garbage("b")], end)})

    assert any("does not move on" in why for why in kept_texts(rig.round()))


def test_page_without_entries_that_moves_on_is_read_past(rig: Rig) -> None:
    show(rig, {"": GarbagePage((), "1"), "1": GarbagePage([garbage("a")], "2")})
    rig.round()
    rig.round()

    assert rig.count("mark") == 1


@pytest.mark.parametrize(
    "odd",
    [garbage("a\0b"), garbage("b", ("table", "a\0b")), Undropped("dropped", "a\0b"), Undropped("no kind", "a")],
    ids=["id", "parent", "undropped-id", "undropped-kind"],
)
def test_entry_with_a_wrong_name_stops_no_other(rig: Rig, odd: Garbage | Undropped) -> None:
    show(rig, {"": GarbagePage([odd, garbage("a")], "1")})
    rig.round()

    assert rig.count("mark") == 1


def test_a_page_of_undrops_beats_between_them(rig: Rig) -> None:
    """Each of them is a transaction, and an activity must beat every 10 s."""
    show(rig, {"": GarbagePage([Undropped("dropped", str(n)) for n in range(20)], "1")})
    beats: list[None] = []
    rig.owner.mark_due("shop", {}, lambda: beats.append(None))

    assert len(beats) >= 20
