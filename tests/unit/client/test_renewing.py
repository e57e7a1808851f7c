"""A client renews its protection in time, and gives it up before it expires."""

from hypothesis import given
from hypothesis import strategies as st

from sexton.client.api_call import Unreachable
from sexton.client.protecting import MARGIN, PHASES, SHORTEST_SECONDS, Renewals
from sexton.kernel.errors import SextonError
from sexton.protection.model import GcIsRunning, Invalid, ProtectionNotFound, SoftDeleted


def test_protection_is_renewed_three_times_within_its_ttl() -> None:
    renewals = Renewals(ttl_seconds=30, renewed_at=100.0)

    assert renewals.wait(100.0) == 10.0
    renewals.record(110.0, None)
    assert renewals.wait(110.0) == 10.0
    assert (renewals.reason_lost(136.9), bool(renewals.reason_lost(137.0))) == ("", True)


def test_failed_renewal_is_retried_until_shortly_before_expiry() -> None:
    renewals = Renewals(ttl_seconds=100, renewed_at=0.0)

    renewals.record(34.0, Unreachable("nobody answers"))
    assert renewals.wait(34.0) == 1.0
    assert renewals.wait(89.5) == 0.5
    assert renewals.reason_lost(89.9) == ""
    assert "nobody answers" in renewals.reason_lost(90.0)
    renewals.record(89.0, None)
    assert renewals.reason_lost(91.0) == ""


def test_ended_protection_is_lost_at_once_and_other_errors_later() -> None:
    for error in (ProtectionNotFound("gone"), SoftDeleted("finished"), Invalid("too long")):
        renewals = Renewals(100, 0.0)
        renewals.record(1.0, error)
        assert renewals.reason_lost(1.0) == str(error)

    renewals = Renewals(100, 0.0)
    renewals.record(50.0, GcIsRunning("a round runs"))
    renewals.record(60.0, SextonError("RuntimeError: the client is closed"))
    assert renewals.reason_lost(89.9) == ""
    assert "the client is closed" in renewals.reason_lost(90.0)


@given(ttl=st.integers(1, 86_400), at=st.floats(0, 1e6), now=st.floats(0, 1.1))
def test_waits_and_requests_end_before_expiry(ttl: int, at: float, now: float) -> None:
    renewals = Renewals(ttl, at)
    then = at + now * ttl
    end = at + ttl * (1 - MARGIN)

    assert renewals.wait(then) >= 0
    assert then + renewals.wait(then) <= max(end, then) + 1e-6 * max(1.0, end)
    assert bool(renewals.reason_lost(then)) == (end - then <= 0)
    assert renewals.timeout(then) <= max(SHORTEST_SECONDS, (end - then) / PHASES)
