"""Marks are counted in pages with a heartbeat between them, wherever a plan is compared with what is due."""

from collections.abc import Iterator

import pytest

from sexton.recycle.planning.sql import measure
from sexton.recycle.planning.sql.measure import Measure
from tests.support.planned import Limited, limited_policy, marks_by_kind, waiting_plans
from tests.support.rig import Rig

MARKS = 30
PAGES = 16
"""30 marks in pages of 2, and the page that is found empty."""


class Heartbeats:
    """Counts calls."""

    count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def shop(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Limited]:
    """An instance with 30 dropped marks that are due, counted two at a time, under a limit of 5 objects."""
    monkeypatch.setattr(measure, "PAGE_MARKS", 2)
    limited_rig = Limited(rig.url)
    limited_rig.policy = limited_policy(objects=5)
    limited_rig.garbage("dropped", MARKS)
    limited_rig.later(10_801)
    yield limited_rig
    limited_rig.db.close()


@pytest.fixture
def heartbeats() -> Heartbeats:
    return Heartbeats()


def test_opening_a_round_that_applies_a_plan_beats(shop: Limited, heartbeats: Heartbeats) -> None:
    plan = shop.rounds.plans.plan_for_operator("shop", shop.policy, "ann")

    shop.approve(plan.id)

    opened = shop.rounds.open("shop", "run", plan.id, shop.policy, heartbeats)

    assert marks_by_kind(shop.rounds.plans.find_plan(plan.id)) == {"dropped": MARKS}
    assert opened.may_delete
    assert heartbeats.count == PAGES


def test_comparing_with_an_open_plan_beats(shop: Limited, heartbeats: Heartbeats) -> None:
    first = shop.plan()
    waiting = waiting_plans(shop)

    shop.rounds.plan("shop", shop.policy, "round", heartbeats)

    assert (marks_by_kind(first), waiting_plans(shop)) == ({}, waiting)
    assert heartbeats.count == 2 * PAGES  # the plan, and the one that awaits an approval


def test_marks_without_a_retention_are_counted_in_pages(shop: Limited, heartbeats: Heartbeats) -> None:
    with shop.db.read() as tx:
        waiting = Measure(shop.db, tx, "shop", shop.policy, heartbeats).count_waiting("dropped")

    assert waiting == MARKS
    assert heartbeats.count == PAGES
