"""Why a mark is kept: text, label and way out; where the files of a due mark are, or why nothing is deleted."""

from typing import Any

import pytest

from sexton.insight.metrics.model import HOLDERS
from sexton.marks.kept import (
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
from sexton.marks.model import DueMark, Expansion, Place, Reason
from sexton.marks.policy import Unplaced, covering_prefixes, places
from sexton.recycle.pipeline.model import RangeReceipt

ONE_OF_EACH = {reason: Kept(reason, "subject", "detail") for reason in KeepReason}


TEXTS = {
    by_hold(17): "hold 17",
    LIVE: "live",
    IN_USE: "in use by its owner",
    OWNER_BUSY: "owner's transaction",
    BY_LIMIT: "limit of 24 hours",
    WAITS_FOR_CHILD: "waits for a child mark",
    by_vault("cold", "UNREACHABLE"): "vault cold: UNREACHABLE",
    by_vault("cold", "NOT_LISTED"): "vault cold: not on the vault whitelist",
    by_owner_silence("no answer"): "owner: no answer",
    by_plan(12): "approval of plan 12",
    Kept(KeepReason.PROTECTION, "copy-7"): "protection copy-7",
    Kept(KeepReason.PROTECTION_UNREADABLE, "copy-7", "bad sum"): "unreadable protection copy-7: bad sum",
    Kept(KeepReason.REPLICA, "be-3"): "replica on be-3",
    Kept(KeepReason.QUARANTINED, "BAD_KEY"): "quarantined: BAD_KEY",
    Kept(KeepReason.UNKNOWN_KIND, "oddity"): "kind oddity has no retention",
}


def test_every_reason_has_a_text_and_a_metric_label() -> None:
    assert {kept: describe(kept) for kept in TEXTS} == {kept: str(kept) for kept in TEXTS} == TEXTS
    for reason in KeepReason:
        assert describe(ONE_OF_EACH[reason]), reason
        assert reason in HOLDERS


def test_only_reasons_that_need_an_operator_are_faults() -> None:
    counts = dict.fromkeys(ONE_OF_EACH.values(), 1)

    assert count_faults(counts) == len(FAULTS) == 3
    assert count_faults({by_vault("cold", "NOT_LISTED"): 5, by_vault("cold", "DENIED"): 2}) == 2
    assert count_by_reason({by_hold(1): 2, by_hold(2): 3, LIVE: 1}) == {KeepReason.HOLD: 5, KeepReason.LIVE: 1}


def test_the_way_out_names_its_plan_or_setting() -> None:
    one, further = (Kept(KeepReason.UNKNOWN_KIND, subject) for subject in ("snapshot", "(and at least 3 others)"))

    assert way_out(by_plan(12), "shop") == "sexton apply 12"
    assert way_out(by_vault("cold", "DENIED"), "shop") == "sexton vault list shop"
    assert "set kinds.snapshot.retention_seconds" in way_out(one, "shop")
    assert "set kinds.NAME.retention_seconds" in way_out(further, "shop")


def test_counts_travel_as_json_and_back() -> None:
    receipt = RangeReceipt(kept={by_hold(1): 2, by_vault("cold", "DENIED"): 3})
    newer = RangeReceipt.model_validate({"kept": [{"reason": "legal_hold", "subject": "17", "marks": 3}]})

    assert RangeReceipt.model_validate_json(receipt.model_dump_json()) == receipt
    assert receipt.model_dump(mode="json")["kept"][0] == {"reason": "hold", "subject": "1", "detail": "", "marks": 2}
    assert newer.kept == {Kept(KeepReason.OTHER, "17"): 3}  # a reason of a newer version
    assert "does not know: 17" in str(next(iter(newer.kept)))


def make_mark(**columns: Any) -> DueMark:
    """Return a due mark of a prefix in vault ``disk``."""
    row: dict[str, Any] = {"kind": "dropped", "id": "t", "retention_starts_at": 0, "vault": "disk", "bytes": 0}
    return DueMark(**(row | {"prefix": "data/t/", "keys": None} | columns))


def test_a_mark_or_the_owners_expansion_names_the_files() -> None:
    keys = make_mark(prefix=None, keys=("data/a.dat", "data/b.dat"), etags=("1", "2"))
    expanded = Place(vault="cold", keys=("data/c.dat",))

    assert places(make_mark(), None) == (Place(vault="disk", prefix="data/t/"),)
    assert places(keys, None) == (Place(vault="disk", keys=("data/a.dat", "data/b.dat"), etags=("1", "2")),)
    assert places(make_mark(), Expansion(places=(expanded,))) == (expanded,)
    assert places(make_mark(), Expansion()) == ()


UNPLACED = [
    (make_mark(), Expansion(problem=(Reason.OWNER_CORRUPT, "no such load")), Reason.OWNER_CORRUPT),
    (make_mark(prefix=None), None, Reason.UNEXPANDED),
    (make_mark(vault=None), None, Reason.NO_VAULT),
    (make_mark(prefix="data/t"), None, Reason.BAD_PREFIX),
    (make_mark(prefix=""), None, Reason.BAD_PREFIX),
    (make_mark(prefix=None, keys=("data/a.dat", "")), None, Reason.BAD_KEY),
    (make_mark(), Expansion(places=(Place(vault="disk", prefix="/"),)), Reason.BAD_PREFIX),
    (make_mark(), Expansion(places=(Place(vault="disk", keys=("../a",)),)), Reason.BAD_KEY),
]


def test_a_mark_without_certain_files_is_not_resolved() -> None:
    for mark, expansion, reason in UNPLACED:
        with pytest.raises(Unplaced) as refusal:
            places(mark, expansion)
        assert refusal.value.reason is reason


def test_covering_prefixes_end_at_separators() -> None:
    assert covering_prefixes("data/t1_2.dat") == ["data/", "data/t1_", "data/t1_2.dat"]
    assert covering_prefixes("data/t1/") == ["data/", "data/t1/"]
