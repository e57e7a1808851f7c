"""A fault of the store keeps exactly the records that it concerns."""

import pytest

from sexton.contract import NewMark, Refused, undrop
from tests.fault.conftest import Faulty
from tests.support.kept import kept_texts

pytestmark = pytest.mark.slow


def _many(faulty: Faulty, count: int) -> list[str]:
    names = [f"data/{n:04}.dat" for n in range(count)]
    faulty.put(*names, size=1)
    marks = (NewMark(id=f"t{n:04}", vault="cold", keys=(name,), bytes=1) for n, name in enumerate(names))
    faulty.rig.mark("dropped", *marks)
    faulty.rig.later(10_801)
    return names


def test_r16_failed_delete_keeps_the_record_of_its_tablet(faulty: Faulty) -> None:
    files = {t: [f"data/{t}/{n}.dat" for n in range(3)] for t in range(5)}
    faulty.put(*(name for names in files.values() for name in names))
    for t in files:
        faulty.rig.mark("dropped", NewMark(id=f"t{t}", vault="cold", keys=tuple(files[t]), bytes=30))
    faulty.rig.later(10_801)
    faulty.proxy.fail_keys({"data/2/1.dat": "AccessDenied"}, times=1)

    broken = faulty.rig.round()
    left, row = faulty.listing(), faulty.rig.row("dropped", "t2")
    healed = faulty.rig.round()

    assert left == {"data/2/1.dat": 10}
    assert (broken.removed, broken.failed, broken.waiting) == (4, 1, 1)
    assert (row.state, row.failures, row.last_error.split(":")[0]) == ("CLAIMED", 1, "AccessDenied")
    assert broken.deleted == 14
    assert (healed.removed, healed.deleted, healed.failed) == (1, 1, 0)
    assert faulty.listing() == {}
    assert faulty.rig.count("mark") == 0


def test_r38_200_with_errors_keeps_only_the_failed_records(faulty: Faulty) -> None:
    names = _many(faulty, 1_000)
    faulty.proxy.fail_keys({names[3]: "AccessDenied"}, times=1)
    faulty.proxy.fail_keys({names[700]: "InternalError"}, times=1)

    report = faulty.rig.round()

    assert set(faulty.listing()) == {names[3]}
    assert (report.removed, report.failed, report.waiting) == (999, 1, 1)
    assert faulty.rig.row("dropped", "t0003").last_error.startswith("AccessDenied")
    assert [len(keys) for keys in faulty.deletes()] == [1_000, 1]


def test_r38_slow_down_is_retried_in_the_same_round(faulty: Faulty) -> None:
    names = _many(faulty, 20)
    faulty.proxy.fail_keys({names[3]: "SlowDown"}, times=2)

    report = faulty.rig.round()

    assert faulty.listing() == {}
    assert (report.deleted, report.failed, report.removed) == (20, 0, 20)
    assert faulty.deletes()[1:] == [(names[3],), (names[3],)]


def test_unreachable_store_does_not_count_as_a_failed_attempt(faulty: Faulty) -> None:
    names = _many(faulty, 20)
    faulty.proxy.reset_next("DeleteObjects", times=3)

    lost = faulty.rig.round()
    row = faulty.rig.row("dropped", "t0000")
    healed = faulty.rig.round()

    assert (lost.removed, lost.failed, lost.waiting) == (0, 0, 20)
    assert (row.state, row.failures) == ("CLAIMED", 0)
    assert (lost.vaults, lost.faults) == ({"cold": "UNREACHABLE"}, 20)
    assert healed.removed == 20
    assert not set(names) & set(faulty.listing())


def test_delete_with_a_lost_reply_is_repeated(faulty: Faulty) -> None:
    _many(faulty, 20)
    faulty.proxy.reset_next("DeleteObjects", after=True)

    report = faulty.rig.round()

    assert faulty.listing() == {}
    assert (report.removed, report.deleted, report.waiting) == (20, 20, 0)
    assert len(faulty.deletes()) == 2


def test_one_bad_reply_does_not_exclude_a_vault(faulty: Faulty) -> None:
    names = _many(faulty, 20)
    faulty.put("p/x.dat")
    faulty.rig.mark("dropped", NewMark(id="a-prefix", vault="cold", prefix="p/"))
    faulty.rig.later(10_801)
    faulty.proxy.reset_next("ListObjectsV2")
    faulty.proxy.reset_next("DeleteObjects")

    report = faulty.rig.round()

    assert faulty.listing() == {}
    assert (report.claimed, report.faults, report.vaults) == (len(names) + 1, 0, {"cold": "normal"})


def test_round_with_an_unreachable_vault_is_retried_soon(faulty: Faulty) -> None:
    _many(faulty, 20)
    faulty.proxy.reset_next("DeleteObjects", times=3)

    report = faulty.rig.round()
    row = faulty.rig.instance_row()

    assert report.ended_at is not None
    assert (row.failures, row.retry_at, row.last_success_at) == (1, report.ended_at + 30_000, None)


@pytest.mark.parametrize("fault", ["truncate_next", "empty_next"])
def test_incomplete_reply_confirms_no_deletion(faulty: Faulty, fault: str) -> None:
    _many(faulty, 20)
    getattr(faulty.proxy, fault)("DeleteObjects")

    report = faulty.rig.round()

    assert (report.removed, report.waiting) == (0, 20)
    assert faulty.rig.count("mark", state="CLAIMED") == 20


def test_a_truncated_listing_claims_nothing_under_that_prefix(faulty: Faulty) -> None:
    faulty.put("data/1/a.dat", "data/2/b.dat")
    faulty.rig.mark("dropped", NewMark(id="t1", vault="cold", prefix="data/1/"))
    faulty.rig.later(10_801)
    faulty.proxy.truncate_next("ListObjectsV2")

    report = faulty.rig.round()

    assert faulty.rig.row("dropped", "t1").state == "MARKED"
    assert kept_texts(report) == {"vault cold: BAD_REPLY": 1}
    assert faulty.deletes() == []


def test_r41_a_quarantined_half_deleted_mark_cannot_be_undropped(faulty: Faulty) -> None:
    faulty.put("data/1/a.dat", "data/1/b.dat")
    faulty.rig.mark("dropped", NewMark(id="t1", vault="cold", keys=("data/1/a.dat", "data/1/b.dat")))
    faulty.rig.later(10_801)
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


def test_quarantined_delete_is_retried_after_a_day(faulty: Faulty) -> None:
    faulty.put("a.dat")
    faulty.rig.mark("dropped", NewMark(id="m", vault="cold", keys=("a.dat",)))
    faulty.rig.later(10_801)
    faulty.proxy.fail_keys({"a.dat": "AccessDenied"}, times=8)
    for _ in range(9):
        faulty.rig.round()
    assert set(faulty.listing()) == {"a.dat"}
    faulty.rig.later(86_401)

    report = faulty.rig.round()

    assert (report.removed, faulty.listing()) == (1, {})


def test_round_deletes_nothing_if_the_marker_cannot_be_written(faulty: Faulty) -> None:
    faulty.put("a.dat")
    faulty.rig.mark("dropped", NewMark(id="a", vault="cold", keys=("a.dat",)))
    faulty.rig.later(10_801)
    faulty.proxy.fail_next("PutObject", 403, "AccessDenied")

    refused = faulty.rig.round()

    assert (kept_texts(refused), refused.vaults) == ({"vault cold: DENIED": 1}, {"cold": "DENIED"})
    assert faulty.deletes() == []
    assert faulty.rig.round().removed == 1
    assert faulty.listing() == {}


def test_marker_write_is_retried_on_a_busy_store(faulty: Faulty) -> None:
    faulty.put("a.dat")
    faulty.rig.mark("dropped", NewMark(id="a", vault="cold", keys=("a.dat",)))
    faulty.rig.later(10_801)
    faulty.proxy.fail_next("PutObject", 503, "SlowDown", times=6)

    report = faulty.rig.round()

    assert (report.removed, report.faults) == (1, 0)


def test_listing_is_retried_on_a_busy_store(faulty: Faulty) -> None:
    faulty.put(*(f"d/{mark}/{n}.dat" for mark in range(5) for n in range(3)))
    marks = (NewMark(id=f"m{n}", vault="cold", prefix=f"d/{n}/") for n in range(5))
    faulty.rig.mark("dropped", *marks)
    faulty.rig.later(10_801)
    faulty.proxy.fail_next("ListObjectsV2", 503, "SlowDown", times=24)

    report = faulty.rig.round()

    assert faulty.proxy.faults_left("ListObjectsV2") == 0
    assert (report.deleted, kept_texts(report), report.faults) == (15, {}, 0)
    assert faulty.listing() == {}
