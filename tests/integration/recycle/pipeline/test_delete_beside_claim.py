"""A range claims ahead while it deletes, and ends cleanly when either thread fails."""

import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.crash_points import installed
from sexton.marks import file_list
from sexton.marks.model import LeaseLost
from sexton.operators.controls.model import ControlKind, Halted
from sexton.recycle.pipeline import active_lease, delete, ranges
from sexton.recycle.pipeline import resolve as resolving
from sexton.recycle.pipeline.model import RangeOrder
from sexton.recycle.rounds.ledger import Ledger
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyResult, VaultSpec
from sexton.storage.port import Vault
from tests.support.crashes import at_point
from tests.support.files import stored_files
from tests.support.rig import Rig, listing, put

SECONDS = 30
"""A test that waits so long has failed."""
NEEDED = {"needed/a.dat": 10}


class Boom(Exception):
    """Something nobody foresaw."""


class Doorkeeper(LocalVault):
    """A directory where all deletes but the first few wait until the door opens, or for ``patience`` seconds."""

    def __init__(self, spec: VaultSpec, passes: int, patience: float = SECONDS) -> None:
        super().__init__(spec)
        self._passes, self._patience = passes, patience
        self._turn, self._asked = threading.Lock(), 0
        self.begun: list[str] = []
        self.begins, self.door = threading.Semaphore(0), threading.Event()

    def delete(self, keys: Sequence[str], etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        with self._turn:
            self.begun += keys
            self._asked += 1
            passes = self._asked <= self._passes
        self.begins.release()
        if not passes:
            self.door.wait(self._patience)
        return super().delete(keys, etags)

    def wait_for(self, pages: int) -> None:
        """Wait until so many more deletes have begun."""
        for _ in range(pages):
            assert self.begins.acquire(timeout=SECONDS), "no delete began"


def kept_by(rig: Rig, door: Callable[[VaultSpec], Doorkeeper], monkeypatch: pytest.MonkeyPatch) -> Doorkeeper:
    """Put a doorkeeper before the vault ``disk``, which is still proved at every look."""
    get, keeper = rig.vaults.get, door(rig.registry.vault("shop", "disk"))

    def proved(instance: str, name: str) -> Vault:
        get(instance, name)
        return keeper

    monkeypatch.setattr(rig.vaults, "get", proved)
    return keeper


def due(rig: Rig, root: Path, marks: int) -> RangeOrder:
    """Make due marks of one file each, beside a file that is needed; return the order for their range."""
    put(root, "needed/a.dat")
    for n in range(marks):
        put(root, f"m{n:02}.dat")
    rig.mark("dropped", *(NewMark(id=f"m{n:02}", vault="disk", keys=(f"m{n:02}.dat",)) for n in range(marks)))
    rig.later(10_801)
    opened, plan, ledger = rig.rounds.open("shop", "run", None, rig.policy), rig.plan(), Ledger()
    ledger.begin(plan)
    return ledger.next_range(opened, plan, plan.kinds[0], 0)


def sizes(monkeypatch: pytest.MonkeyPatch, lap: int, page: int = 2) -> None:
    """Make laps of so many marks, one claim each, and pages of so many files."""
    for module, name, size in (
        (ranges, "CHUNK_MARKS", lap),
        (ranges, "GROUP_FILES", lap),
        (resolving, "CHUNK_MARKS", lap),
        (file_list, "PAGE_KEYS", page),
        (delete, "POLL_SECONDS", 0.01),
    ):
        monkeypatch.setattr(module, name, size)


def deletions() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("deletion")]


def test_at_most_three_chunks_are_claimed_ahead(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes(monkeypatch, lap=2)
    order = due(rig, rig.local(tmp_path / "v"), 12)
    disk = kept_by(rig, lambda spec: Doorkeeper(spec, passes=0), monkeypatch)
    seen: list[str] = []
    pulses: list[int] = []

    def hook(name: str) -> None:
        seen.append(name)
        if name == "claim.committed" and seen.count(name) == 2:
            disk.wait_for(1)  # the first page is under way, and another lap is to be claimed

    def heartbeat() -> None:
        pulses.append(seen.count("claim.committed"))
        if pulses.count(ranges.GROUPS_AT_ONCE) > 60:  # more than enough for another claim
            disk.door.set()

    with installed(hook):
        receipt = rig.recycler.recycle(order, 1, heartbeat)

    change = {"claim.committed": 1, "marks.removed": -1}
    order_of = [name for name in seen if name in (*change, "files.deleted")]
    assert order_of.index("files.deleted") == ranges.GROUPS_AT_ONCE == 3
    assert max(accumulate(change[name] for name in seen if name in change)) == 3
    assert (seen.count("claim.committed"), seen.count("marks.removed"), receipt.removed) == (6, 6, 12)
    assert listing(tmp_path / "v") == NEEDED
    assert deletions() == []


def _stop(rig: Rig) -> None:
    rig.controls.put(ControlKind.STOP, "shop", "drill")


def _lose(rig: Rig) -> None:
    rig.later(61)


def _boom(_: Rig) -> None:
    raise Boom


@pytest.mark.slow
@pytest.mark.parametrize(("strike", "error"), [(_stop, Halted), (_lose, LeaseLost), (_boom, Boom)])
def test_an_error_in_deletes_ends_the_range_and_is_recorded(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strike: Callable[[Rig], None], error: type[Exception]
) -> None:
    sizes(monkeypatch, lap=8)
    monkeypatch.setattr(active_lease, "RENEW_SECONDS", 0.0)
    order = due(rig, root := rig.local(tmp_path / "v"), 40)
    disk = kept_by(rig, lambda spec: Doorkeeper(spec, passes=1), monkeypatch)
    seen: list[str] = []
    struck: list[str] = []
    held = threading.Event()

    def hook(name: str) -> None:
        seen.append(name)
        if name == "outcomes.recorded" and not struck:
            disk.wait_for(4)  # the page that is recorded, and as many as there are other threads
            assert held.wait(SECONDS)
            struck.append(threading.current_thread().name)
            try:
                strike(rig)
            finally:
                disk.door.set()

    def heartbeat() -> None:
        """Once there is more to delete, hold the range's own thread: the deletion must find out by itself."""
        if seen.count("claim.committed") > 1 and not held.is_set():
            held.set()
            assert disk.door.wait(SECONDS)
            disk.begins.acquire(timeout=0.5)

    with installed(hook), pytest.raises(error) as raised:
        rig.recycler.recycle(order, 1, heartbeat)

    assert (raised.type, deletions()) == (error, [])
    assert struck[0].startswith("deletion")
    assert len(disk.begun) == 8
    assert rig.count_files(outcome="deleted") == 8
    assert len(listing(root)) == 40 + 1 - 8
    rig.controls.remove(ControlKind.STOP, "shop")
    report = rig.round(after=61)
    assert (report.state, report.deleted, report.removed, report.absent) == ("SUCCEEDED", 40 - 8, 40, 0)
    assert listing(root) == NEEDED
    assert (rig.count("mark"), rig.count_files()) == (0, 0)


@pytest.mark.parametrize(("point", "visit", "pages"), [("claim.written", 2, 1), ("marks.removed", 1, 2)])
def test_an_exception_waits_for_running_deletes(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, visit: int, pages: int
) -> None:
    sizes(monkeypatch, lap=2)
    order = due(rig, root := rig.local(tmp_path / "v"), 12)
    # A store that is still at it when the range's own thread is long done.
    disk = kept_by(rig, lambda spec: Doorkeeper(spec, passes=pages - 1, patience=0.5), monkeypatch)
    seen: list[str] = []

    def hook(name: str) -> None:
        seen.append(name)
        if (name, seen.count(name)) == (point, visit):
            assert threading.current_thread() is threading.main_thread()
            disk.wait_for(pages)
            raise Boom

    with installed(hook), pytest.raises(Boom):
        rig.recycler.recycle(order, 1, lambda: None)

    alive, gone = deletions(), 12 + 1 - len(listing(root))
    disk.door.set()
    assert alive == []
    assert gone == len(disk.begun) == rig.count_files(outcome="deleted") + rig.count("mark_history")
    receipt = rig.recycler.recycle(order, 2, lambda: None)
    assert (receipt.claimed, receipt.removed, receipt.objects, receipt.finished) == (12, 12, 12, True)
    assert listing(root) == NEEDED
    assert (rig.count("mark"), rig.count_files()) == (0, 0)


@pytest.mark.parametrize("laps", [1, 3])
def test_file_numbers_only_grow_within_a_range(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, laps: int
) -> None:
    sizes(monkeypatch, lap=2)
    monkeypatch.setattr(ranges, "GROUPS_AT_ONCE", laps)
    order = due(rig, rig.local(tmp_path / "v"), 8)
    seen: dict[str, int] = {}

    def look() -> None:
        seen.update({file.key: file.number for file in stored_files(rig.db)})

    with installed(at_point("resolve.stored", look)):
        rig.recycler.recycle(order, 1, lambda: None)

    assert list(seen) == [f"m{n:02}.dat" for n in range(8)]
    assert list(seen.values()) == list(range(1, 9))
