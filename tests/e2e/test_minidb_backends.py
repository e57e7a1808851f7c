"""Backends of minidb lose no version that a replica lacks, and followers catch up, over the real API."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.minidb.binlogs import uid
from examples.minidb.rowsets import MiniDBError
from sexton.kernel.crash_points import installed
from tests.e2e.stores import BACKENDS, Stores
from tests.integration.replication.binlog_instance import SHOP
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.crashes import OF_BACKEND, Crash, crash_at
from tests.support.rig import Rig

pytestmark = pytest.mark.slow

T = "orders.0"
STEPS = 20


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    rig = Rig(new_database())
    (tmp_path / "minidb").mkdir()
    with Api(rig) as api:
        its = Stores(rig, api, tmp_path / "minidb")
        with its.closing:
            yield its
    rig.db.close()


def test_lost_version_is_retained_on_the_other_backends(stores: Stores) -> None:
    stores.begin("orders")
    stores.upsert("orders", times=5)
    stores.backends["b2"].lose(uid(T, "b2"), 3)
    stores.report("b2")
    stores.expire()
    stores.round()
    marked = stores.leader.unwell()
    equal = stores.follower_is_equal()
    left = stores.versions(T, "b1")
    stores.repair(T, "b2", "b3")
    stores.round()

    assert (marked, equal, left) == ({(T, "b2"): (False, 3)}, True, [3, 4, 5])
    assert stores.leader.unwell() == {}
    assert (
        stores.follower_is_equal(),
        stores.have_exact_binlogs(),
        stores.replicas_are_equal(T),
        stores.versions(T, "b1"),
    ) == (True, True, True, [])


def test_replica_counts_again_after_its_full_copy(stores: Stores) -> None:
    stores.begin("orders")
    stores.upsert("orders", times=2)
    stores.upsert("orders", times=2, but=["b3"])
    stores.report()
    for tablet in (T, "orders.1"):
        stores.world.service.replicas.full_copy(SHOP, tablet, "b3", "its disk was replaced")
    stores.expire()
    stores.round("b3")
    left = stores.versions(T, "b1")
    with pytest.raises(MiniDBError, match="no binlog of version 3"):
        stores.repair(T, "b3", "b1")
    stores.backends["b3"].copy(uid(T, "b3"), stores.backends["b1"], uid(T, "b1"))
    stores.report()

    assert (left, stores.replicas_are_equal(T)) == ([], True)
    assert [stores.world.replica(t, "b3").full_copy for t in (T, "orders.1")] == ["", "its disk was replaced"]


def test_b20_dropped_table_is_deleted_on_every_backend(stores: Stores) -> None:
    stores.begin("orders", "users")
    stores.upsert("orders", "users", times=3)
    stores.report()
    stores.leader.drop_table("users")
    before = stores.leader.forget()
    stores.sweep("b1", "b2")  # b3 is away
    equal = stores.follower_is_equal()
    some = stores.leader.forget()
    stores.sweep("b3")

    assert (before, equal, some, stores.leader.forget()) == (6, True, 2, 0)
    assert [list((stores.directory / b / "data").glob("users*")) for b in BACKENDS] == [[], [], []]
    assert "users" not in stores.leader.logs()
    assert stores.versions(T, "b1") == [1, 2, 3]
    assert stores.follower_is_equal()


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("point", sorted(OF_BACKEND))
def test_b11_crashed_backend_finishes_its_next_sweep(stores: Stores, point: str, times: int) -> None:
    stores.begin("orders")
    stores.upsert("orders", times=6)
    stores.expire()
    stores.upsert("orders", times=2)
    stores.report()
    stores.world.cut_expired()
    crashed = times == 1 or point != "backend.acknowledged"  # once a page of cuts
    with installed(crash_at(point, times)):
        if crashed:
            with pytest.raises(Crash):
                stores.sweep("b1")
        else:
            stores.sweep("b1")
    stores.backends["b1"].restart()
    stores.upsert("orders")
    stores.round()

    assert stores.have_exact_binlogs()
    assert {b: stores.versions(T, b) for b in BACKENDS} == {b: [7, 8, 9] for b in BACKENDS}
    assert stores.replicas_are_equal(T)
    assert stores.follower_is_equal()


def test_crashed_leader_sends_its_last_record_again(stores: Stores) -> None:
    stores.begin("orders", "users")
    stores.upsert("orders", "users", times=3)
    stores.leader.drop_table("users")
    stores.leader.send = stores.backends["b1"].report  # type: ignore[method-assign]  # it crashes before it sends
    lost = stores.upsert("orders", but=["b1", "b2"])
    before = stores.leader.logs()[""]
    file = stores.directory / "leader" / "edits.jsonl"
    file.write_text(file.read_text() + '{"commit_seq": 99, "ta')  # and while it writes
    stores.leader = stores.start_leader()
    stores.leader.lead(stores.follower)
    stores.leader.recover()

    assert (max(before), max(stores.leader.logs()[""])) == (lost - 1, lost)
    assert stores.leader.logs()["orders"][-1] == lost
    assert stores.replicas_are_equal(T)
    assert stores.upsert("orders") == lost + 1
    assert stores.follower_is_equal()


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=pytest.mark.soak if n > 1 else pytest.mark.slow) for n in range(1, 30)]
)
def test_random_crashes_lose_no_version_and_leave_none(stores: Stores, seed: int) -> None:
    chance, crashes = random.Random(seed), 0
    stores.begin("orders", "users")
    for step in range(STEPS):
        b, tablet = chance.choice(BACKENDS), f"{chance.choice(('orders', 'users'))}.{chance.randint(0, 1)}"
        backend, other = stores.backends[b], chance.choice([x for x in BACKENDS if x != b])
        dropped = stores.leader.tables[tablet.partition(".")[0]].dropped
        match chance.choice(["upsert", "upsert", "lag", "lose", "repair", "round", "round", "crash", "time", "drop"]):
            case "upsert" | "lag" as how if not dropped:
                stores.upsert(tablet.partition(".")[0], but=[b] if how == "lag" else ())
            case "lose" if not dropped and (above := _spare(stores, tablet, b)):
                backend.lose(uid(tablet, b), chance.choice(above))
                backend.report()
            case "repair" if not dropped:
                try:
                    stores.repair(tablet, b, other)
                except MiniDBError:
                    continue  # that one lacks it too
            case "round":
                stores.round(*chance.choice([(), (b,)]))
            case "crash":
                stores.upsert("orders")
                stores.expire()
                stores.report()
                stores.world.cut_expired()
                point = chance.choice(sorted(OF_BACKEND))
                try:
                    with installed(crash_at(point, chance.randint(1, 3))):
                        stores.sweep(b)
                except Crash:
                    crashes += 1
                backend.restart()
            case "time":
                stores.expire()
            case "drop" if step > STEPS * 3 // 4 and tablet.startswith("users"):
                stores.leader.drop_table("users") if not dropped else stores.leader.forget()
        assert stores.are_repairable()
        assert stores.follower_is_equal()
    stores.round()
    assert stores.have_exact_binlogs()
    assert crashes or seed > 1  # not every one has an end to crash in


def _spare(stores: Stores, tablet: str, backend: str) -> list[int]:
    """Return versions that a copy can lose and take from the binlogs of another one."""
    others = [stores.versions(tablet, b, whole=False) for b in BACKENDS if b != backend]
    mine = {first for first, _ in stores.backends[backend].ranges(uid(tablet, backend))}
    granted = max(stores.world.replica(tablet, b).granted for b in BACKENDS)
    return sorted(v for v in mine.intersection(*others) if v > granted)
