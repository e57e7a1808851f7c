"""The context of a record names the instance, round, kind and range of the order, or the topic."""

import pytest

from sexton.check.model import CheckRequest
from sexton.marks.lease import Lease
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.model import CloseOrder, OpenedRound, OpenRoundOrder
from sexton.runtime.temporal.log_context import context_of

LEASE = Lease(instance="shop", job="recycle", owner="w", epoch=1)
OPENED = OpenedRound(round=7, lease=LEASE, may_delete=True, policy=policy({"dropped": 3_600}, 600))


@pytest.mark.parametrize(
    ("activity", "order", "context"),
    [
        ("close_round", CloseOrder(opened=OPENED, plan=1, outcome="SUCCEEDED"), {"instance": "shop", "round": 7}),
        ("open_round", OpenRoundOrder(instance="shop", plan=None), {"instance": "shop"}),
        ("begin_check", CheckRequest(instance="shop", by="x"), {"instance": "shop"}),
        ("cut_binlogs", "shop", {"instance": "shop"}),
        ("purge_topic", "wal-1", {"topic": "wal-1"}),
        ("due_topics", "wal-1", {}),
        ("nudge", None, {}),
    ],
)
def test_context_names_what_the_order_names(activity: str, order: object, context: dict[str, object]) -> None:
    assert context_of(activity, [] if order is None else [order]) == context
