"""Protections in rounds, on both databases: P01 to P20 of the conformance cases."""

import os
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.kernel.errors import BadInput
from sexton.marks.keepers import KeepReason, Kept
from sexton.marks.model import Ref
from sexton.protection.errors import Exists, GcIsRunning, Invalid, MaxCount, ProtectionNotFound, SoftDeleted
from sexton.protection.filter import Filter
from sexton.protection.model import Item, Protection, ProtectionSettings, ProtectionState
from sexton.protection.registrar import REPORT
from sexton.protection.sql.rows import digest
from sexton.protection.sql.store import ProtectionStore
from tests.support.claims import claim, token
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put

DUE = 10_801


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    return garbage(rig, tmp_path)


def garbage(rig: Rig, tmp_path: Path) -> Path:
    """Return the directory of vault ``disk``, with garbage of four marks in it."""
    root = rig.local(tmp_path / "v")
    for name in ("a", "b", "c"):
        put(root, f"data/{name}.dat")
        rig.mark("dropped", NewMark(id=name, vault="disk", keys=(f"data/{name}.dat",)))
    for name in ("x", "y"):
        put(root, f"dir/{name}.dat")
    rig.mark("dropped", NewMark(id="dir", vault="disk", prefix="dir/"))
    rig.later(DUE)
    return root


def wanted(job: str, *items: Item, filter_: Filter | None = None, **more: object) -> Protection:
    sum_ = digest(items, b"" if filter_ is None else bytes(filter_))
    return Protection(instance="shop", job=job, owner="ada", digest=sum_, **more)


def protect(rig: Rig, job: str, *keys: str, seconds: int | None = None, **more: object) -> Protection:
    items = [Item("disk", key, key.endswith("/")) for key in keys]
    return rig.registrar.register_at_once(wanted(job, *items, **more), items, seconds)


def same(one: Protection, other: Protection) -> bool:
    """Tell whether two answers are of one protection; only its end may have moved forward."""
    return one.expires_at >= other.expires_at and one.model_copy(update={"expires_at": other.expires_at}) == other


def left(root: Path) -> set[str]:
    return set(listing(root))


def test_p01_what_is_registered_stays_and_goes_in_the_first_round_after_release(rig: Rig, root: Path) -> None:
    made = protect(rig, "j", "data/a.dat")

    first = rig.round()
    kept = left(root)
    rig.protections.release("shop", "j")
    second = rig.round()

    assert (made.state, made.sealed and made.sealed.objects) == (ProtectionState.ACTIVE, 1)
    assert (kept_texts(first), kept) == ({"protection j": 1}, {"data/a.dat"})
    assert (kept_texts(second), left(root)) == ({}, set())


def test_p02_the_same_again_is_idempotent_and_another_content_is_refused(rig: Rig, root: Path) -> None:
    first = protect(rig, "j", "data/a.dat", "data/b.dat")

    assert same(protect(rig, "j", "data/b.dat", "data/a.dat"), first)
    with pytest.raises(Exists) as refused:
        protect(rig, "j", "data/c.dat")
    assert refused.value.code == 20644
    assert rig.count("protection_item") == 2


def test_p03_a_finished_job_is_not_registered_again_nor_renewed_and_may_be_finished_again(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", valid_ts=7)
    finished = rig.protections.finish("shop", "j")

    with pytest.raises(Exists):
        protect(rig, "j", "data/a.dat", valid_ts=7)
    with pytest.raises(SoftDeleted) as refused:
        rig.protections.renew("shop", "j", 1_200)
    assert refused.value.code == 20646
    assert rig.protections.finish("shop", "j") == finished


def test_p04_a_full_register_is_swept_before_it_refuses(rig: Rig, root: Path) -> None:
    rig.protections._settings = ProtectionSettings(max_count=2)
    protect(rig, "old", "data/a.dat", seconds=60)
    protect(rig, "live", "data/b.dat")
    with pytest.raises(MaxCount) as refused:
        protect(rig, "more", "data/c.dat")
    rig.later(61)

    protect(rig, "more", "data/c.dat")

    assert refused.value.code == 20645
    assert [p.job for p in rig.protections.all("shop")] == ["live", "more"]


@pytest.mark.parametrize("text", ["", "?", "AAAA", os.urandom(40).hex()])
def test_p05_what_is_no_filter_makes_no_entry(rig: Rig, root: Path, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        rig.registrar.register_at_once(wanted("j"), [], filter_=Filter.decode(text))

    assert refused.value.code == 20647
    assert rig.count("protection") == 0


def test_p06_an_unknown_job_is_not_found(rig: Rig, root: Path) -> None:
    for act in (rig.protections.finish, rig.protections.release):
        with pytest.raises(ProtectionNotFound) as refused:
            act("shop", "nobody")
        assert refused.value.code == 20643
    with pytest.raises(ProtectionNotFound):
        rig.protections.renew("shop", "nobody", 60)


def test_p07_a_finished_one_waits_for_the_watermark(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", valid_ts=1_000)
    rig.protections.watermark("shop", 1_000)
    rig.protections.finish("shop", "j")
    rig.round()
    kept = left(root)

    rig.protections.watermark("shop", 1_001)
    rig.round()

    assert kept == {"data/a.dat"}
    assert left(root) == set()
    assert rig.count("counter", name="protections", label="PASSED") == 1


def test_p08_no_watermark_ends_an_active_one(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", valid_ts=1)
    rig.protections.watermark("shop", 1_000_000)

    rig.round()

    assert left(root) == {"data/a.dat"}


def test_a_watermark_only_moves_forward(rig: Rig) -> None:
    rig.protections.watermark("shop", 5)
    rig.protections.watermark("shop", 5)

    with pytest.raises(Invalid, match="is 5 already"):
        rig.protections.watermark("shop", 4)


def test_p10_an_overdue_one_keeps_as_long_as_no_round_has_reaped_it(rig: Rig, root: Path) -> None:
    at_work = token(rig)  # its round began before
    put(root, "data/late.dat")
    protect(rig, "j", "data/late.dat", seconds=60)
    rig.mark("dropped", NewMark(id="late", vault="disk", keys=("data/late.dat",)))
    rig.later(30)
    rig.leases.renew(at_work.lease)
    rig.later(50)
    before = [p.job for p in rig.protections.all("shop")]

    claimed = claim(rig, at_work, "dropped", "late")

    assert before == ["j"]
    assert (claimed.claimed, claimed.keep_reasons) == (
        frozenset(),
        {Ref("dropped", "late"): Kept(KeepReason.PROTECTION, "j")},
    )


def test_p09_an_overdue_one_is_reaped_by_the_next_round_with_a_warning(
    rig: Rig, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    protect(rig, "j", "data/a.dat", seconds=60)
    rig.later(120)
    before = [p.job for p in rig.protections.all("shop")]

    rig.round()

    assert before == ["j"]
    assert left(root) == set()
    assert "protection j of shop, owner ada, ends after" in caplog.text
    assert "OVERDUE" in caplog.text


def test_p11_a_renewal_moves_the_end_forward_and_keeps_it_from_being_reaped(rig: Rig, root: Path) -> None:
    first = protect(rig, "j", "data/a.dat", seconds=600)
    renewed = rig.protections.renew("shop", "j", 3_600)
    rig.later(1_200)

    with pytest.raises(Invalid, match="earlier"):
        rig.protections.renew("shop", "j", 60)
    rig.round()

    assert renewed.expires_at > first.expires_at
    assert left(root) == {"data/a.dat"}


def test_p12_a_new_process_honours_them_before_its_first_delete(rig: Rig, root: Path) -> None:
    for job, key in (("1", "data/a.dat"), ("2", "data/b.dat"), ("3", "dir/")):
        protect(rig, job, key)

    Rig(rig.url).round()

    assert left(root) == {"data/a.dat", "data/b.dat", "dir/x.dat", "dir/y.dat"}


def test_p13_what_is_gone_fails_the_registration_or_is_reported(rig: Rig, root: Path) -> None:
    (root / "data" / "c.dat").unlink()
    with pytest.raises(Invalid, match=r"disk/data/c\.dat: not there"):
        protect(rig, "j", "data/a.dat", "data/c.dat")
    none = rig.count("protection")

    items = [Item("disk", "data/a.dat"), Item("disk", "data/c.dat")]
    made = rig.registrar.register_at_once(wanted("j", *items), items, on_missing=REPORT)
    rig.round()

    assert same(rig.registrar.register_at_once(wanted("j", *items), items), made)  # repeated otherwise, it ends nothing
    assert none == 0
    assert made.sealed is not None
    assert (made.sealed.missing, made.sealed.named) == (1, ("disk/data/c.dat: not there",))
    assert left(root) == {"data/a.dat"}


def race(rig: Rig, root: Path, point: str) -> tuple[bool, bool]:
    """Commit the rows of a registration when a claim has come to a point; return whether it is kept, and there."""
    items, left_to_do = [Item("disk", "data/a.dat")], iter("1")
    other = ProtectionStore(Rig(rig.url).db, ProtectionSettings())
    other.open(wanted("j", *items), None)

    def register(name: str) -> None:
        if name == point and next(left_to_do, None):
            other.add("shop", "j", 0, items)

    with crash_points.installed(register):
        rig.round()
    told = rig.registrar.add("shop", "j", 0, items)
    return told.claimed + told.missing == 0, "data/a.dat" in left(root)


@pytest.mark.parametrize(("point", "kept"), [("claim.asked", True), ("claim.committed", False)])
def test_p14_what_is_claimed_first_is_named_and_nothing_is_both(rig: Rig, root: Path, point: str, kept: bool) -> None:
    assert race(rig, root, point) == (kept, kept)


@pytest.mark.parametrize(
    ("point", "kept"), [("claim.guarded", True), ("claim.checked", False), ("claim.written", False)]
)
def test_p14_rows_may_come_while_a_claim_holds_the_guard(
    postgres_rig: Rig, tmp_path: Path, point: str, kept: bool
) -> None:
    assert race(postgres_rig, garbage(postgres_rig, tmp_path), point) == (kept, kept)


def test_p15_many_protections_of_other_objects_keep_nothing_else(rig: Rig, root: Path) -> None:
    rig.protections._settings = ProtectionSettings(max_count=2_000)
    for n in range(50):
        rig.protections.open(wanted(f"j{n}", Item("disk", f"else/{n}")), None)
        rig.protections.add("shop", f"j{n}", 0, [Item("disk", f"else/{n}"), Item("disk", f"other/{n}/", True)])

    report = rig.round()

    assert (kept_texts(report), left(root)) == ({}, set())


def test_p16_a_filter_that_cannot_be_read_keeps_what_it_might_cover_and_says_so(rig: Rig, root: Path) -> None:
    filter_ = Filter.build([Item("disk", "data/a.dat")], 1)
    rig.registrar.register_at_once(wanted("j", filter_=filter_), [], filter_=filter_)
    with rig.db.write() as c:
        c.execute(rig.db.t.protection.update().values(filter=b"broken"))

    report = rig.round()

    assert left(root) == {"data/a.dat", "data/b.dat", "data/c.dat", "dir/x.dat", "dir/y.dat"}
    assert report.claimed == 0
    assert all(who.startswith("unreadable protection j: ") for who in kept_texts(report))
    assert report.faults == 4


def test_p17_an_object_of_two_protections_goes_when_both_have_ended(rig: Rig, root: Path) -> None:
    protect(rig, "1", "data/a.dat")
    protect(rig, "2", "data/")
    rig.protections.release("shop", "2")
    rig.round()
    kept = left(root)

    rig.protections.release("shop", "1")
    rig.round()

    assert (kept, left(root)) == ({"data/a.dat"}, set())


def test_p18_with_the_strict_gate_nothing_is_registered_while_a_round_runs(rig: Rig, root: Path) -> None:
    rig.protections._settings = ProtectionSettings(strict_gate=True)
    lease = rig.leases.acquire("shop", "recycle", "somebody")
    with pytest.raises(GcIsRunning) as refused:
        protect(rig, "j", "data/a.dat")
    rig.leases.free(lease)

    assert refused.value.code == 20642
    assert protect(rig, "j", "data/a.dat").state is ProtectionState.ACTIVE


def test_p19_one_file_of_a_prefix_stays_and_its_record_until_it_went(rig: Rig, root: Path) -> None:
    protect(rig, "exact", "dir/x.dat")
    rig.round()
    exact = "dir/x.dat" in left(root), rig.count("mark", id="dir")
    rig.protections.release("shop", "exact")
    rig.round()

    assert exact == (True, 1)
    assert left(root) == set()


def test_p20_one_file_of_a_prefix_that_a_filter_holds_stays(rig: Rig, root: Path) -> None:
    filter_ = Filter.build([Item("disk", "dir/y.dat")], 1)
    rig.registrar.register_at_once(wanted("filter", filter_=filter_), [], filter_=filter_)
    rig.round()
    filtered = "dir/y.dat" in left(root), rig.count("mark", id="dir")
    rig.protections.release("shop", "filter")
    rig.round()

    assert filtered == (True, 1)
    assert left(root) == set()


def test_the_rows_of_ended_protections_are_removed_after_a_round(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", "data/b.dat")
    protect(rig, "k", "data/c.dat")
    rig.protections.release("shop", "j")

    rig.round()

    assert rig.count("protection_item") == 1
    assert left(root) == {"data/c.dat"}


def test_a_chunk_can_be_sent_again_and_its_number_is_used_once(rig: Rig, root: Path) -> None:
    items = [Item("disk", "data/a.dat"), Item("disk", "data/b.dat")]
    rig.protections.open(wanted("j", *items), None)

    first = rig.registrar.add("shop", "j", 0, items)

    assert rig.registrar.add("shop", "j", 0, items) == first
    with pytest.raises(Invalid, match="other items before"):
        rig.registrar.add("shop", "j", 0, items[:1])
    rig.registrar.seal("shop", "j")
    with pytest.raises(Invalid, match="is sealed"):
        rig.registrar.add("shop", "j", 1, [Item("disk", "data/c.dat")])


def test_a_registration_without_rows_or_with_an_unchecked_chunk_is_not_sealed(rig: Rig, root: Path) -> None:
    items = [Item("disk", "data/a.dat")]
    rig.protections.open(wanted("j", *items), None)
    with pytest.raises(Invalid, match="no chunk"):
        rig.registrar.seal("shop", "j")
    rig.protections.add("shop", "j", 0, items)

    with pytest.raises(Invalid, match="chunk 0 of job j is not registered"):
        rig.registrar.seal("shop", "j")


def test_an_overdue_job_that_is_registered_again_is_kept_as_it_asked(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", seconds=60)
    rig.later(120)
    again = protect(rig, "j", "data/a.dat", seconds=3_600)
    rig.round()

    with rig.db.read() as c:
        assert again.expires_at > rig.db.now(c) + 3_000_000
    assert left(root) == {"data/a.dat"}


def test_what_is_being_deleted_below_a_prefix_is_named(rig: Rig, root: Path) -> None:
    told: list[str] = []

    def register(name: str) -> None:
        if name == "claim.committed" and not told:
            with pytest.raises(Invalid) as refused:
                protect(rig, "j", "data/", "dir/")
            told.append(str(refused.value))

    with crash_points.installed(register):
        rig.round()

    assert "claimed" in told[0]
    assert rig.count("protection") == 0


def test_a_refusal_that_comes_late_ends_nobody_elses_protection(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [Item("disk", "data/a.dat"), Item("disk", "data/new.dat")]
    give_up, told = rig.protections.give_up, []

    def late(*given: object) -> bool:
        put(root, "data/new.dat")  # the job mended it and registered again
        monkeypatch.undo()
        rig.protections.release("shop", "j")
        told.append(rig.registrar.register_at_once(wanted("j", *items), items))
        return give_up(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(rig.protections, "give_up", late)
    rig.registrar.register_at_once(wanted("j", *items), items)
    rig.round()

    assert [p.state for p in told] == [ProtectionState.ACTIVE]
    assert left(root) == {"data/a.dat", "data/new.dat"}


def test_what_came_of_a_chunk_is_told_of_its_own_registration(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [Item("disk", "dir/x.dat")], [Item("disk", "gone/1.dat"), Item("disk", "gone/2.dat")]
    rig.protections.open(wanted("j", *first), None)
    claimed = rig.protections.find_claimed

    def slow(*given: object, **more: object) -> object:
        monkeypatch.undo()
        rig.protections.release("shop", "j")
        rig.protections.open(wanted("j", *second), None)
        rig.protections.add("shop", "j", 0, second)
        return claimed(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(rig.protections, "find_claimed", slow)
    with pytest.raises(ProtectionNotFound):
        rig.registrar.add("shop", "j", 0, first)

    assert rig.registrar.add("shop", "j", 0, second).missing == 2


@pytest.mark.parametrize("numbers", [(0, 2), (1,), (0, 1, 2)])
def test_chunks_that_are_not_those_announced_are_not_sealed(rig: Rig, root: Path, numbers: tuple[int, ...]) -> None:
    rig.protections.open(wanted("j"), None)
    for n in numbers:
        rig.registrar.add("shop", "j", n, [Item("disk", f"data/{'abc'[n]}.dat")])

    with pytest.raises(Invalid, match="not registered correctly"):
        rig.registrar.seal("shop", "j", count=2)


def test_a_prefix_below_which_nothing_is_and_an_empty_chunk_are_refused(rig: Rig, root: Path) -> None:
    with pytest.raises(Invalid, match=r"dta/: nothing below it"):
        protect(rig, "j", "dta/")
    rig.protections.open(wanted("k"), None)
    with pytest.raises(Invalid, match="names nothing"):
        rig.registrar.add("shop", "k", 0, [])


def test_many_objects_of_a_folder_are_looked_for_by_listing_it(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "w", "many")
    for n in range(60):
        put(root, f"f/{n:03}.dat")
    items = [Item("many", f"f/{n:03}.dat") for n in range(70)]

    made = rig.registrar.register_at_once(wanted("j", *items), items, on_missing=REPORT)

    assert made.sealed is not None
    assert (made.sealed.objects, made.sealed.missing) == (70, 10)


@pytest.mark.parametrize("job", ["", "a\0b", "x" * 201])
def test_a_job_that_nobody_could_name_is_refused(rig: Rig, root: Path, job: str) -> None:
    with pytest.raises(BadInput):
        rig.protections.open(wanted(job), None)
    assert rig.count("protection") == 0
