"""An owner that implements nothing loses nothing; one whose answer is slow or huge ends its own call with a reason."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.trust import STRICT
from sexton.marks.kept import OWNER_BUSY
from sexton.marks.model import DueMark, Expansion, Fenced, Ref
from sexton.owners import caller
from sexton.owners.http.owner import LiveCount
from sexton.owners.plugin import CallOptions
from sexton.owners.port import Heartbeat, Owner, OwnerSilent
from sexton.recycle.model import RoundReport
from tests.integration.wal.test_slow_nodes import slow_node
from tests.support.planned import waiting_plans
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


def approved_round(rig: Rig) -> RoundReport:
    """Approve the plan of the orphan, which is more than 1 % of the objects; return the report of its round."""
    [plan] = waiting_plans(rig)
    return rig.round(plan=plan)


@pytest.mark.parametrize("owner", [Owner(), Forgetful()], ids=["bare", "forgetful"])
def test_nothing_of_an_owner_without_a_fence_is_deleted(rig: Rig, tmp_path: Path, owner: Owner) -> None:
    root = due_marks(rig, tmp_path, owner)

    first, approved = rig.round(), approved_round(rig)

    assert listing(root) == {"a.dat": 10, "lost.dat": 10}
    assert (first.claimed, first.kept[OWNER_BUSY]) == (0, 1)
    assert (approved.claimed, approved.kept[OWNER_BUSY]) == (0, 1)
    assert rig.count("mark", state="CLAIMED") == 0


def test_a_fence_gets_the_files_and_lets_them_be_deleted(rig: Rig, tmp_path: Path) -> None:
    root = due_marks(rig, tmp_path, Fencing())

    first, approved = rig.round(), approved_round(rig)

    assert (first.deleted, approved.deleted, listing(root)) == (1, 1, {})


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"1\r\n \r\n"


def drip_body() -> Iterator[bytes]:
    return chain(iter([HEAD]), repeat(CHUNK))


def ask(address: str) -> None:
    caller.OwnerCaller(CallOptions(url=f"http://{address}"), STRICT).get("live/count", LiveCount)


@pytest.mark.parametrize(
    ("pause_seconds", "says"), [(0.05, "does not answer whole within 0.5 s"), (5, "does not answer: timed out")]
)
def test_call_of_a_slow_owner_ends(pause_seconds: float, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "ATTEMPT_SECONDS", 0.5)

    with slow_node(drip_body, pause_seconds) as (address, _), pytest.raises(OwnerSilent, match=says):
        ask(address)


def test_call_of_an_owner_with_a_huge_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "MOST_BYTES", 3)

    with slow_node(drip_body, 0) as (address, _), pytest.raises(OwnerSilent, match="more than 3 bytes; send smaller"):
        ask(address)
