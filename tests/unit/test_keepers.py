"""Every name that a round gives to who keeps a mark is one of few classes, and says what to do."""

import pytest

from sexton.insight.metrics import labels
from sexton.marks import keepers
from sexton.marks.keepers import KeepReason, keeper


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hold 1", "hold"),
        ("hold 4711", "hold"),
        ("live", "live"),
        ("vault cold: UNREACHABLE", "vault"),
        ("vault cold: NOT_LISTED", "vault_whitelist"),
        ("owner: shop.live: relation does not exist", "owner_silent"),
        ("owner's transaction", "owner_busy"),
        ("in use by its owner", "in_use"),
        ("in use: its load is being committed", "in_use"),
        ("approval of plan 12", "approval"),
        ("limit of 24 hours", "limit"),
        ("protection copy-7", "protection"),
        ("unreadable protection copy-7: the filter's checksum is wrong", "protection_unreadable"),
        ("its children", "waits"),
        ("its rowset r7", "waits"),
        ("a mark below it", "waits"),
        ("quarantined: BAD_KEY", "quarantined"),
        ("unknown kind, no retention set: oddity", "unknown_kind"),
        ("somebody new", "other"),
        ("hold", "other"),
    ],
)
def test_a_keeper_is_one_of_few_classes(name: str, found: str) -> None:
    assert keeper(name) == found
    assert found in labels.HOLDERS


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("vault cold: UNREACHABLE", True),
        ("owner: no answer", True),
        ("unreadable protection copy-7: the filter's checksum is wrong", True),
        ("protection copy-7", False),
        ("vault cold: NOT_LISTED", False),
        ("owner's transaction", False),
        ("approval of plan 12", False),
        ("limit of 24 hours", False),
        ("its children", False),
    ],
)
def test_only_what_somebody_must_mend_is_a_fault(name: str, fault: bool) -> None:
    assert keepers.is_fault(name) is fault


def test_the_way_out_of_an_approval_is_the_plan_it_names() -> None:
    assert keepers.way_out(keepers.approval(12), "shop") == "sexton apply 12"
    assert keepers.way_out("vault cold: DENIED", "shop") == "sexton vault list shop"


def test_each_name_that_rounds_use_has_a_class_of_its_own_meaning() -> None:
    said = (keepers.LIVE, keepers.OWNER_BUSY, keepers.IN_USE, keepers.BY_LIMIT, keepers.BELOW, keepers.UNKNOWN_KIND)

    assert [keeper(s) for s in said] == [
        KeepReason.LIVE,
        KeepReason.OWNER_BUSY,
        KeepReason.IN_USE,
        KeepReason.LIMIT,
        KeepReason.WAITS,
        KeepReason.UNKNOWN_KIND,
    ]
