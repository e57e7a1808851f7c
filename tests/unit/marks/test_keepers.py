"""The reason why a mark is kept has a text, a metric label and a way out."""

import pytest

from sexton.insight.metrics import labels
from sexton.marks.keepers import (
    BY_LIMIT,
    FAULTS,
    IN_USE,
    LIVE,
    OWNER_BUSY,
    WAITS_FOR_CHILD,
    KeepReason,
    Kept,
    by_hold,
    by_owner_silence,
    by_plan,
    by_vault,
    count_by_reason,
    count_faults,
    describe,
    way_out,
)
from sexton.recycle.pipeline.model import RangeReceipt

ONE_OF_EACH = {reason: Kept(reason, "subject", "detail") for reason in KeepReason}


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        (by_hold(17), "hold 17"),
        (LIVE, "live"),
        (IN_USE, "in use by its owner"),
        (OWNER_BUSY, "owner's transaction"),
        (BY_LIMIT, "limit of 24 hours"),
        (WAITS_FOR_CHILD, "waits for a child mark"),
        (by_vault("cold", "UNREACHABLE"), "vault cold: UNREACHABLE"),
        (by_vault("cold", "NOT_LISTED"), "vault cold: not on the vault whitelist"),
        (by_owner_silence("no answer"), "owner: no answer"),
        (by_plan(12), "approval of plan 12"),
        (Kept(KeepReason.PROTECTION, "copy-7"), "protection copy-7"),
        (
            Kept(KeepReason.PROTECTION_UNREADABLE, "copy-7", "bad checksum"),
            "unreadable protection copy-7: bad checksum",
        ),
        (Kept(KeepReason.REPLICA, "be-3"), "replica on be-3"),
        (Kept(KeepReason.QUARANTINED, "BAD_KEY"), "quarantined: BAD_KEY"),
        (Kept(KeepReason.UNKNOWN_KIND, "oddity"), "kind oddity has no retention"),
    ],
)
def test_keep_reason_has_a_readable_text(kept: Kept, text: str) -> None:
    assert describe(kept) == str(kept) == text


def test_every_reason_has_a_text_and_a_metric_label() -> None:
    for reason in KeepReason:
        assert describe(ONE_OF_EACH[reason]), reason
        assert reason in labels.HOLDERS


def test_only_reasons_that_need_an_operator_are_faults() -> None:
    counts = dict.fromkeys(ONE_OF_EACH.values(), 1)

    assert count_faults(counts) == len(FAULTS) == 3
    assert count_faults({by_vault("cold", "NOT_LISTED"): 5, by_vault("cold", "DENIED"): 2}) == 2


def test_way_out_of_an_approval_names_its_plan() -> None:
    assert way_out(by_plan(12), "shop") == "sexton apply 12"
    assert way_out(by_vault("cold", "DENIED"), "shop") == "sexton vault list shop"


def test_counts_are_summed_by_reason() -> None:
    counts = {by_hold(1): 2, by_hold(2): 3, LIVE: 1}

    assert count_by_reason(counts) == {KeepReason.HOLD: 5, KeepReason.LIVE: 1}


def test_counts_travel_as_json_and_back() -> None:
    receipt = RangeReceipt(kept={by_hold(1): 2, by_vault("cold", "DENIED"): 3})

    read_back = RangeReceipt.model_validate_json(receipt.model_dump_json())

    assert read_back == receipt
    assert receipt.model_dump(mode="json")["kept"][0] == {"reason": "hold", "subject": "1", "detail": "", "marks": 2}


def test_a_reason_of_a_newer_version_is_read_as_other() -> None:
    newer = [{"reason": "legal_hold", "subject": "17", "marks": 3}]

    receipt = RangeReceipt.model_validate({"kept": newer})

    assert receipt.kept == {Kept(KeepReason.OTHER, "17"): 3}
    assert "does not know: 17" in str(next(iter(receipt.kept)))


def test_kind_without_retention_names_its_setting() -> None:
    one, further = (Kept(KeepReason.UNKNOWN_KIND, subject) for subject in ("snapshot", "(and at least 3 others)"))

    assert "set kinds.snapshot.retention_seconds" in way_out(one, "shop")
    assert "set kinds.NAME.retention_seconds" in way_out(further, "shop")
