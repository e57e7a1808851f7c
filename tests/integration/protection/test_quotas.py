"""A job has a quota of its own: protections, objects, bytes, the size of a filter, and the age of a protection."""

from pathlib import Path

import pytest
from sqlalchemy import select

from sexton.protection.errors import JobQuotaExceeded, MaxCount
from sexton.protection.filter import Filter
from sexton.protection.model import Item, ProtectionSettings
from sexton.protection.registrar import Registrar
from sexton.protection.sql.store import ProtectionStore
from tests.integration.protection.registrations import protect, registration
from tests.support.rig import DAY, Rig


def limit(rig: Rig, **limits: int) -> None:
    rig.protections._settings = ProtectionSettings(**limits)


def own_register(rig: Rig) -> ProtectionStore:
    """Return the register as a job's own token uses it."""
    return rig.protections.for_job()


def usage(rig: Rig) -> dict[str, tuple[int, int]]:
    t = rig.db.t.protection
    with rig.db.read() as c:
        return {row.job: (row.objects, row.bytes) for row in c.execute(select(t.c.job, t.c.objects, t.c.bytes))}


def test_runs_of_a_job_share_its_number_of_protections(rig: Rig, root: Path) -> None:
    limit(rig, job_max_protections=2)
    for run in ("copy:1", "copy:2"):
        protect(rig, run, "data/a.dat")

    for run in ("copy", "copy:3"):
        with pytest.raises(JobQuotaExceeded, match=r"have 2 protections.*job_max_protections"):
            protect(rig, run, "data/a.dat")
    for other in ("COPY:3", "copy2:1", "cop"):
        assert protect(rig, other, "data/a.dat").job == other


def test_finished_protections_count_until_they_end(rig: Rig, root: Path) -> None:
    limit(rig, job_max_protections=1)
    protect(rig, "copy:1", "data/a.dat", valid_ts=7)
    rig.protections.watermark("shop", 7)
    rig.protections.finish("shop", "copy:1")

    with pytest.raises(JobQuotaExceeded, match="finished ones included"):
        protect(rig, "copy:2", "data/a.dat")
    rig.protections.watermark("shop", 8)

    assert protect(rig, "copy:2", "data/a.dat").job == "copy:2"


def test_other_jobs_cannot_use_up_the_place_of_a_job(rig: Rig, root: Path) -> None:
    limit(rig, max_count=2)
    for run in ("greedy:1", "greedy:2"):
        protect(rig, run, "data/a.dat")
    own = Registrar(own_register(rig), rig.vaults)
    items = [Item("disk", "data/b.dat")]

    with pytest.raises(MaxCount):
        own.register_at_once(registration("greedy:3", *items), items)
    first = own.register_at_once(registration("copy:1", *items), items)
    with pytest.raises(MaxCount):
        own.register_at_once(registration("copy:2", *items), items)

    assert first.job == "copy:1"


def test_objects_of_a_jobs_runs_are_counted_together(rig: Rig, root: Path) -> None:
    limit(rig, job_max_objects=3)
    protect(rig, "copy:1", "data/a.dat", "data/b.dat")

    with pytest.raises(JobQuotaExceeded, match=r"would protect 4 objects.*may protect 3.*job_max_objects"):
        protect(rig, "copy:2", "data/a.dat", "dir/")
    protect(rig, "copy:2", "data/c.dat")
    protect(rig, "other", "data/a.dat", "data/b.dat", "data/c.dat")

    assert {job: objects for job, (objects, _) in usage(rig).items()} == {"copy:1": 2, "copy:2": 1, "other": 3}
    assert [p.job for p in rig.protections.list_protections("shop")] == ["copy:1", "copy:2", "other"]


def test_refused_chunk_stores_no_item(rig: Rig, root: Path) -> None:
    limit(rig, job_max_objects=2)
    items = [Item("disk", f"data/{name}.dat") for name in "abc"]
    rig.protections.open(registration("copy:1", *items), None)
    rig.registrar.add("shop", "copy:1", 0, items[:2])

    with pytest.raises(JobQuotaExceeded):
        rig.registrar.add("shop", "copy:1", 1, items[2:])
    again = rig.registrar.add("shop", "copy:1", 0, items[:2])

    assert again.objects == 2
    assert rig.count("protection_item") == 2


def test_bytes_of_looked_up_objects_are_limited(rig: Rig, root: Path) -> None:
    (size,) = {path.stat().st_size for path in (root / "data").iterdir()}
    limit(rig, job_max_bytes=2 * size)
    protect(rig, "copy:1", "data/a.dat", "dir/")

    with pytest.raises(JobQuotaExceeded, match=rf"would protect {3 * size} bytes.*job_max_bytes"):
        protect(rig, "copy:2", "data/b.dat", "data/c.dat")
    protect(rig, "other", "data/b.dat", "data/c.dat")

    assert usage(rig) == {"copy:1": (2, size), "other": (2, 2 * size)}


def test_filter_counts_with_its_keys(rig: Rig, root: Path) -> None:
    limit(rig, job_max_objects=2)
    items = [Item("disk", f"data/{name}.dat") for name in "abc"]
    filter_ = Filter.build(items, 3)

    with pytest.raises(JobQuotaExceeded, match="would protect 3 objects"):
        rig.registrar.register_at_once(registration("copy:1", filter_=filter_), (), filter_=filter_)
    small = Filter.build(items[:2], 3)
    rig.registrar.register_at_once(registration("copy:1", filter_=small), (), filter_=small)

    assert usage(rig) == {"copy:1": (2, 0)}


def test_filter_of_a_jobs_own_token_is_limited(rig: Rig, root: Path) -> None:
    own = Registrar(own_register(rig), rig.vaults)
    item = Item("disk", "data/a.dat")
    large = Filter.build([item], 1_300_000)
    full = Filter(b"\xff" * 8, 64, 10, 0, count=1)

    for filter_, reason in ((large, "may have 2,097,152"), (full, "covers 100% of all keys")):
        with pytest.raises(JobQuotaExceeded, match=reason):
            own.register_at_once(registration("copy:1", filter_=filter_), (), filter_=filter_)
    by_operator = rig.registrar.register_at_once(registration("copy:1", filter_=large), (), filter_=large)
    fitting = Filter.build([item], 1_100_000)
    by_job = own.register_at_once(registration("copy:2", filter_=fitting), (), filter_=fitting)

    assert large.stored_bytes == len(bytes(large)) > 2 << 20
    assert (by_operator.job, by_job.job) == ("copy:1", "copy:2")


def test_job_extends_its_protection_up_to_an_age(rig: Rig, root: Path) -> None:
    limit(rig, job_max_age_seconds=2 * DAY)
    protect(rig, "copy:1", "data/a.dat", seconds=DAY)
    rig.later(DAY - 60)
    own = own_register(rig)
    renewed = own.renew("shop", "copy:1", DAY)
    rig.later(DAY - 60)

    with pytest.raises(JobQuotaExceeded, match=r"sexton protection renew copy:1.*job_max_age_seconds"):
        own.renew("shop", "copy:1", 3_600)
    repeated = own.open(registration("copy:1", Item("disk", "data/a.dat")), 3_600)
    unchanged = own.renew("shop", "copy:1", 60, at_least=True)
    by_operator = rig.protections.renew("shop", "copy:1", DAY)

    assert repeated.expires_at == repeated.registered_at + 2 * DAY * 1000
    assert renewed.expires_at < repeated.expires_at == unchanged.expires_at < by_operator.expires_at


def test_job_registers_for_no_longer_than_that_age(rig: Rig, root: Path) -> None:
    limit(rig, job_max_age_seconds=600)

    with pytest.raises(JobQuotaExceeded, match="600 s after its registration"):
        own_register(rig).open(registration("copy:1", Item("disk", "data/a.dat")), 601)
    assert rig.protections.list_protections("shop") == []
