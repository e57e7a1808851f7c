"""An owner that implements nothing loses nothing: its marks must be fenced, and it fences none."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.keepers import OWNER_BUSY
from sexton.marks.model import DueMark, Expansion, Fenced, Ref
from sexton.owners.port import Heartbeat, Owner
from tests.support.rig import Rig, listing, put


class Forgetful(Owner):
    """Expands no mark, as an owner does that knows only some of its kinds."""

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        return {}


class Fencing(Owner):
    """Fences every mark."""

    def fence(
        self, instance: str, batch: int, marks: Sequence[DueMark], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        return {mark.ref: (Fenced.FENCED, "") for mark in marks if mark.keys}


def due_marks(rig: Rig, tmp_path: Path, owner: Owner) -> Path:
    """Let a mark and an orphan's mark be due; return the directory with their files."""
    rig.recycler = rig.recycler_of(owner)
    root = rig.local(tmp_path / "v")
    for name in ("a.dat", "lost.dat"):
        put(root, name)
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)))
    rig.mark("orphan", NewMark(id="7.1", vault="disk", keys=("lost.dat",), bytes=10))
    rig.sql("UPDATE {}mark SET etags = '[\"\"]' WHERE kind = 'orphan'")
    rig.later(259_201)
    return root


@pytest.mark.parametrize("owner", [Owner(), Forgetful()], ids=["bare", "forgetful"])
def test_nothing_of_an_owner_without_a_fence_is_deleted(rig: Rig, tmp_path: Path, owner: Owner) -> None:
    root = due_marks(rig, tmp_path, owner)

    report = rig.round()

    assert listing(root) == {"a.dat": 10, "lost.dat": 10}
    assert (report.claimed, dict(report.kept)) == (0, {OWNER_BUSY: 2})


def test_a_fence_gets_the_files_and_lets_them_be_deleted(rig: Rig, tmp_path: Path) -> None:
    root = due_marks(rig, tmp_path, Fencing())

    report = rig.round()

    assert (report.deleted, listing(root)) == (2, {})
