"""A registration is accepted whole or refused, also by the quotas of its job, and repeating it changes nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.kernel.errors import BadInput
from sexton.protection.filter import Filter
from sexton.protection.model import (
    Exists,
    GcIsRunning,
    Invalid,
    Item,
    JobQuotaExceeded,
    MaxCount,
    ProtectionNotFound,
    ProtectionSettings,
    ProtectionState,
    SoftDeleted,
)
from sexton.protection.registrar import REPORT, Registrar
from sexton.storage.local.vault import LocalVault
from tests.integration.protection.registrations import garbage, protect, registration, same_protection
from tests.servers.postgres import new_database
from tests.support.rig import DAY, Rig, put


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rig, Path]]:
    """A rig with garbage for all tests of this file; no round of theirs deletes any of it."""
    rig = Rig(new_database()).instance()
    yield rig, garbage(rig, tmp_path_factory.mktemp("vaults"))
    rig.db.close()


@pytest.fixture
def rig(deployment: tuple[Rig, Path]) -> Iterator[Rig]:
    """The rig, without a protection and with the usual limits."""
    rig, settings = deployment[0], deployment[0].protections._settings
    yield rig
    rig.protections._settings = settings
    for table in ("protection_item", "protection_chunk", "protection"):
        rig.sql(f"DELETE FROM {{}}{table}")


@pytest.fixture
def root(deployment: tuple[Rig, Path]) -> Path:
    return deployment[1]


def test_p02_a_repeated_registration_must_have_the_same_content(rig: Rig, root: Path) -> None:
    first = protect(rig, "j", "data/a.dat", "data/b.dat")

    assert same_protection(protect(rig, "j", "data/b.dat", "data/a.dat"), first)
    with pytest.raises(Exists) as refused:
        protect(rig, "j", "data/c.dat")
    assert refused.value.code == 20644
    assert rig.count("protection_item") == 2


def test_p03_a_finished_job_may_only_be_finished_again(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", valid_ts=7)
    finished = rig.protections.finish("shop", "j")

    with pytest.raises(Exists):
        protect(rig, "j", "data/a.dat", valid_ts=7)
    with pytest.raises(SoftDeleted) as refused:
        rig.protections.renew("shop", "j", 1_200)
    assert refused.value.code == 20646
    assert rig.protections.finish("shop", "j") == finished


def test_p04_a_full_register_reaps_overdue_entries_first(rig: Rig, root: Path) -> None:
    rig.protections._settings = ProtectionSettings(max_count=2)
    protect(rig, "old", "data/a.dat", seconds=60)
    protect(rig, "live", "data/b.dat")
    with pytest.raises(MaxCount) as refused:
        protect(rig, "more", "data/c.dat")
    rig.later(61)

    protect(rig, "more", "data/c.dat")

    assert refused.value.code == 20645
    assert [p.job for p in rig.protections.list_protections("shop")] == ["live", "more"]


def test_a_protection_that_is_being_renewed_ends_with_no_round(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", seconds=60)
    rig.later(61)

    with rig.protections._locked("shop", "j"):
        assert rig.protections.end_due("shop") == {}
    assert list(rig.protections.end_due("shop")) == ["j"]


def test_p06_an_unknown_job_is_not_found(rig: Rig, root: Path) -> None:
    for act in (rig.protections.finish, rig.protections.release):
        with pytest.raises(ProtectionNotFound) as refused:
            act("shop", "nobody")
        assert refused.value.code == 20643
    with pytest.raises(ProtectionNotFound):
        rig.protections.renew("shop", "nobody", 60)


def test_p18_the_strict_gate_refuses_during_a_round(rig: Rig, root: Path) -> None:
    rig.protections._settings = ProtectionSettings(strict_gate=True)
    lease = rig.leases.acquire("shop", "recycle", "somebody")
    with pytest.raises(GcIsRunning) as refused:
        protect(rig, "j", "data/a.dat")
    rig.leases.free(lease)

    assert refused.value.code == 20642
    assert protect(rig, "j", "data/a.dat").state is ProtectionState.ACTIVE


def test_a_chunk_may_be_repeated_but_not_changed(rig: Rig, root: Path) -> None:
    items = [Item("disk", "data/a.dat"), Item("disk", "data/b.dat")]
    rig.protections.open(registration("j", *items), None)

    first = rig.registrar.add("shop", "j", 0, items)

    assert rig.registrar.add("shop", "j", 0, items) == first
    with pytest.raises(Invalid, match="other items before"):
        rig.registrar.add("shop", "j", 0, items[:1])
    rig.registrar.seal("shop", "j")
    with pytest.raises(Invalid, match="is sealed"):
        rig.registrar.add("shop", "j", 1, [Item("disk", "data/c.dat")])


def test_a_registration_is_sealed_with_exactly_its_chunks(rig: Rig, root: Path) -> None:
    items = [Item("disk", "data/a.dat")]
    opened = rig.protections.open(registration("j", *items), None)
    with pytest.raises(Invalid, match="no chunk"):
        rig.registrar.seal("shop", "j")
    rig.protections.add(opened, 0, items)
    with pytest.raises(Invalid, match="chunk 0 of job j is not registered"):
        rig.registrar.seal("shop", "j")

    for numbers in ((0, 2), (1,), (0, 1, 2)):
        job = f"two of {numbers}"
        rig.protections.open(registration(job), None)
        for n in numbers:
            rig.registrar.add("shop", job, n, [Item("disk", f"data/{'abc'[n]}.dat")])
        with pytest.raises(Invalid, match="not registered correctly"):
            rig.registrar.seal("shop", job, count=2)


def test_a_late_result_of_a_chunk_counts_for_no_newer_one(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [Item("disk", "dir/x.dat")], [Item("disk", "gone/1.dat"), Item("disk", "gone/2.dat")]
    rig.protections.open(registration("j", *first), None)
    claimed = rig.protections.find_claimed

    def slow(*given: object, **more: object) -> object:
        monkeypatch.undo()
        rig.protections.release("shop", "j")
        rig.protections.add(rig.protections.open(registration("j", *second), None), 0, second)
        return claimed(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(rig.protections, "find_claimed", slow)
    with pytest.raises(ProtectionNotFound):
        rig.registrar.add("shop", "j", 0, first)

    assert rig.registrar.add("shop", "j", 0, second).missing == 2


def test_a_registration_of_nothing_or_of_a_bad_name_is_refused(rig: Rig, root: Path) -> None:
    for job in ["", "a\0b", "x" * 201]:
        with pytest.raises(BadInput):
            rig.protections.open(registration(job), None)
    with pytest.raises(Invalid, match=r"dta/: nothing below it"):
        protect(rig, "j", "dta/")
    assert rig.count("protection") == 0
    rig.protections.open(registration("k"), None)
    with pytest.raises(Invalid, match="names nothing"):
        rig.registrar.add("shop", "k", 0, [])


def test_many_objects_of_a_folder_are_verified_by_listing(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    stat = LocalVault.stat
    monkeypatch.setattr(LocalVault, "stat", lambda vault, keys: asked.extend(keys) or stat(vault, keys))
    root = rig.local(tmp_path / "w", "many")
    for n in range(60):
        put(root, f"f/{n:03}.dat")
    items = [Item("many", f"f/{n:03}.dat") for n in range(70)]

    protection = rig.registrar.register_at_once(registration("j", *items), items, on_missing=REPORT)

    assert protection.sealed is not None
    assert (protection.sealed.objects, protection.sealed.missing, asked) == (70, 10, [])


def limit(rig: Rig, **limits: int) -> None:
    rig.protections._settings = ProtectionSettings(**limits)


def usage(rig: Rig) -> dict[str, tuple[int, int]]:
    return {row.job: (row.objects, row.bytes) for row in rig.rows("protection")}


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
    for _ in "12":
        rig.protections.watermark("shop", 8)
    with pytest.raises(Invalid, match="is 8 already"):
        rig.protections.watermark("shop", 7)

    assert protect(rig, "copy:2", "data/a.dat").job == "copy:2"


def test_other_jobs_cannot_use_up_the_place_of_a_job(rig: Rig, root: Path) -> None:
    limit(rig, max_count=2)
    for run in ("greedy:1", "greedy:2"):
        protect(rig, run, "data/a.dat")
    own = Registrar(rig.protections.for_job(), rig.vaults)
    items = [Item("disk", "data/b.dat")]

    with pytest.raises(MaxCount):
        own.register_at_once(registration("greedy:3", *items), items)
    first = own.register_at_once(registration("copy:1", *items), items)
    with pytest.raises(MaxCount):
        own.register_at_once(registration("copy:2", *items), items)

    assert first.job == "copy:1"


def test_first_protection_of_a_job_ends_no_other_that_is_overdue(rig: Rig, root: Path) -> None:
    limit(rig, max_count=1)
    protect(rig, "late", "data/a.dat", seconds=60)
    rig.later(61)
    items = [Item("disk", "data/b.dat")]

    Registrar(rig.protections.for_job(), rig.vaults).register_at_once(registration("copy:1", *items), items)

    assert {p.job for p in rig.protections.list_protections("shop")} == {"late", "copy:1"}


def test_objects_of_a_jobs_runs_are_counted_together(rig: Rig, root: Path) -> None:
    limit(rig, job_max_objects=3)
    items = [Item("disk", f"data/{name}.dat") for name in "abc"]
    protect(rig, "copy:1", "data/a.dat", "data/b.dat")

    with pytest.raises(JobQuotaExceeded, match=r"would protect 4 objects.*may protect 3.*job_max_objects"):
        protect(rig, "copy:2", "data/a.dat", "dir/")
    protect(rig, "copy:2", "data/c.dat")
    protect(rig, "other", "data/a.dat", "data/b.dat", "data/c.dat")
    filter_ = Filter.build([*items, Item("disk", "dir/x.dat")], 4)
    with pytest.raises(JobQuotaExceeded, match="would protect 4 objects"):
        rig.registrar.register_at_once(registration("filter:1", filter_=filter_), (), filter_=filter_)
    small = Filter.build(items[:2], 4)
    rig.registrar.register_at_once(registration("filter:1", filter_=small), (), filter_=small)

    counted = {job: objects for job, (objects, _) in usage(rig).items()}
    assert counted == {"copy:1": 2, "copy:2": 1, "other": 3, "filter:1": 2}
    stored_items = rig.count("protection_item")
    rig.protections.open(registration("chunks:1", *items), None)
    rig.registrar.add("shop", "chunks:1", 0, items)
    with pytest.raises(JobQuotaExceeded):
        rig.registrar.add("shop", "chunks:1", 1, [Item("disk", "dir/x.dat")])
    assert rig.registrar.add("shop", "chunks:1", 0, items).objects == 3
    assert rig.count("protection_item") == stored_items + 3


def test_bytes_of_looked_up_objects_are_limited(rig: Rig, root: Path) -> None:
    (size,) = {path.stat().st_size for path in (root / "data").iterdir()}
    limit(rig, job_max_bytes=2 * size)
    protect(rig, "copy:1", "data/a.dat", "dir/")

    with pytest.raises(JobQuotaExceeded, match=rf"would protect {3 * size} bytes.*job_max_bytes"):
        protect(rig, "copy:2", "data/b.dat", "data/c.dat")
    protect(rig, "other", "data/b.dat", "data/c.dat")

    assert usage(rig) == {"copy:1": (2, size), "other": (2, 2 * size)}


def test_filter_of_a_jobs_own_token_is_limited(rig: Rig, root: Path) -> None:
    own = Registrar(rig.protections.for_job(), rig.vaults)
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
    limit(rig, job_max_age_seconds=600)
    with pytest.raises(JobQuotaExceeded, match="600 s after its registration"):
        rig.protections.for_job().open(registration("copy:1", Item("disk", "data/a.dat")), 601)
    assert rig.protections.list_protections("shop") == []
    limit(rig, job_max_age_seconds=2 * DAY)
    protect(rig, "copy:1", "data/a.dat", seconds=DAY)
    rig.later(DAY - 60)
    own = rig.protections.for_job()
    renewed = own.renew("shop", "copy:1", DAY)
    rig.later(DAY - 60)

    with pytest.raises(JobQuotaExceeded, match=r"sexton protection renew copy:1.*job_max_age_seconds"):
        own.renew("shop", "copy:1", 3_600)
    repeated = own.open(registration("copy:1", Item("disk", "data/a.dat")), 3_600)
    unchanged = own.renew("shop", "copy:1", 60, at_least=True)
    by_operator = rig.protections.renew("shop", "copy:1", DAY)

    assert repeated.expires_at == repeated.registered_at + 2 * DAY * 1000
    assert renewed.expires_at < repeated.expires_at == unchanged.expires_at < by_operator.expires_at
