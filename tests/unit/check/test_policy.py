"""Only a complete check confirms findings, and only confirmed findings may be repaired."""

from typing import Any

import pytest

from sexton.check.model import Evidence, Finding, FindingState, FindingType, Listing, PreviousRun
from sexton.check.policy import judge, latest_judged_write, old_enough, repairable, reports_loss_too_late
from sexton.marks.sql.orphans import too_many

WHOLE = Evidence(
    cutoff=1_000,
    listings=(
        Listing(vault="hot", parts=4, ended=4, objects=90, live=85),
        Listing(vault="cold", parts=1, ended=1, objects=10, live=10),
    ),
    listed_at=2_000,
    live_from=2_000,
    live=95,
)
BEFORE = PreviousRun(objects={"hot": 100, "cold": 20}, live={"hot": 100})
ORPHAN = Finding(id=1, instance="shop", type=FindingType.ORPHAN, vault="hot", key="data/1", first_seen=0, proven_at=0)


def but(**changed: Any) -> Evidence:
    return WHOLE.model_copy(update=changed)


def listing(**changed: Any) -> dict[str, Any]:
    return {"listings": (WHOLE.listings[0], WHOLE.listings[1].model_copy(update=changed))}


@pytest.mark.parametrize(
    "before", [None, BEFORE, PreviousRun(objects={"hot": 180, "gone": 7}, live={"hot": 170, "cold": 20})]
)
def test_a_complete_run_is_whole(before: PreviousRun | None) -> None:
    assert judge(WHOLE, before) == ()
    assert WHOLE.objects == 100


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (but(listings=()), "no vault was listed"),
        (but(**listing(errors=("UNREACHABLE: silent",))), "vault cold: UNREACHABLE: silent"),
        (but(**listing(parts=3)), "vault cold: 2 of 3 parts of its listing did not end"),
        (but(listed_at=None), "the listing did not end"),
        (but(live=None), "the live side was not read to its end"),
        (but(live=0), "no live file was seen"),
        (but(**listing(live=0)), "vault cold: 10 objects, and no record names a live one in it"),
        (but(live_from=1_999), "older than the listing"),
        (but(errors=("the owner is silent",)), "the owner is silent"),
    ],
)
def test_k06_k07_incomplete_run_confirms_nothing(evidence: Evidence, said: str) -> None:
    verdict = judge(evidence, None)

    assert said in "; ".join(verdict)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (
            PreviousRun(objects={"hot": 181}, live={}),
            "vault hot: 90 objects are far below the 181 of the last whole run; if correct: sexton check rebase",
        ),
        (
            PreviousRun(objects={}, live={"cold": 21}),
            "vault cold: 10 live files are far below the 21 of the last whole run; if correct: sexton check rebase",
        ),
    ],
)
def test_run_with_far_fewer_entries_than_the_last_is_rejected(before: PreviousRun, said: str) -> None:
    assert judge(WHOLE, before) == (said,)


@pytest.mark.parametrize(
    ("unnamed", "share", "is_whole"),
    [(49, 1.0, True), (51, 1.0, False), (79, 0.4, True), (81, 0.4, False), (100, 0.0, True), (None, 1.0, True)],
)
def test_k18_run_whose_records_name_far_fewer_is_rejected(unnamed: int | None, share: float, is_whole: bool) -> None:
    evidence = but(**listing(objects=100, live=20, unnamed=unnamed))
    before = PreviousRun(objects={"cold": 20}, live={"cold": 20}, named_share={"cold": share})

    verdict = judge(evidence, before)

    assert (verdict == ()) is is_whole
    assert is_whole or "far below the" in verdict[0]


def test_no_rebase_is_proposed_where_a_vault_was_not_listed() -> None:
    faulty = but(**listing(objects=0, ended=0, errors=("vault cold: NO_MARKER: not the storage that was added",)))

    verdict = judge(faulty, PreviousRun(objects={"cold": 7}, live={}))

    assert verdict == (
        "vault cold: NO_MARKER: not the storage that was added",
        "vault cold: 1 of 1 parts of its listing did not end",
    )


@pytest.mark.parametrize(
    ("written", "grace", "judged"),
    [
        ("2026-01-01T00:00:00", 86_400, True),
        ("2026-01-01T00:00:01", 86_400, False),
        ("2026-01-01T23:00:00", 0, True),
        ("2026-01-01T23:00:01", 0, False),
        ("", 86_400, False),
        ("Thu, 01 Jan 2026", 86_400, False),
    ],
)
def test_k04_objects_younger_than_the_grace_are_not_judged(written: str, grace: int, judged: bool) -> None:
    cutoff = 1_767_312_000_999  # 2026-01-02T00:00:00 UTC, and a bit

    assert old_enough(written, latest_judged_write(cutoff, grace)) is judged


@pytest.mark.parametrize(
    ("changed", "may"),
    [
        ({}, True),
        ({"type": FindingType.LOST}, True),
        ({"confirmed_at": None}, False),
        ({"state": FindingState.ACCEPTED}, False),
        ({"state": FindingState.GONE}, False),
        ({"type": FindingType.UNKNOWN_KIND}, False),
        ({"type": FindingType.SIZE_MISMATCH}, False),
        ({"key": "_sexton/vault.json"}, False),
    ],
)
def test_k08_only_confirmed_known_findings_are_repairable(changed: dict[str, Any], may: bool) -> None:
    confirmed = ORPHAN.model_copy(update={"confirmed_at": 5})

    assert repairable(confirmed.model_copy(update=changed)) is may


def test_k14_over_1_percent_of_the_objects_need_an_approval() -> None:
    assert too_many("hot", 10, 1_000) == ""
    assert "1.1 % of the 1,000 objects of vault hot" in too_many("hot", 11, 1_000)
    assert too_many("hot", 1, 0)
    assert too_many("hot", 0, 0) == ""


@pytest.mark.parametrize(
    ("interval", "days", "late"),
    [
        (43_200, 30, False),
        (43_200, 4, False),
        (43_200, 3, True),
        (86_400, 4, False),
        (86_401, 4, True),
        (43_200, 1, True),
    ],
)
def test_report_that_leaves_under_three_days_is_too_late(interval: int, days: int, late: bool) -> None:
    assert reports_loss_too_late(interval, days) is late
