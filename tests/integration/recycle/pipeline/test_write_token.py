"""Which tokens may write: the latest opening of a batch, under a lease that its epoch still holds."""

import threading

import pytest
from sqlalchemy import select

from sexton.marks.lease_port import LeaseLost
from sexton.marks.model import WriteToken
from sexton.marks.sql.leases import TTL_SECONDS
from sexton.recycle.pipeline.sql.write_token import verify
from tests.support.claims import token
from tests.support.rig import Rig


def verify_at(rig: Rig, with_: WriteToken, now: int | None = None, *, shared: bool = False) -> None:
    """Verify a token as a claim does at an instant, or as an outcome does."""
    with rig.db.write() as c:
        verify(rig.db, c, with_, now=now, shared=shared)


def test_a_claim_at_the_instant_of_expiry_is_refused(rig: Rig) -> None:
    with_ = token(rig)
    with rig.db.read() as c:
        expires_at = c.execute(select(rig.db.t.lease.c.expires_at)).scalar_one()

    verify_at(rig, with_, expires_at - 1)
    with pytest.raises(LeaseLost):
        verify_at(rig, with_, expires_at)


def test_an_outcome_may_be_stored_after_expiry(rig: Rig) -> None:
    with_ = token(rig)
    rig.later(TTL_SECONDS)

    verify_at(rig, with_, shared=True)


def test_a_late_first_attempt_opens_no_batch_of_the_second(rig: Rig) -> None:
    second = token(rig, attempt=2)

    with pytest.raises(LeaseLost, match="taken over by a newer attempt"):
        token(rig, attempt=1)

    verify_at(rig, second)


@pytest.mark.parametrize("shared", [False, True])
def test_an_old_epoch_of_the_same_run_writes_nothing(rig: Rig, shared: bool) -> None:
    old = token(rig)
    rig.later(TTL_SECONDS)
    new = rig.leases.acquire("shop", old.lease.job, old.lease.owner)
    assert new.epoch == old.lease.epoch + 1

    with pytest.raises(LeaseLost, match="epoch 1"):
        verify_at(rig, old, shared=shared)


def test_a_lease_of_another_job_proves_nothing(rig: Rig) -> None:
    with_ = token(rig)
    rig.leases.free(with_.lease)
    rig.leases.acquire("shop", "check", with_.lease.owner)

    with pytest.raises(LeaseLost):
        verify_at(rig, with_)


def test_outcomes_are_stored_while_a_claim_holds_the_batch(postgres_rig: Rig) -> None:
    with_ = token(postgres_rig)
    storing = threading.Thread(target=lambda: verify_at(postgres_rig, with_, shared=True))

    with postgres_rig.db.write() as claiming:
        verify(postgres_rig.db, claiming, with_)
        storing.start()
        storing.join(4)

        assert not storing.is_alive()


@pytest.mark.parametrize("shared", [False, True])
def test_a_take_over_waits_for_a_write_under_way(postgres_rig: Rig, shared: bool) -> None:
    first, opened = token(postgres_rig), []
    taking_over = threading.Thread(target=lambda: opened.append(token(postgres_rig, attempt=2)))

    with postgres_rig.db.write() as writing:
        verify(postgres_rig.db, writing, first, shared=shared)
        taking_over.start()
        taking_over.join(0.5)
        assert (taking_over.is_alive(), opened) == (True, [])
    taking_over.join(10)

    assert [second.attempt for second in opened] == [2]
    with pytest.raises(LeaseLost):
        verify_at(postgres_rig, first, shared=shared)
