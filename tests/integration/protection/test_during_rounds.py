"""Chunks and renewals that arrive during a round are respected (P22, P23)."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.protection.errors import ProtectionNotFound
from sexton.protection.model import Item, Protection, ProtectionSettings, Sealed
from sexton.protection.registrar import REPORT, Registrar
from sexton.protection.sql.rows import digest
from sexton.protection.sql.store import ProtectionStore
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.rig import Rig, put

NAMED = 100
"""Names a chunk is told of at most; their number it is told always."""


@pytest.mark.parametrize(
    ("objects", "chunk", "per_mark"),
    [(240, 20, 1), pytest.param(1_000_000, 12_500, 250, marks=pytest.mark.soak)],
    ids=["240", "1000000"],
)
def test_p22_each_chunk_protects_from_its_commit(
    rig: Rig, tmp_path: Path, objects: int, chunk: int, per_mark: int
) -> None:
    root = rig.local(tmp_path / "v")
    keys = [f"m/{n // 1_000:03}/{n:06}.dat" for n in range(objects)]
    rig.later(10_801)
    items = [Item("disk", key) for key in keys]
    rig.protections.open(Protection(instance="shop", job="j", owner="ada", digest=digest(items)), 80_000)
    first_round_ended, half_registered = threading.Event(), threading.Event()

    def rounds() -> None:
        for wave in range(4):  # the last chunks find nothing marked, the first ones come before any claim
            if wave == 3:
                assert half_registered.wait(PATIENCE_SECONDS)
            wave_keys = keys[wave * objects // 4 : (wave + 1) * objects // 4]
            for n, key in enumerate(wave_keys):
                (root / key).parent.mkdir(parents=True, exist_ok=True) if n % 1_000 == 0 or objects < 1_000 else None
                (root / key).write_bytes(b"x")
            keys_by_mark = (wave_keys[n : n + per_mark] for n in range(0, len(wave_keys), per_mark))
            rig.mark(
                "dropped",
                *(NewMark(id=mark_keys[0][-10:-4], vault="disk", keys=tuple(mark_keys)) for mark_keys in keys_by_mark),
            )
            rig.later(10_801)
            rig.round()
            first_round_ended.set()

    with ThreadPoolExecutor(1) as pool:
        recycling = pool.submit(rounds)
        eventually("the first round has ended", lambda: first_round_ended.is_set() or recycling.done())
        receipts: list[Sealed] = []
        for n in range(0, objects, chunk):
            put(root, f"later/{n}.dat")
            receipts.append(rig.registrar.add("shop", "j", n // chunk, items[n : n + chunk]))
            if n >= objects // 2:
                half_registered.set()
        recycling.result()
    sealed = rig.registrar.seal("shop", "j", on_missing=REPORT).sealed
    rig.round()
    existing = {key for key in keys if (root / key).exists()}

    for n, receipt in enumerate(receipts):
        lost = set(keys[n * chunk : (n + 1) * chunk]) - existing
        named_keys = {name.removeprefix("disk/").rpartition(": ")[0] for name in receipt.named}
        # A key that was not written yet when its chunk came is named as missing, and is kept all the same.
        assert len(lost) <= receipt.claimed + receipt.missing
        assert len(named_keys) == min(NAMED, receipt.claimed + receipt.missing)
        assert lost <= named_keys or len(named_keys) == NAMED
    assert sealed is not None
    unprotected = sum(receipt.claimed + receipt.missing for receipt in receipts)
    assert (sealed.objects, sealed.claimed + sealed.missing) == (objects, unprotected)
    assert set(keys) - existing
    assert unprotected < objects


@pytest.mark.slow
def test_p23_a_renewal_that_races_reaping_wins_or_is_not_found(rig: Rig, tmp_path: Path) -> None:
    put(rig.local(tmp_path / "v"), "data/a.dat")
    store = ProtectionStore(rig.db, ProtectionSettings(max_count=10_000))
    items = [Item("disk", "data/", prefix=True)]
    renewed, not_found = set[str](), set[str]()

    def renew(job: str) -> None:
        start.wait(PATIENCE_SECONDS)
        try:
            store.renew("shop", job, 600)
            renewed.add(job)
        except ProtectionNotFound:
            not_found.add(job)

    for turn in range(6):
        jobs = [f"{turn}-{n}" for n in range(8)]
        registrar = Registrar(store, rig.vaults)
        for job in jobs:
            registrar.register_at_once(
                Protection(instance="shop", job=job, owner="ada", digest=digest(items)), items, 10
            )
        rig.later(11)
        start = threading.Barrier(len(jobs) + 1)
        with ThreadPoolExecutor(len(jobs)) as pool:
            sides = [pool.submit(renew, job) for job in jobs]
            start.wait(PATIENCE_SECONDS)
            store.end_due("shop")
            for side in sides:
                side.result()
    store.end_due("shop")  # jobs that were skipped during their renewal are checked again

    assert {p.job for p in store.list_protections("shop")} == renewed
    assert len(renewed) + len(not_found) == 48
