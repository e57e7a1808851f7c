"""Whoever ends a round with a forged report changes what people read about it, and nothing else (H1)."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.insight.status import overview
from sexton.marks.keepers import KeepReason, Kept
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import CloseOrder, KindProgress
from tests.support.rig import Rig, stores_of
from tests.support.scrape import scrape

HUGE = 10**400
MANY = 2_000


@pytest.fixture
def rig(database_url: str, tmp_path: Path) -> Rig:
    rig = Rig(database_url).instance().instance("other")
    rig.local(tmp_path / "v")
    return rig


def end_round(rig: Rig, forge: Callable[[CloseOrder], CloseOrder]) -> None:
    """Begin a round, and end it with a forged report."""
    opened, ledger = rig.rounds.open("shop", uuid.uuid4().hex, None, rig.policy), Ledger()
    ledger.leases = 1
    rig.rounds.close(forge(ledger.close_order(opened, None, None, "SUCCEEDED", "")))


@pytest.mark.parametrize("number", [HUGE, -HUGE], ids=["huge", "below zero"])
def test_h1_no_forged_number_fails_a_scrape_or_a_status(rig: Rig, number: int) -> None:
    kind = KindProgress(kind="dropped", scanned=number, elapsed_ms=number)
    kept = {Kept(KeepReason.LIVE): number}
    numbers = {"scanned": number, "due": number, "protected_bytes": number, "adoption_ms": number, "leases": number}

    end_round(rig, lambda order: order.model_copy(update={**numbers, "kept": kept, "kinds": (kind,)}))

    assert scrape(rig)("sexton_instance_enabled", instance_id="other") is not None
    assert [i.instance for i in overview(rig.db, stores_of(rig.db).insight, rig.policy, 1).instances] == [
        "other",
        "shop",
    ]


def test_h1_forged_names_leave_no_counters_behind(rig: Rig) -> None:
    end_round(rig, lambda order: order)
    before = rig.count("counter")

    def forge(order: CloseOrder) -> CloseOrder:
        names = [f"{uuid.uuid4().hex}" for _ in range(MANY)]
        opened = order.opened.model_copy(update={"vaults": ("disk", *names)})
        faults = {"disk": names[0], **dict.fromkeys(names, "x")}
        return order.model_copy(
            update={"opened": opened, "faults": faults, "kinds": tuple(KindProgress(kind=n) for n in names)}
        )

    end_round(rig, forge)

    assert rig.count("counter") <= before + 1
    assert len(scrape(rig).text) < 100_000


def test_h1_forged_texts_are_stored_in_part(rig: Rig) -> None:
    text = "x" * 1_000_000
    kind = KindProgress(kind="dropped", error=text, note=text)
    kept = {Kept(KeepReason.VAULT, f"{n}{'x' * 9_000}", text): 1 for n in range(9)}
    texts = {"outcome": text, "error": text, "kept": kept, "kinds": (kind,)}

    end_round(rig, lambda order: order.model_copy(update=texts))

    [report] = rig.rounds.reports.find_round("shop")
    assert len(report.model_dump_json()) < 200_000
    assert len(report.kept) == 9
