"""Rounds delete no object that a protection covers, until it is released, finished below the watermark, or reaped."""

import threading
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.marks import file_list
from sexton.marks.kept import KeepReason, Kept
from sexton.marks.model import Candidate, ClaimRequest, File, Ref
from sexton.protection.filter import Filter
from sexton.protection.model import Exists, Invalid, Item, ProtectionEnd, ProtectionSettings, ProtectionState, Sealed
from sexton.protection.registrar import REPORT
from tests.integration.protection.registrations import DUE, protect, registration, remaining_keys, same_protection
from tests.support.claims import FAR_MS, claim, token
from tests.support.command import run
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.kept import kept_texts
from tests.support.locks import wait_until_blocked_or_ended
from tests.support.rig import Rig, put


def test_p01_p17_an_object_stays_while_one_protection_covers_it(rig: Rig, root: Path) -> None:
    protection = protect(rig, "1", "data/a.dat")
    protect(rig, "2", "data/", "data/c.dat")
    rig.protections.release("shop", "2")

    first_round = rig.round()
    protected_keys, items = remaining_keys(root), rig.count("protection_item")
    rig.protections.release("shop", "1")
    second_round = rig.round()

    assert (protection.state, protection.sealed and protection.sealed.objects) == (ProtectionState.ACTIVE, 1)
    assert (kept_texts(first_round), protected_keys, items) == ({"protection 1": 1}, {"data/a.dat"}, 1)
    assert (kept_texts(second_round), remaining_keys(root)) == ({}, set())


def test_a_protection_sees_every_list_of_a_mark(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_list, "LIST_FILES", 1)
    root, keys = rig.local(tmp_path / "v"), ("a.dat", "b.dat", "c.dat")
    rig.drop_files(root, "m", *keys)
    rig.later(DUE)
    protect(rig, "j", "c.dat")

    rig.round()

    assert remaining_keys(root) == set(keys)


def test_p12_a_new_process_respects_existing_protections(rig: Rig, root: Path) -> None:
    for job, key in (("1", "data/a.dat"), ("2", "data/b.dat"), ("3", "dir/")):
        protect(rig, job, key)

    Rig(rig.url).round()

    assert remaining_keys(root) == {"data/a.dat", "data/b.dat", "dir/x.dat", "dir/y.dat"}


@pytest.mark.parametrize(
    ("point", "kept"),
    [
        ("claim.asked", True),
        ("claim.guarded", True),
        ("claim.checked", False),
        ("claim.written", False),
        ("claim.committed", False),
    ],
)
def test_p14_an_object_is_either_protected_or_claimed(rig: Rig, root: Path, point: str, kept: bool) -> None:
    """Also where a registration races a claim under the guard: it waits, and says that it came too late."""
    items, receipts = [Item("disk", "data/a.dat")], list[Sealed]()
    other = Rig(rig.url)
    other.protections.open(registration("j", *items), None)
    adding = threading.Thread(target=lambda: receipts.append(other.registrar.add("shop", "j", 0, items)))

    def register(name: str) -> None:
        if name == point and adding.ident is None:
            adding.start()
            wait_until_blocked_or_ended(rig.db, adding)

    with crash_points.installed(register):
        rig.round()
    adding.join(PATIENCE_SECONDS)

    [receipt] = receipts
    assert (receipt.claimed + receipt.missing == 0, "data/a.dat" in remaining_keys(root)) == (kept, kept)


@pytest.mark.slow
def test_p15_many_protections_block_only_their_objects(rig: Rig, root: Path) -> None:
    rig.protections._settings = ProtectionSettings(max_count=2_000)
    for n in range(50):
        opened = rig.protections.open(registration(f"j{n}", Item("disk", f"else/{n}")), None)
        rig.protections.add(opened, 0, [Item("disk", f"else/{n}"), Item("disk", f"other/{n}/", True)])

    report = rig.round()

    assert (kept_texts(report), remaining_keys(root)) == ({}, set())


def test_p16_an_unreadable_filter_blocks_all_it_might_cover(rig: Rig, root: Path) -> None:
    filter_ = Filter.build([Item("disk", "data/a.dat")], 1)
    rig.registrar.register_at_once(registration("j", filter_=filter_), [], filter_=filter_)
    rig.update("protection", filter=b"broken")

    report = rig.round()

    assert remaining_keys(root) == {"data/a.dat", "data/b.dat", "data/c.dat", "dir/x.dat", "dir/y.dat"}
    assert report.claimed == 0
    assert all(reason.startswith("unreadable protection j: ") for reason in kept_texts(report))
    assert report.faults == 4


def test_p19_p20_a_protected_file_keeps_the_mark_of_its_prefix(rig: Rig, root: Path) -> None:
    protect(rig, "exact", "dir/x.dat")
    rig.round()
    exact = "dir/x.dat" in remaining_keys(root), rig.count("mark", id="dir")
    filter_ = Filter.build([Item("disk", "dir/x.dat")], 1)
    rig.registrar.register_at_once(registration("filter", filter_=filter_), [], filter_=filter_)
    rig.protections.release("shop", "exact")
    rig.round()
    filtered = "dir/x.dat" in remaining_keys(root), rig.count("mark", id="dir")
    rig.protections.release("shop", "filter")
    rig.round()

    assert exact == filtered == (True, 1)
    assert remaining_keys(root) == set()


def test_a_prefix_with_claimed_objects_is_refused_by_name(rig: Rig, root: Path) -> None:
    errors: list[str] = []

    def register(name: str) -> None:
        if name == "claim.committed" and not errors:
            with pytest.raises(Invalid) as refused:
                protect(rig, "j", "data/", "dir/")
            errors.append(str(refused.value))

    with crash_points.installed(register):
        rig.round()

    assert "claimed" in errors[0]
    assert rig.count("protection") == 0


def test_p07_p08_a_watermark_ends_only_a_finished_protection(rig: Rig, root: Path) -> None:
    protect(rig, "finished", "data/a.dat", valid_ts=1_000)
    protect(rig, "active", "data/b.dat", valid_ts=1)
    rig.protections.watermark("shop", 1_000)
    rig.protections.finish("shop", "finished")
    rig.round()
    protected_keys = remaining_keys(root)

    rig.protections.watermark("shop", 1_001)
    rig.round()

    assert protected_keys == {"data/a.dat", "data/b.dat"}
    assert remaining_keys(root) == {"data/b.dat"}
    assert rig.count("counter", name="protections", label="PASSED") == 1


def test_a_list_says_which_protections_the_next_round_ends(
    rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    protect(rig, "works", "data/a.dat", seconds=600)
    protect(rig, "waits", "data/a.dat", valid_ts=50)
    rig.protections.finish("shop", "waits")
    without = run(rig, capsys, "protection", "list", "shop").out
    rig.protections.watermark("shop", 50)
    reported = run(rig, capsys, "protection", "list", "shop").out
    rig.protections.watermark("shop", 51)
    rig.later(601)
    passed = run(rig, capsys, "protection", "list", "shop").out
    blockers = run(rig, capsys, "blockers", "shop").out

    ends = [{end for end in ProtectionEnd if end in printed.split()} for printed in (without, reported, passed)]
    assert ends == [{"NO_WATERMARK"}, set(), {"PASSED", "OVERDUE"}]
    [waits] = [line for line in reported.splitlines() if " waits " in line]
    assert ("ends with watermark above" in reported, " 50 " in waits, "1 object" in waits) == (True, True, True)
    assert "the next round ends it (OVERDUE)" in blockers


def test_p09_the_next_round_reaps_an_overdue_protection(rig: Rig, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    protect(rig, "j", "data/a.dat", seconds=60)
    rig.later(120)
    before = [(p.job, p.ends) for p in rig.protections.list_protections("shop")]

    rig.round()

    assert before == [("j", ProtectionEnd.OVERDUE)]
    assert remaining_keys(root) == set()
    assert "protection j of shop, owner ada, ends after" in caplog.text
    assert "OVERDUE" in caplog.text


def test_p10_an_overdue_protection_blocks_until_it_is_reaped(rig: Rig, root: Path) -> None:
    at_work = token(rig)  # its round began before
    put(root, "data/late.dat")
    protect(rig, "j", "data/late.dat", seconds=60)
    rig.mark("dropped", NewMark(id="late", vault="disk", keys=("data/late.dat",)))
    rig.later(30)
    rig.leases.renew(at_work.lease)
    rig.later(50)
    before = [p.job for p in rig.protections.list_protections("shop")]

    claimed = claim(rig, at_work, "dropped", "late")

    assert before == ["j"]
    assert (claimed.claimed, claimed.keep_reasons) == (
        frozenset(),
        {Ref("dropped", "late"): Kept(KeepReason.PROTECTION, "j")},
    )


def test_p11_a_renewal_or_new_registration_extends_a_protection(rig: Rig, root: Path) -> None:
    first = protect(rig, "renewed", "data/a.dat", seconds=600)
    renewed = rig.protections.renew("shop", "renewed", 3_600)
    protect(rig, "overdue", "data/b.dat", seconds=60)
    rig.later(1_200)
    again = protect(rig, "overdue", "data/b.dat", seconds=3_600)

    with pytest.raises(Invalid, match="earlier"):
        rig.protections.renew("shop", "renewed", 60)
    rig.round()

    assert again.expires_at > rig.now() + 3_000_000
    assert renewed.expires_at > first.expires_at
    assert remaining_keys(root) == {"data/a.dat", "data/b.dat"}


def test_p11_a_renewal_raises_the_watermark_to_wait_for(
    rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    protect(rig, "j", "data/a.dat", valid_ts=7)
    rig.protections.watermark("shop", 8)

    lower = run(rig, capsys, "protection", "renew", "j", "--valid-ts", "6")
    raised = run(rig, capsys, "protection", "renew", "j", "--valid-ts", "8")
    again = protect(rig, "j", "data/a.dat", valid_ts=7)  # the job repeats its registration
    with pytest.raises(Exists, match="lower valid_ts"):
        protect(rig, "j", "data/a.dat", valid_ts=9)
    rig.protections.finish("shop", "j")
    rig.round()
    waiting = remaining_keys(root)
    rig.protections.watermark("shop", 9)
    rig.round()

    assert (lower.code, "cannot wait for a lower one, 6" in lower.err) == (1, True)
    assert (raised.code, "once it is finished, until the watermark is above 8" in raised.out) == (0, True)
    assert again.valid_ts == 8
    assert (waiting, remaining_keys(root)) == ({"data/a.dat"}, set())


def test_a_command_registers_a_filter_of_the_objects_of_a_file(
    rig: Rig, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.txt"
    file.write_text(f"disk/data/a.dat\nfile://{root}/dir/x.dat\ndisk/gone.dat\n")
    words = ("protection", "register", "j", "--owner", "ada", "--file", str(file), "--filter", "--valid-ts", "5")

    registered, again = (run(rig, capsys, *words) for _ in "12")
    wrong = run(rig, capsys, *words, "--prefix", "disk/data/")
    rig.round()

    [stored] = rig.protections.list_protections("shop")
    assert [(ran.code, "a filter of shop protected for job j" in ran.out) for ran in (registered, again)] == [
        (0, True)
    ] * 2
    assert (wrong.code, "a filter cannot contain a prefix: disk/data/" in wrong.err) == (1, True)
    assert (stored.valid_ts, stored.sealed and stored.sealed.verified) == (5, False)
    assert (rig.count("protection_item"), rig.rows("protection")[0].objects) == (0, 3)
    assert remaining_keys(root) == {"data/a.dat", "dir/x.dat", "dir/y.dat"}


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
