"""A database that does not know the last claim of a vault deletes nothing in it; one that is ahead of it goes on."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, text

from sexton.contract import NewMark, undrop
from sexton.kernel.crash_points import installed
from sexton.marks.model import LeaseBusy
from sexton.recycle.pipeline import ranges
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import ClaimId, Marker
from sexton.storage.port import VaultFault
from tests.servers.postgres import new_database
from tests.support.command import run
from tests.support.kept import kept_texts
from tests.support.rig import GRACE, Rig, listing, put

FILES = {"a.dat": 10, "b.dat": 10, "c.dat": 10}
LEASE_SECONDS = 61
"""After so long the lease of a dead worker has ended."""


class Crash(BaseException):
    """The worker ends here."""


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Return a rig whose chunks have one mark each, and that deletes after it has claimed all of them."""
    monkeypatch.setattr(ranges, "CHUNK_MARKS", 1)
    return Rig(new_database(), beside=False).instance()


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """Return the directory of a vault with three files, whose marks are due."""
    root = rig.local(tmp_path / "v")
    rig.round()
    for name in FILES:
        put(root, name)
        rig.mark("dropped", NewMark(id=name[0], vault="disk", keys=(name,)))
    rig.later(10_801)
    return root


def at(point: str, times: int, do: Callable[[], object]) -> Any:
    """Do something when a round reaches a point for the so-manieth time."""
    reached: list[str] = []

    def hook(name: str) -> None:
        reached.append(name)
        if name == point and reached.count(point) == times:
            do()

    return installed(hook)


def crash() -> None:
    raise Crash


@pytest.mark.parametrize("claims", [0, 1, 2])
def test_r55_copy_made_before_a_claim_of_a_round_is_behind(rig: Rig, root: Path, claims: int) -> None:
    copies: list[Rig] = []
    with at("claim.asked", claims + 1, lambda: copies.append(rig.copy())):
        rig.round()
    deleted = listing(root)
    for name in FILES:
        put(root, name)  # what was deleted is restored, because the copy still shows it
    copy = copies[0]
    with copy.db.write() as c:
        undrop(c, "shop", "dropped", ["c"])
    copy.later(LEASE_SECONDS)
    reports = [copy.round() for _ in range(2)]

    assert deleted == {}
    assert [(r.vaults, r.deleted, r.absent) for r in reports] == [({"disk": "BEHIND"}, 0, 0)] * 2
    assert listing(root) == FILES


def test_r55_copy_made_while_the_next_round_waits_is_behind(rig: Rig, root: Path) -> None:
    copies: list[Rig] = []

    def begin_next() -> None:
        with pytest.raises(LeaseBusy):
            rig.rounds.open("shop", "next", None, rig.policy)
        copies.append(rig.copy())

    with at("claim.asked", 2, begin_next):
        rig.round(run="this")
    rig.round(run="next")
    for name in FILES:
        put(root, name)
    copies[0].later(LEASE_SECONDS)

    report = copies[0].round()

    assert (report.vaults, report.deleted) == ({"disk": "BEHIND"}, 0)
    assert listing(root) == FILES


@pytest.mark.slow
def test_r55_copy_before_a_claim_without_files_is_behind(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed round makes second passes of marks that it claimed itself, when nothing was below them."""
    rig.round()
    rig.mark("dropped", NewMark(id="t1", vault="disk", prefix="t1/"))
    rig.later(10_801)
    copies: list[Rig] = []
    with suppress(Crash), monkeypatch.context() as patch, at("claim.asked", 1, lambda: copies.append(rig.copy())):
        patch.setattr(rig.rounds, "close", lambda *_: crash())
        rig.round(run="same")
    rig.later(GRACE + 1)
    put(root, "t1/late.dat")
    rig.round(run="same")
    emptied = listing(root)
    put(root, "t1/late.dat")
    copies[0].later(20_000)

    report = copies[0].round()

    assert (emptied, report.vaults, report.deleted) == ({}, {"disk": "BEHIND"}, 0)


def test_claim_of_a_round_is_named_after_a_trust(rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = announced(rig)
    with pytest.raises(LeaseBusy):
        rig.rounds.open("shop", "next", None, rig.policy)
    assert run(rig, capsys, "vault", "trust", "shop", "disk", "--reason", "restored", "--yes").code == 0

    claim = ClaimId(new_claim(rig, number), number)
    rig.vaults.name_claim("shop", "disk", claim)

    assert marker_of(rig).last_claim == claim


@pytest.mark.slow
def test_copy_that_knows_every_claim_goes_on(rig: Rig, root: Path) -> None:
    copies: list[Rig] = []
    with at("claim.committed", 3, lambda: copies.append(rig.copy())):
        rig.round()
    put(root, "a.dat")
    copies[0].later(LEASE_SECONDS)

    report = copies[0].round()

    assert (report.removed, kept_texts(report)) == (3, {})
    assert listing(root) == {}


@pytest.mark.slow
def test_worker_that_died_before_its_marker_is_followed(rig: Rig, root: Path) -> None:
    with suppress(Crash), at("claim.committed", 2, crash):
        rig.round()
    before = listing(root)
    rig.later(LEASE_SECONDS)

    report = Rig(rig.url).round()

    assert before == FILES
    assert (report.removed, report.vaults) == (3, {"disk": "normal"})
    assert listing(root) == {}


@pytest.mark.parametrize("next_run", ["", "same", "other"])
def test_no_delete_precedes_the_marker_of_its_claim(
    rig: Rig, root: Path, next_run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims: dict[str, ClaimId] = {}
    late: list[str] = []
    deleted: list[str] = []
    claim, delete = rig.stores.claims.claim, LocalVault.delete

    def remember(request: Any) -> Any:
        result = claim(request)
        last = rig.stores.batches.last_claim(request.token)
        claims.update((ref.id, last) for ref in result.claimed)
        return result

    def compare(vault: LocalVault, keys: Any, *rest: Any) -> Any:
        marker = vault.read_marker()
        assert marker is not None
        late.extend(key for key in keys if marker.last_claim < claims[key[0]])
        deleted.extend(keys)
        return delete(vault, keys, *rest)

    monkeypatch.setattr(rig.stores.claims, "claim", remember)
    monkeypatch.setattr(LocalVault, "delete", compare)
    if next_run:
        with suppress(Crash), at("claim.asked", 3, crash):
            rig.round(run="same")
        rig.later(LEASE_SECONDS)
        rig.round(run=next_run)
    rig.round()

    assert (sorted(deleted), late) == (sorted(FILES), [])


def test_writer_of_an_older_claim_hides_no_newer_one(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, number = Rig(rig.url), announced(rig)
    older = ClaimId(new_claim(rig, number), number)
    newer: list[ClaimId] = []
    replace = LocalVault.replace_marker

    def meanwhile(vault: LocalVault, marker: Marker) -> None:
        if not newer:
            newer.append(ClaimId(new_claim(rig, number), number))
            thread.start()
            wait_until(lambda: not thread.is_alive() or waits_for_a_lock(rig))
        replace(vault, marker)

    thread = threading.Thread(target=lambda: other.vaults.name_claim("shop", "disk", newer[0]))
    monkeypatch.setattr(LocalVault, "replace_marker", meanwhile)
    rig.vaults.name_claim("shop", "disk", older)
    thread.join()

    assert marker_of(rig).last_claim == newer[0]


def test_of_two_copies_of_one_round_one_deletes(rig: Rig, root: Path) -> None:
    number = announced(rig)
    proved = Rig(rig.copy().url, clock_step_seconds=0.0)  # its proofs are used again
    proved.vaults.get("shop", "disk")
    claim = ClaimId(new_claim(rig, number), number)
    same_number = ClaimId(new_claim(proved, number), number)
    rig.vaults.name_claim("shop", "disk", claim)

    assert claim == same_number
    with pytest.raises(VaultFault, match="BEHIND"):
        proved.vaults.name_claim("shop", "disk", same_number)
    rig.vaults.confirm("shop", "disk")


def test_trusted_copy_of_a_round_shuts_out_its_original(
    rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    announced(rig)
    copy = rig.copy()

    trusted = run(copy, capsys, "vault", "trust", "shop", "disk", "--reason", "restored", "--yes")

    assert trusted.code == 0
    copy.vaults.confirm("shop", "disk")
    with pytest.raises(VaultFault, match="BEHIND"):
        rig.vaults.confirm("shop", "disk")


def announced(rig: Rig) -> int:
    """Open a round and write it into the markers; return its number."""
    opened = rig.rounds.open("shop", "run", None, rig.policy)
    rig.recycler.announce(opened, lambda: None)
    return opened.round


def new_claim(rig: Rig, round_: int) -> int:
    """Store a claim of a round, as a claim of marks does; return its number."""
    t = rig.db.t.claim
    with rig.db.write() as c:
        return int(c.execute(insert(t).values(round=round_).returning(t.c.id)).scalar_one())


def marker_of(rig: Rig) -> Marker:
    """Return the marker of the vault."""
    marker = rig.vaults.get("shop", "disk").read_marker()
    assert marker is not None
    return marker


def waits_for_a_lock(rig: Rig) -> bool:
    """Return whether a session of the rig's database waits for a lock."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with rig.db.read() as c:
        return c.execute(text(waiting)).first() is not None


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that becomes true."""
    while not condition():
        time.sleep(0.01)
