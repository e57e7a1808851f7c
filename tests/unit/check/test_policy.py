"""Only a complete check confirms findings, and only confirmed findings may be repaired."""

from typing import Any

from sexton.check.model import Evidence, Finding, FindingState, FindingType, Listing, PreviousRun
from sexton.check.policy import (
    IDS_A_HEARTBEAT,
    NAMED_IDS,
    compare_peer,
    judge,
    repairable,
    reports_loss_too_late,
)
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


INCOMPLETE = [
    (but(listings=()), "no vault was listed"),
    (but(**listing(errors=("UNREACHABLE: silent",))), "vault cold: UNREACHABLE: silent"),
    (but(**listing(parts=3)), "vault cold: 2 of 3 parts of its listing did not end"),
    (but(listed_at=None), "the listing did not end"),
    (but(live=None), "the live side was not read to its end"),
    (but(live=0), "no live file was seen"),
    (but(**listing(live=0)), "vault cold: 10 objects, and no record names a live one in it"),
    (but(live_from=1_999), "older than the listing"),
    (but(errors=("the owner is silent",)), "the owner is silent"),
]


def test_k06_k07_incomplete_run_confirms_nothing() -> None:
    for evidence, said in INCOMPLETE:
        assert said in "; ".join(judge(evidence, None))


def test_run_with_far_fewer_entries_than_the_last_is_rejected() -> None:
    fewer_objects, fewer_live = PreviousRun(objects={"hot": 181}, live={}), PreviousRun(objects={}, live={"cold": 21})
    of_the_last = "of the last whole run; if correct: sexton check rebase INSTANCE --reason TEXT"

    for before in (None, BEFORE, PreviousRun(objects={"hot": 180, "gone": 7}, live={"hot": 170, "cold": 20})):
        assert judge(WHOLE, before) == ()
    assert WHOLE.objects == 100
    assert judge(WHOLE, fewer_objects) == (f"vault hot: 90 objects are far below the 181 {of_the_last}",)
    assert judge(WHOLE, fewer_live) == (f"vault cold: 10 live files are far below the 21 {of_the_last}",)


def test_k18_run_whose_records_name_far_fewer_is_rejected() -> None:
    for share, unnamed, is_whole in (
        *((1.0, 49, True), (1.0, 51, False), (0.4, 79, True), (0.4, 81, False)),
        *((0.0, 100, True), (1.0, None, True)),
    ):
        before = PreviousRun(objects={"cold": 20}, live={"cold": 20}, named_share={"cold": share})
        verdict = judge(but(**listing(objects=100, live=20, unnamed=unnamed)), before)

        assert (verdict == ()) is is_whole, (share, unnamed)
        assert is_whole or "far below the" in verdict[0]


def test_no_rebase_is_proposed_where_a_vault_was_not_listed() -> None:
    faulty = but(**listing(objects=0, ended=0, errors=("vault cold: NO_MARKER: not the storage that was added",)))

    verdict = judge(faulty, PreviousRun(objects={"cold": 7}, live={}))

    assert verdict == (
        "vault cold: NO_MARKER: not the storage that was added",
        "vault cold: 1 of 1 parts of its listing did not end",
    )


def test_k08_only_confirmed_known_findings_are_repairable() -> None:
    confirmed = ORPHAN.model_copy(update={"confirmed_at": 5})

    for changed in ({}, {"type": FindingType.LOST}):
        assert repairable(confirmed.model_copy(update=changed))
    for changed in (
        {"confirmed_at": None},
        {"state": FindingState.ACCEPTED},
        {"state": FindingState.GONE},
        {"type": FindingType.UNKNOWN_KIND},
        {"type": FindingType.SIZE_MISMATCH},
        {"key": "_sexton/vault.json"},
    ):
        assert not repairable(confirmed.model_copy(update=changed)), changed


def test_k14_over_1_percent_of_the_objects_need_an_approval() -> None:
    assert too_many("hot", 10, 1_000) == ""
    assert "1.1 % of the 1,000 objects of vault hot" in too_many("hot", 11, 1_000)
    assert too_many("hot", 1, 0)
    assert too_many("hot", 0, 0) == ""


def test_report_that_leaves_under_three_days_is_too_late() -> None:
    orders = [(43_200, 30), (43_200, 4), (43_200, 3), (43_200, 1), (86_400, 4), (86_401, 4)]

    assert [order for order in orders if reports_loss_too_late(*order)] == [(43_200, 3), (43_200, 1), (86_401, 4)]


def test_a_peer_is_compared_both_ways_with_a_few_names() -> None:
    heartbeats: list[None] = []
    records = [f"{n:06}" for n in range(2 * IDS_A_HEARTBEAT)]
    peer = ["zombie", *(f"z{n:04}" for n in range(1_000)), *records[5:]]

    compared = compare_peer("rowset", peer, ("", ""), iter(records), lambda: heartbeats.append(None))
    nothing = compare_peer("rowset", [], ("", ""), iter(records))

    assert (compared.missing, compared.missing_ids) == (5, tuple(records[:5]))
    assert (compared.unknown, compared.unknown_ids) == (1_001, tuple(f"z{n:04}" for n in range(NAMED_IDS)))
    assert (nothing.missing, nothing.missing_ids) == (len(records), tuple(records[:NAMED_IDS]))
    assert len(heartbeats) == 2
