"""A lease has one holder at a time and a new epoch per acquisition."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from sexton.database.guard import UnknownInstance
from sexton.marks.model import Lease, LeaseBusy, LeaseLost, NoFreeSlot
from sexton.marks.sql.leases import TTL_SECONDS, LeaseStore
from sexton.recycle.pipeline.active_lease import ActiveLease
from tests.support.rig import Rig


def acquire(rig: Rig, owner: str) -> Lease:
    return rig.leases.acquire("shop", "recycle", owner)


def row(rig: Rig) -> Any:
    [lease] = rig.rows("lease")
    return lease


def test_every_acquisition_raises_the_epoch(rig: Rig) -> None:
    epochs = []
    for owner in ("a", "b", "b"):
        lease = acquire(rig, owner)
        epochs.append(lease.epoch)
        rig.leases.free(lease)

    assert epochs == [1, 2, 3]
    assert (row(rig).state, row(rig).owner, row(rig).expires_at) == ("IDLE", "", None)


def test_the_same_owner_keeps_its_epoch_and_gains_time(rig: Rig) -> None:
    lease = acquire(rig, "a")
    in_use = ActiveLease(rig.leases, rig.controls, lease, lambda: None)
    for gain_time in (lambda: acquire(rig, "a"), lambda: rig.leases.renew(lease), in_use.renew_if_due):
        ends = row(rig).expires_at
        rig.later(TTL_SECONDS - 20)

        gain_time()

        assert row(rig).expires_at - ends >= (TTL_SECONDS - 20) * 1000
    assert acquire(rig, "a") == lease


def test_an_active_lease_is_refused_to_others(rig: Rig) -> None:
    mine = acquire(rig, "a")
    before = row(rig)
    rig.later(TTL_SECONDS - 20)

    with pytest.raises(LeaseBusy, match=r"a round of shop is running \(a\)"):
        acquire(rig, "b")

    assert row(rig) == before
    rig.leases.renew(mine)


def test_an_expired_lease_is_acquired_with_a_new_epoch(rig: Rig) -> None:
    for owner in ("a", "b"):
        old = acquire(rig, "a")
        rig.leases.renew(old)
        rig.later(TTL_SECONDS)
        with pytest.raises(LeaseLost, match=f"epoch {old.epoch}"):
            rig.leases.renew(old)

        new = acquire(rig, owner)

        assert (new.epoch, row(rig).owner) == (old.epoch + 1, owner)
        with pytest.raises(LeaseLost):
            rig.leases.renew(old)
        rig.leases.free(new)


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
    jobs = (("shop", "recycle"), ("shop", "check"), ("bank", "recycle"))

    recycling, *others = leases = [rig.leases.acquire(instance, job, "a") for instance, job in jobs]
    rig.leases.free(recycling)

    assert [lease.epoch for lease in leases] == [1, 1, 1]
    for other in others:
        rig.leases.renew(other)
    with pytest.raises(LeaseLost):
        rig.leases.renew(recycling)
    with pytest.raises(UnknownInstance):
        rig.leases.acquire("nope", "recycle", "a")


def test_one_of_many_concurrent_acquisitions_wins(rig: Rig) -> None:
    for epoch in (1, 2):  # of an instance without a lease, and with one that has expired
        start = Barrier(6)

        def come(n: int, start: Barrier = start) -> int | None:
            start.wait()
            try:
                return LeaseStore(rig.db).acquire("shop", "recycle", f"w{n}").epoch
            except LeaseBusy:
                return None

        with ThreadPoolExecutor(6) as pool:
            assert [e for e in pool.map(come, range(6)) if e is not None] == [epoch]
        rig.later(TTL_SECONDS)


def test_another_owner_neither_renews_nor_frees_a_lease(rig: Rig) -> None:
    lease = acquire(rig, "a")
    stranger = lease.model_copy(update={"owner": "b"})

    with pytest.raises(LeaseLost):
        rig.leases.renew(stranger)
    rig.leases.free(stranger)

    rig.leases.renew(lease)


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
        assert slots.acquire("shop", "recycle", "a") == held[0]  # a retry of a running round
        with pytest.raises(NoFreeSlot, match="2 rounds are running, recycle_concurrency allows 2; zoo waits"):
            slots.acquire("zoo", "recycle", "a")

        slots.free(held[0])

        assert slots.acquire("zoo", "recycle", "a").epoch == 1

    def test_leases_that_are_not_active_and_other_jobs_use_no_slot(self, rig: Rig, slots: LeaseStore) -> None:
        held = [slots.acquire(instance, "recycle", "a") for instance in ("shop", "bank")]
        rig.later(TTL_SECONDS)
        for instance in ("shop", "bank"):
            rig.leases.acquire(instance, "check", "a")
        slots.free(slots.acquire("zoo", "recycle", "a"))

        for lease in held:
            slots.acquire(lease.instance, "recycle", "a")
        rig.set_year_ahead("lease", "expires_at")  # by a clock that was ahead
        assert slots.acquire("zoo", "recycle", "a").epoch == 2


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
