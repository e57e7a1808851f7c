"""A lease has one holder at a time and a new epoch per acquisition."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from sexton.database.guard import UnknownInstance
from sexton.marks.model import Lease, LeaseBusy, LeaseLost, NoFreeSlot
from sexton.marks.sql.leases import TTL_SECONDS, LeaseStore
from tests.support.rig import Rig


def acquire(rig: Rig, owner: str) -> Lease:
    return rig.leases.acquire("shop", "recycle", owner)


def row(rig: Rig) -> Any:
    with rig.db.read() as c:
        return c.execute(select(rig.db.t.lease)).one()


def test_every_acquisition_raises_the_epoch(rig: Rig) -> None:
    epochs = []
    for owner in ("a", "b", "b"):
        lease = acquire(rig, owner)
        epochs.append(lease.epoch)
        rig.leases.free(lease)

    assert epochs == [1, 2, 3]
    assert (row(rig).state, row(rig).owner, row(rig).expires_at) == ("IDLE", "", None)


def test_the_same_owner_keeps_its_epoch_and_gains_time(rig: Rig) -> None:
    first = acquire(rig, "a")
    ends = row(rig).expires_at
    rig.later(TTL_SECONDS - 20)

    assert acquire(rig, "a") == first
    assert row(rig).expires_at - ends >= (TTL_SECONDS - 20) * 1000


def test_an_active_lease_is_refused_to_others(rig: Rig) -> None:
    mine = acquire(rig, "a")
    before = row(rig)
    rig.later(TTL_SECONDS - 20)

    with pytest.raises(LeaseBusy, match=r"a round of shop is running \(a\)"):
        acquire(rig, "b")

    assert row(rig) == before
    rig.leases.renew(mine)


@pytest.mark.parametrize("owner", ["a", "b"])
def test_an_expired_lease_is_acquired_with_a_new_epoch(rig: Rig, owner: str) -> None:
    old = acquire(rig, "a")
    rig.leases.renew(old)
    rig.later(TTL_SECONDS)
    with pytest.raises(LeaseLost, match="epoch 1"):
        rig.leases.renew(old)

    new = acquire(rig, owner)

    assert (new.epoch, row(rig).owner) == (old.epoch + 1, owner)
    with pytest.raises(LeaseLost):
        rig.leases.renew(old)


def test_freeing_a_lost_lease_leaves_the_new_holder_alone(rig: Rig) -> None:
    old = acquire(rig, "a")
    rig.later(TTL_SECONDS)
    new = acquire(rig, "b")
    before = row(rig)

    rig.leases.free(old)

    assert row(rig) == before
    rig.leases.renew(new)


def test_leases_of_jobs_and_instances_are_independent(rig: Rig) -> None:
    rig.instance("bank")

    epochs = [
        rig.leases.acquire(i, j, "a").epoch for i, j in (("shop", "recycle"), ("shop", "check"), ("bank", "recycle"))
    ]

    assert epochs == [1, 1, 1]
    with pytest.raises(UnknownInstance):
        rig.leases.acquire("nope", "recycle", "a")


@pytest.mark.parametrize("expired", [False, True])
def test_one_of_many_concurrent_acquisitions_wins(rig: Rig, expired: bool) -> None:
    if expired:
        acquire(rig, "old")
        rig.later(TTL_SECONDS)
    start = Barrier(6)

    def come(n: int) -> int | None:
        start.wait()
        try:
            return LeaseStore(rig.db).acquire("shop", "recycle", f"w{n}").epoch
        except LeaseBusy:
            return None

    with ThreadPoolExecutor(6) as pool:
        epochs = sorted(e for e in pool.map(come, range(6)) if e is not None)

    assert epochs == [2 if expired else 1]


def test_freeing_one_jobs_lease_leaves_the_others_busy(rig: Rig) -> None:
    recycling, checking = (rig.leases.acquire("shop", job, "a") for job in ("recycle", "check"))
    assert (recycling.epoch, checking.epoch) == (1, 1)

    rig.leases.free(recycling)

    rig.leases.renew(checking)
    with pytest.raises(LeaseLost):
        rig.leases.renew(recycling)


def test_another_owner_neither_renews_nor_frees_a_lease(rig: Rig) -> None:
    lease = acquire(rig, "a")
    stranger = lease.model_copy(update={"owner": "b"})

    with pytest.raises(LeaseLost):
        rig.leases.renew(stranger)
    rig.leases.free(stranger)

    rig.leases.renew(lease)


def test_a_renewal_moves_the_end_forward(rig: Rig) -> None:
    lease = acquire(rig, "a")
    ends = row(rig).expires_at
    rig.later(TTL_SECONDS - 20)

    rig.leases.renew(lease)

    assert row(rig).expires_at - ends >= (TTL_SECONDS - 20) * 1000


def test_no_other_run_acquires_a_lease_during_its_transaction(rig: Rig) -> None:
    lease = acquire(rig, "a")

    with rig.db.write() as c:
        rig.leases.verify(lease, c)
        rig.later(TTL_SECONDS)
        with pytest.raises(OperationalError, match="lock timeout"):
            acquire(rig, "b")

    assert acquire(rig, "b").epoch == lease.epoch + 1


class TestSlots:
    @pytest.fixture
    def slots(self, rig: Rig) -> LeaseStore:
        """Two leases at a time, of three instances."""
        rig.instance("bank").instance("zoo")
        return LeaseStore(rig.db, at_once=2)

    def test_a_full_deployment_refuses_one_more(self, rig: Rig, slots: LeaseStore) -> None:
        held = [slots.acquire(instance, "recycle", "a") for instance in ("shop", "bank")]
        with pytest.raises(NoFreeSlot, match="2 rounds are running, recycle_concurrency allows 2; zoo waits"):
            slots.acquire("zoo", "recycle", "a")

        slots.free(held[0])

        assert slots.acquire("zoo", "recycle", "a").epoch == 1

    def test_a_running_round_keeps_its_slot_at_a_retry(self, rig: Rig, slots: LeaseStore) -> None:
        lease = slots.acquire("shop", "recycle", "a")
        slots.acquire("bank", "recycle", "a")

        assert slots.acquire("shop", "recycle", "a") == lease

    def test_expired_leases_and_other_jobs_use_no_slot(self, rig: Rig, slots: LeaseStore) -> None:
        slots.acquire("shop", "recycle", "a")
        slots.acquire("bank", "recycle", "a")
        rig.later(TTL_SECONDS)
        for instance in ("shop", "bank"):
            rig.leases.acquire(instance, "check", "a")

        assert slots.acquire("zoo", "recycle", "a").epoch == 1

    def test_a_lease_of_a_clock_that_was_ahead_uses_no_slot(self, rig: Rig, slots: LeaseStore) -> None:
        slots.acquire("shop", "recycle", "a")
        slots.acquire("bank", "recycle", "a")
        rig.set_year_ahead("lease", "expires_at")

        assert slots.acquire("zoo", "recycle", "a").epoch == 1


def test_an_expired_lease_is_verified_no_longer(rig: Rig) -> None:
    lease = acquire(rig, "a")
    with rig.db.write() as c:
        rig.leases.verify(lease, c)
    rig.later(TTL_SECONDS)

    with pytest.raises(LeaseLost, match="has expired"), rig.db.write() as c:
        rig.leases.verify(lease, c)


def test_a_lease_that_ends_in_a_year_is_acquired_anew(rig: Rig) -> None:
    lost = acquire(rig, "a")
    rig.set_year_ahead("lease", "expires_at")

    for owner in ("b", "b"):
        assert acquire(rig, owner).epoch == lost.epoch + 1
