"""A protection lasts until it is released, finished below the watermark, or reaped after its end."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.keepers import KeepReason, Kept
from sexton.marks.model import Ref
from sexton.protection.errors import Exists, Invalid, SoftDeleted
from sexton.protection.model import ProtectionEnd
from tests.integration.protection.registrations import protect, remaining_keys
from tests.support.claims import claim, token
from tests.support.command import run
from tests.support.rig import Rig, put


def test_p03_a_finished_job_may_only_be_finished_again(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", valid_ts=7)
    finished = rig.protections.finish("shop", "j")

    with pytest.raises(Exists):
        protect(rig, "j", "data/a.dat", valid_ts=7)
    with pytest.raises(SoftDeleted) as refused:
        rig.protections.renew("shop", "j", 1_200)
    assert refused.value.code == 20646
    assert rig.protections.finish("shop", "j") == finished


def test_p07_a_finished_protection_waits_for_the_watermark(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", valid_ts=1_000)
    rig.protections.watermark("shop", 1_000)
    rig.protections.finish("shop", "j")
    rig.round()
    protected_keys = remaining_keys(root)

    rig.protections.watermark("shop", 1_001)
    rig.round()

    assert protected_keys == {"data/a.dat"}
    assert remaining_keys(root) == set()
    assert rig.count("counter", name="protections", label="PASSED") == 1


def test_p08_no_watermark_ends_an_active_protection(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", valid_ts=1)
    rig.protections.watermark("shop", 1_000_000)

    rig.round()

    assert remaining_keys(root) == {"data/a.dat"}


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

    reasons = [
        {reason for reason in ProtectionEnd if reason in listed.split()} for listed in (without, reported, passed)
    ]
    assert reasons == [{"NO_WATERMARK"}, set(), {"PASSED", "OVERDUE"}]
    assert "the next round ends it (OVERDUE)" in blockers


def test_a_watermark_only_moves_forward(rig: Rig) -> None:
    rig.protections.watermark("shop", 5)
    rig.protections.watermark("shop", 5)

    with pytest.raises(Invalid, match="is 5 already"):
        rig.protections.watermark("shop", 4)


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


def test_p11_a_renewal_extends_a_protection(rig: Rig, root: Path) -> None:
    first = protect(rig, "j", "data/a.dat", seconds=600)
    renewed = rig.protections.renew("shop", "j", 3_600)
    rig.later(1_200)

    with pytest.raises(Invalid, match="earlier"):
        rig.protections.renew("shop", "j", 60)
    rig.round()

    assert renewed.expires_at > first.expires_at
    assert remaining_keys(root) == {"data/a.dat"}


def test_an_overdue_job_can_be_registered_again(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", seconds=60)
    rig.later(120)
    again = protect(rig, "j", "data/a.dat", seconds=3_600)
    rig.round()

    with rig.db.read() as c:
        assert again.expires_at > rig.db.now(c) + 3_000_000
    assert remaining_keys(root) == {"data/a.dat"}


def test_rows_of_ended_protections_are_removed_by_a_round(rig: Rig, root: Path) -> None:
    protect(rig, "j", "data/a.dat", "data/b.dat")
    protect(rig, "k", "data/c.dat")
    rig.protections.release("shop", "j")

    rig.round()

    assert rig.count("protection_item") == 1
    assert remaining_keys(root) == {"data/c.dat"}
