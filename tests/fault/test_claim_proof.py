"""A database that does not know the last claim of a vault deletes nothing in it; one that is ahead of it goes on."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from sexton.contract import NewMark, undrop
from sexton.kernel.crash_points import installed
from sexton.marks.model import LeaseBusy
from sexton.operators.registry.markers import MarkerStore
from sexton.recycle.pipeline import ranges
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import ClaimId, Marker
from sexton.storage.port import VaultFault
from tests.servers.postgres import new_database
from tests.support.command import run
from tests.support.crashes import Crash, crash_at
from tests.support.kept import kept_texts
from tests.support.locks import wait_until_blocked_or_ended
from tests.support.rig import GRACE, Rig, listing, put

FILES = {"a.dat": 10, "b.dat": 10, "c.dat": 10}
LEASE_SECONDS = 61
"""After so long the lease of a dead worker has ended."""
TRUST = ("vault", "trust", "shop", "disk", "--reason", "restored", "--yes")


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
        rig.drop(root, name, name[0])
    rig.later(10_801)
    return root


def restore(root: Path) -> None:
    """Write the deleted files again: a copy of the database still shows them."""
    for name in FILES:
        put(root, name)


def copies_at(
    rig: Rig, point: str, *visits: int, meanwhile: Callable[[], object] = lambda: None
) -> tuple[Any, list[Rig]]:
    """Return a hook that copies the database at these visits of a point, and the list of its copies."""
    reached: list[str] = []
    copies: list[Rig] = []

    def hook(name: str) -> None:
        reached.append(name)
        if name == point and reached.count(point) in visits:
            meanwhile()
            copies.append(rig.copy())

    return installed(hook), copies


def assert_behind(copy: Rig, root: Path, rounds: int = 1, files: Sequence[str] = tuple(FILES)) -> None:
    """Assert that rounds of a copy delete nothing, because the vault has a claim that it does not know."""
    for report in [copy.round() for _ in range(rounds)]:
        assert (report.vaults, report.deleted, report.absent) == ({"disk": "BEHIND"}, 0, 0)
    assert set(listing(root)) == set(files)


def test_r55_copy_made_before_a_claim_of_a_round_is_behind(rig: Rig, root: Path) -> None:
    copying, copies = copies_at(rig, "claim.asked", 1, 2, 3)
    with copying:
        rig.round()
    deleted = listing(root)
    restore(root)

    assert (deleted, len(copies)) == ({}, 3)
    for copy in copies:
        with copy.db.write() as c:
            undrop(c, "shop", "dropped", ["c"])
        copy.later(LEASE_SECONDS)
        assert_behind(copy, root, 2)


def test_r55_copy_made_while_the_next_round_waits_is_behind(rig: Rig, root: Path) -> None:
    def begin_next() -> None:
        with pytest.raises(LeaseBusy):
            rig.rounds.open("shop", "next", None, rig.policy)

    copying, copies = copies_at(rig, "claim.asked", 2, meanwhile=begin_next)
    with copying:
        rig.round(run="this")
    rig.round(run="next")
    restore(root)
    copies[0].later(LEASE_SECONDS)

    assert_behind(copies[0], root)


@pytest.mark.slow
def test_r55_copy_before_a_claim_without_files_is_behind(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed round makes second passes of marks that it claimed itself, when nothing was below them."""
    rig.round()
    rig.mark("dropped", NewMark(id="t1", vault="disk", prefix="t1/"))
    rig.later(10_801)

    def die(*_: object) -> None:
        raise Crash

    copying, copies = copies_at(rig, "claim.asked", 1)
    with suppress(Crash), monkeypatch.context() as patch, copying:
        patch.setattr(rig.rounds, "close", die)
        rig.round(run="same")
    rig.later(GRACE + 1)
    put(root, "t1/late.dat")
    rig.round(run="same")
    emptied = listing(root)
    put(root, "t1/late.dat")
    copies[0].later(20_000)

    assert emptied == {}
    assert_behind(copies[0], root, files=["t1/late.dat"])


def test_claim_of_a_round_is_named_after_a_trust(rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = announced(rig)
    with pytest.raises(LeaseBusy):
        rig.rounds.open("shop", "next", None, rig.policy)
    assert run(rig, capsys, *TRUST).code == 0

    claim = ClaimId(new_claim(rig, number), number)
    rig.vaults.name_claim("shop", "disk", claim)

    assert marker_of(rig).last_claim == claim


@pytest.mark.slow
def test_copy_that_knows_every_claim_goes_on(rig: Rig, root: Path) -> None:
    copying, copies = copies_at(rig, "claim.committed", 3)
    with copying:
        rig.round()
    put(root, "a.dat")
    copies[0].later(LEASE_SECONDS)

    report = copies[0].round()

    assert (report.removed, kept_texts(report)) == (3, {})
    assert listing(root) == {}


@pytest.mark.slow
def test_worker_that_died_before_its_marker_is_followed(rig: Rig, root: Path) -> None:
    with suppress(Crash), installed(crash_at("claim.committed", 2)):
        rig.round()
    before = listing(root)
    rig.later(LEASE_SECONDS)

    report = Rig(rig.url).round()

    assert before == FILES
    assert (report.removed, report.vaults) == (3, {"disk": "normal"})
    assert listing(root) == {}


def test_no_delete_precedes_the_marker_of_its_claim(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a round, nor in the next attempt of a dead one, nor in the round that takes it over."""
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
        late.extend(key for key in keys if marker.last_claim < claims[key.removesuffix(".dat")])
        deleted.extend(keys)
        return delete(vault, keys, *rest)

    monkeypatch.setattr(rig.stores.claims, "claim", remember)
    monkeypatch.setattr(LocalVault, "delete", compare)
    rig.round()
    for next_run in ("same", "other"):
        for name in "abc":
            rig.drop(root, f"{next_run}-{name}.dat", f"{next_run}-{name}")
        rig.later(10_801)
        with suppress(Crash), installed(crash_at("claim.asked", 3)):
            rig.round(run=f"{next_run} first")
        rig.later(LEASE_SECONDS)
        rig.round(run=f"{next_run} {'first' if next_run == 'same' else 'second'}")
        rig.round()

    assert sorted(deleted) == sorted([*FILES, *(f"{run}-{name}" for run in ("same", "other") for name in FILES)])
    assert late == []


def test_writer_of_an_older_claim_hides_no_newer_one(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, number = Rig(rig.url), announced(rig)
    older = ClaimId(new_claim(rig, number), number)
    newer: list[ClaimId] = []
    replace = LocalVault.replace_marker

    def meanwhile(vault: LocalVault, marker: Marker) -> None:
        if not newer:
            newer.append(ClaimId(new_claim(rig, number), number))
            thread.start()
            wait_until_blocked_or_ended(rig.db, thread)
        replace(vault, marker)

    thread = threading.Thread(target=lambda: other.vaults.name_claim("shop", "disk", newer[0]))
    monkeypatch.setattr(LocalVault, "replace_marker", meanwhile)
    rig.vaults.name_claim("shop", "disk", older)
    thread.join()

    assert marker_of(rig).last_claim == newer[0]


def test_a_repeated_announcement_hides_no_newer_round(rig: Rig, root: Path) -> None:
    older = int(max(round_.id for round_ in rig.rows("round")))
    newer = announced(rig)

    rig.vaults.announce("shop", "disk", older)

    assert marker_of(rig).round == newer > older


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

    trusted = run(copy, capsys, *TRUST)

    assert trusted.code == 0
    copy.vaults.confirm("shop", "disk")
    with pytest.raises(VaultFault, match="BEHIND"):
        rig.vaults.confirm("shop", "disk")


def test_a_marker_is_known_by_each_of_its_names(rig: Rig, root: Path) -> None:
    announced(rig)
    marker, knows = marker_of(rig), MarkerStore(rig.db).knows

    assert knows("shop", marker)
    assert knows("shop", marker.model_copy(update={"claim": 0}))  # of an older version, which names no claim
    for other in ({"round": 0}, {"claim": marker.claim + 1}, {"claim_key": "other"}, {"claim": 0, "run": "other"}):
        assert not knows("shop", marker.model_copy(update=other)), other
    assert not knows("zoo", marker)


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
