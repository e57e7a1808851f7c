"""A registration is accepted whole or refused, also by the quotas of its job, and repeating it changes nothing."""

from pathlib import Path

import pytest
from sqlalchemy import select

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.marks.model import Candidate, ClaimRequest, File, Ref
from sexton.protection.errors import Exists, GcIsRunning, Invalid, JobQuotaExceeded, MaxCount, ProtectionNotFound
from sexton.protection.filter import Filter
from sexton.protection.model import Item, ProtectionSettings, ProtectionState
from sexton.protection.registrar import REPORT, Registrar
from sexton.protection.sql.store import ProtectionStore
from sexton.storage.local.vault import LocalVault
from tests.integration.protection.registrations import protect, registration, remaining_keys, same_protection
from tests.support.claims import FAR_MS, token
from tests.support.rig import DAY, Rig, put


def test_p02_a_repeated_registration_must_have_the_same_content(rig: Rig, root: Path) -> None:
    first = protect(rig, "j", "data/a.dat", "data/b.dat")

    assert same_protection(protect(rig, "j", "data/b.dat", "data/a.dat"), first)
    with pytest.raises(Exists) as refused:
        protect(rig, "j", "data/c.dat")
    assert refused.value.code == 20644
    assert rig.count("protection_item") == 2


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


def test_p05_an_invalid_filter_makes_no_entry(rig: Rig, root: Path) -> None:
    for text in ["", "?", "AAAA", "5e" * 40]:
        with pytest.raises(Invalid) as refused:
            rig.registrar.register_at_once(registration("j"), [], filter_=Filter.decode(text))

        assert refused.value.code == 20647
        assert rig.count("protection") == 0


def test_p06_an_unknown_job_is_not_found(rig: Rig, root: Path) -> None:
    for act in (rig.protections.finish, rig.protections.release):
        with pytest.raises(ProtectionNotFound) as refused:
            act("shop", "nobody")
        assert refused.value.code == 20643
    with pytest.raises(ProtectionNotFound):
        rig.protections.renew("shop", "nobody", 60)


def test_p13_missing_objects_are_refused_or_reported(rig: Rig, root: Path) -> None:
    (root / "data" / "c.dat").unlink()
    with pytest.raises(Invalid, match=r"disk/data/c\.dat: not there"):
        protect(rig, "j", "data/a.dat", "data/c.dat")
    none = rig.count("protection")

    items = [Item("disk", "data/a.dat"), Item("disk", "data/c.dat")]
    protection = rig.registrar.register_at_once(registration("j", *items), items, on_missing=REPORT)
    rig.round()

    assert same_protection(
        rig.registrar.register_at_once(registration("j", *items), items), protection
    )  # a repetition without REPORT ends nothing
    assert none == 0
    assert protection.sealed is not None
    assert (protection.sealed.missing, protection.sealed.named) == (1, ("disk/data/c.dat: not there",))
    assert remaining_keys(root) == {"data/a.dat"}


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


def test_an_incomplete_registration_is_not_sealed(rig: Rig, root: Path) -> None:
    items = [Item("disk", "data/a.dat")]
    opened = rig.protections.open(registration("j", *items), None)
    with pytest.raises(Invalid, match="no chunk"):
        rig.registrar.seal("shop", "j")
    rig.protections.add(opened, 0, items)

    with pytest.raises(Invalid, match="chunk 0 of job j is not registered"):
        rig.registrar.seal("shop", "j")


def test_a_late_refusal_ends_no_newer_protection(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item("disk", "data/a.dat"), Item("disk", "data/new.dat")]
    give_up, registered = rig.protections.give_up, []

    def late(*args: object) -> bool:
        put(root, "data/new.dat")  # the job wrote the object and registered again
        monkeypatch.undo()
        rig.protections.release("shop", "j")
        registered.append(rig.registrar.register_at_once(registration("j", *items), items))
        return give_up(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(rig.protections, "give_up", late)
    rig.registrar.register_at_once(registration("j", *items), items)
    rig.round()

    assert [p.state for p in registered] == [ProtectionState.ACTIVE]
    assert remaining_keys(root) == {"data/a.dat", "data/new.dat"}


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


@pytest.mark.parametrize("numbers", [(0, 2), (1,), (0, 1, 2)])
def test_a_seal_needs_exactly_the_announced_chunks(rig: Rig, root: Path, numbers: tuple[int, ...]) -> None:
    rig.protections.open(registration("j"), None)
    for n in numbers:
        rig.registrar.add("shop", "j", n, [Item("disk", f"data/{'abc'[n]}.dat")])

    with pytest.raises(Invalid, match="not registered correctly"):
        rig.registrar.seal("shop", "j", count=2)


def test_an_empty_prefix_and_an_empty_chunk_are_refused(rig: Rig, root: Path) -> None:
    with pytest.raises(Invalid, match=r"dta/: nothing below it"):
        protect(rig, "j", "dta/")
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


def test_an_invalid_job_name_is_refused(rig: Rig, root: Path) -> None:
    for job in ["", "a\0b", "x" * 201]:
        with pytest.raises(BadInput):
            rig.protections.open(registration(job), None)
        assert rig.count("protection") == 0


def test_lists_of_another_instance_refuse_no_registration(rig: Rig, tmp_path: Path) -> None:
    rig.instance("other")
    put(rig.local(tmp_path / "o", instance="other"), "data/a.dat")
    for instance, key in (("shop", "data/a.dat"), ("other", "data/b.dat")):  # both have a mark with the same id
        rig.mark("dropped", NewMark(id="m", vault="disk", keys=(key,)), instance=instance)
        write_token = token(rig, run=instance, instance=instance)
        rig.stores.files.store(write_token, [File("dropped", "m", "disk", key, 1)])
        rig.stores.claims.claim(ClaimRequest(write_token, [Candidate(Ref("dropped", "m"))], FAR_MS))
    items = [Item("disk", "data/a.dat")]
    of_other = registration("j", *items).model_copy(update={"instance": "other"})

    assert rig.registrar.register_at_once(of_other, items).state is ProtectionState.ACTIVE


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


def test_first_protection_of_a_job_ends_no_other_that_is_overdue(rig: Rig, root: Path) -> None:
    limit(rig, max_count=1)
    protect(rig, "late", "data/a.dat", seconds=60)
    rig.later(61)
    items = [Item("disk", "data/b.dat")]

    Registrar(own_register(rig), rig.vaults).register_at_once(registration("copy:1", *items), items)

    assert {p.job for p in rig.protections.list_protections("shop")} == {"late", "copy:1"}


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
