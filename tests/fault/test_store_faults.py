"""A fault of the store keeps exactly the records that it concerns.

Errors for single keys in a successful reply: ``tests/museum/test_automq_1028.py``.
"""

from collections.abc import Callable, Sequence

import pytest

from sexton.contract import NewMark, Refused, undrop
from sexton.recycle.pacing import policy
from tests.fault.conftest import Faulty
from tests.servers.fault_proxy import FaultProxy
from tests.support.kept import kept_texts

pytestmark = pytest.mark.slow


def _twenty(faulty: Faulty, name: str = "data") -> list[str]:
    """Let 20 marks of one object each be due; return their keys."""
    names = [f"{name}/{n:02}.dat" for n in range(20)]
    faulty.put(*names, size=1)
    faulty.rig.mark("dropped", *(NewMark(id=f"{name}{n}", vault="cold", keys=(key,)) for n, key in enumerate(names)))
    faulty.rig.later(10_801)
    return names


PASSING: dict[str, tuple[Callable[[FaultProxy, str], None], Sequence[int]]] = {
    "a key is throttled twice": (lambda proxy, key: proxy.fail_keys({key: "SlowDown"}, times=2), (20, 1, 1)),
    "a delete is lost": (lambda proxy, _: proxy.reset_next("DeleteObjects"), (20, 10, 10)),
    "the reply of a delete is lost": (lambda proxy, _: proxy.reset_next("DeleteObjects", after=True), (20, 10, 10)),
    "the marker is throttled": (lambda proxy, _: proxy.fail_next("PutObject", 503, "SlowDown", times=6), (20,)),
}
"""Faults that pass within a round, and the keys of each delete request then."""


def test_r38_request_with_a_passing_fault_is_repeated(faulty: Faulty) -> None:
    for number, (name, (fail, sizes)) in enumerate(PASSING.items()):
        keys, before = _twenty(faulty, str(number)), len(faulty.deletes())
        fail(faulty.proxy, keys[3])

        report = faulty.rig.round()

        assert (report.removed, report.deleted, report.failed, report.waiting) == (20, 20, 0, 0), name
        assert (report.faults, report.vaults, faulty.listing()) == (0, {"cold": "normal"}, {}), name
        assert [len(request) for request in faulty.deletes()[before:]] == list(sizes), name
    assert faulty.deletes()[1:3] == [("0/03.dat",), ("0/03.dat",)]


def test_listing_is_repeated_on_a_busy_store(faulty: Faulty) -> None:
    faulty.put(*(f"d/{mark}/{n}.dat" for mark in range(5) for n in range(3)))
    faulty.rig.mark("dropped", *(NewMark(id=f"m{n}", vault="cold", prefix=f"d/{n}/") for n in range(5)))
    faulty.rig.later(10_801)
    faulty.proxy.fail_next("ListObjectsV2", 503, "SlowDown", times=24)

    busy = faulty.rig.round()
    faulty.drop("lost", "p/x.dat", prefix="p/")
    faulty.proxy.reset_next("ListObjectsV2")
    faulty.proxy.reset_next("DeleteObjects")
    once = faulty.rig.round()

    assert faulty.proxy.faults_left("ListObjectsV2") == faulty.proxy.faults_left("DeleteObjects") == 0
    assert [(r.deleted, kept_texts(r), r.faults, r.vaults) for r in (busy, once)] == [
        (15, {}, 0, {"cold": "normal"}),
        (1, {}, 0, {"cold": "normal"}),
    ]
    assert faulty.listing() == {}


def test_unreachable_store_fails_no_mark_and_is_asked_soon(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "BROKEN_TRIES", 2)
    _twenty(faulty)
    faulty.proxy.reset_next("DeleteObjects", times=3)

    lost = faulty.rig.round()
    row, instance = faulty.rig.row("dropped", "data0"), faulty.rig.instance_row()
    healed = faulty.rig.round()

    assert (lost.removed, lost.failed, lost.waiting) == (0, 0, 20)
    assert (row.state, row.failures) == ("CLAIMED", 0)
    assert (lost.vaults, lost.faults) == ({"cold": "UNREACHABLE"}, 20)
    assert lost.ended_at is not None
    assert (instance.failures, instance.retry_at, instance.last_success_at) == (1, lost.ended_at + 30_000, None)
    assert (healed.removed, faulty.listing()) == (20, {})


def test_incomplete_reply_confirms_no_deletion(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "BROKEN_TRIES", 0)
    _twenty(faulty)

    for fail in (faulty.proxy.truncate_next, faulty.proxy.empty_next):
        fail("DeleteObjects")
        report = faulty.rig.round()

        assert faulty.proxy.faults_left("DeleteObjects") == 0
        assert (report.removed, report.waiting) == (0, 20)
        assert faulty.rig.count("mark", state="CLAIMED") == 20


def test_unread_prefix_or_unwritten_marker_claims_nothing(faulty: Faulty) -> None:
    faulty.put("data/2/b.dat")
    faulty.drop("t1", "data/1/a.dat", prefix="data/1/")

    faulty.proxy.truncate_next("ListObjectsV2")
    unread, state = faulty.rig.round(), faulty.rig.row("dropped", "t1").state
    faulty.proxy.fail_next("PutObject", 403, "AccessDenied")
    refused = faulty.rig.round()

    assert (kept_texts(unread), state) == ({"vault cold: BAD_REPLY": 1}, "MARKED")
    assert (kept_texts(refused), refused.vaults) == ({"vault cold: DENIED": 1}, {"cold": "DENIED"})
    assert faulty.deletes() == []
    assert faulty.rig.round().deleted == 1
    assert set(faulty.listing()) == {"data/2/b.dat"}


def test_r41_a_quarantined_half_deleted_mark_cannot_be_undropped(faulty: Faulty) -> None:
    faulty.drop("t1", "data/1/a.dat", "data/1/b.dat")
    faulty.proxy.fail_keys({"data/1/b.dat": "AccessDenied"})

    for _ in range(8):
        faulty.rig.round()

    row = faulty.rig.row("dropped", "t1")
    assert (row.state, row.quarantined_reason, row.failures) == ("CLAIMED", "DELETE_FAILED", 8)
    assert set(faulty.listing()) == {"data/1/b.dat"}
    with pytest.raises(Refused, match="t1 is claimed"), faulty.rig.db.write() as c:
        undrop(c, "shop", "dropped", ["t1"])
    tries = len(faulty.deletes())
    faulty.rig.round()
    assert len(faulty.deletes()) == tries
