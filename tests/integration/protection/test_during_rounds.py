"""Protections while rounds run: chunks that come in between, and renewals that race the reaper. P22 and P23."""

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
from tests.support.rig import Rig, put

NAMED = 100
"""Names a chunk is told of at most; their number it is told always."""


@pytest.mark.parametrize(
    ("objects", "chunk", "per_mark"),
    [(240, 20, 1), pytest.param(1_000_000, 12_500, 250, marks=pytest.mark.soak)],
    ids=["240", "1000000"],
)
def test_p22_each_chunk_is_honoured_from_its_commit_and_what_is_named_is_exactly_what_went(
    rig: Rig, tmp_path: Path, objects: int, chunk: int, per_mark: int
) -> None:
    root = rig.local(tmp_path / "v")
    keys = [f"m/{n // 1_000:03}/{n:06}.dat" for n in range(objects)]
    rig.later(10_801)
    items = [Item("disk", key) for key in keys]
    rig.protections.open(Protection(instance="shop", job="j", owner="ada", digest=digest(items)), 80_000)
    registering = threading.Event()

    def rounds() -> None:
        for wave in range(4):  # the last chunks find nothing marked, the first ones come before any claim
            its = keys[wave * objects // 4 : (wave + 1) * objects // 4]
            for n, key in enumerate(its):
                (root / key).parent.mkdir(parents=True, exist_ok=True) if n % 1_000 == 0 or objects < 1_000 else None
                (root / key).write_bytes(b"x")
            its_marks = (its[n : n + per_mark] for n in range(0, len(its), per_mark))
            rig.mark("dropped", *(NewMark(id=some[0][-10:-4], vault="disk", keys=tuple(some)) for some in its_marks))
            rig.later(10_801)
            rig.round()
            registering.set()

    with ThreadPoolExecutor(1) as pool:
        recycling = pool.submit(rounds)
        while not registering.wait(1):
            assert not recycling.done(), recycling.exception()
        told: list[Sealed] = []
        for n in range(0, objects, chunk):
            put(root, f"later/{n}.dat")
            told.append(rig.registrar.add("shop", "j", n // chunk, items[n : n + chunk]))
        recycling.result()
    sealed = rig.registrar.seal("shop", "j", on_missing=REPORT).sealed
    rig.round()
    there = {key for key in keys if (root / key).exists()}

    for n, its in enumerate(told):
        lost = set(keys[n * chunk : (n + 1) * chunk]) - there
        named = {name.removeprefix("disk/").rpartition(": ")[0] for name in its.named}
        # What was not yet written when its chunk came is named as not there, and was kept all the same.
        assert len(lost) <= its.claimed + its.missing
        assert len(named) == min(NAMED, its.claimed + its.missing)
        assert lost <= named or len(named) == NAMED
    assert sealed is not None
    told_of = sum(its.claimed + its.missing for its in told)
    assert (sealed.objects, sealed.claimed + sealed.missing) == (objects, told_of)
    assert set(keys) - there
    assert told_of < objects


def test_p23_a_renewal_that_races_the_reaper_is_renewed_or_not_found(rig: Rig, tmp_path: Path) -> None:
    put(rig.local(tmp_path / "v"), "data/a.dat")
    store = ProtectionStore(rig.db, ProtectionSettings(max_count=10_000))
    items = [Item("disk", "data/", prefix=True)]
    renewed, gone = set[str](), set[str]()

    def renew(job: str) -> None:
        start.wait(30)
        try:
            store.renew("shop", job, 600)
            renewed.add(job)
        except ProtectionNotFound:
            gone.add(job)

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
            start.wait(30)
            store.end_due("shop")
            for side in sides:
                side.result()
    store.end_due("shop")  # what was passed over because it was being renewed is looked at again

    assert {p.job for p in store.list_protections("shop")} == renewed
    assert len(renewed) + len(gone) == 48
