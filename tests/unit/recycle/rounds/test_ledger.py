"""A round's ledger sums its ranges, counts kept marks once, and continues in the next run."""

from sexton.marks.kept import LIVE, KeepReason, Kept, by_hold
from sexton.marks.model import Lease
from sexton.recycle.pipeline.model import Cursor, RangeReceipt
from sexton.recycle.planning.model import KindPlan, Plan, PlannedShard, Policy
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import Carried, OpenedRound

BAD_KEY = Kept(KeepReason.QUARANTINED, "BAD_KEY")
POLICY = Policy(version="v", retention_seconds={"a": 600, "b": 600}, upload_grace_seconds=600, after={"b": ("a",)})
PLAN = Plan(
    id=7,
    instance="shop",
    created_at=0,
    policy=POLICY,
    kinds=(KindPlan(kind="a", cutoff=1, marks=10), KindPlan(kind="b", cutoff=1, marks=5)),
    kept={BAD_KEY: 1},
)
A = PLAN.kinds[0]
OPENED = OpenedRound(
    round=3, lease=Lease(instance="shop", job="recycle", owner="run", epoch=1), may_delete=True, policy=POLICY
)


def receipt(**told: object) -> RangeReceipt:
    return RangeReceipt.model_validate({"scanned": 4, "claimed": 3, "last": Cursor(id="x"), **told})


FAULTS = {"cold": "UNREACHABLE"}


def begun() -> Ledger:
    ledger = Ledger()
    ledger.begin(PLAN)
    return ledger


def test_ledger_sums_ranges_and_continues_at_the_cursor() -> None:
    ledger = begun()
    for removed, milliseconds in ((3, 100), (6, 50)):
        ledger.add_range(ledger.next_range(OPENED, PLAN, A, 0), receipt(kept={LIVE: 1}, removed=removed))
        ledger.add_elapsed("a", milliseconds)

    order = ledger.next_range(OPENED, PLAN, A, 0)

    assert (order.number, order.limit, order.after) == (2, 4, Cursor(id="x"))
    a = ledger.kinds["a"]
    assert (a.scanned, a.claimed, a.removed, a.elapsed_ms, a.kept) == (8, 6, 6, 150, {LIVE: 2})


def test_each_shard_has_its_own_cursor_limit_and_numbers() -> None:
    middle = Cursor(retention_starts_at=1, id="m")
    kind = A.model_copy(update={"since": 4, "shards": (PlannedShard(marks=6, until=middle), PlannedShard(marks=4))})
    ledger = Ledger()
    ledger.begin(PLAN.model_copy(update={"kinds": (kind,)}))

    first, last = (ledger.next_range(OPENED, PLAN, kind, shard) for shard in ledger.unfinished_shards("a"))
    ledger.add_range(last, receipt(removed=9, finished=True))
    ledger.add_range(first, receipt(removed=5))
    again = ledger.next_range(OPENED, PLAN, kind, 0)

    assert [(o.number, o.limit, o.after, o.until) for o in (first, last, again)] == [
        (0, 6, Cursor(retention_starts_at=5), middle),
        (1, 4, middle, None),
        (2, 3, Cursor(id="x"), middle),
    ]
    assert (ledger.unfinished_shards("a"), ledger.kinds["a"].finished, ledger.kinds["a"].removed) == ([0], False, 9)
    ledger.add_range(again, receipt(finished=True))
    assert (ledger.unfinished_shards("a"), ledger.kinds["a"].finished) == ([], True)


def test_ledger_has_the_last_kept_counts_of_adoption() -> None:
    ledger = begun()
    ledger.add_adoption(receipt(kept={by_hold(1): 2}, quarantined=1))
    ledger.add_adoption(receipt(kept={by_hold(1): 2}))

    closed = ledger.close_order(OPENED, 7, PLAN, "SUCCEEDED", "")

    assert ledger.kept == {by_hold(1): 2}
    assert closed.kept == {by_hold(1): 2, BAD_KEY: 1}
    assert (closed.quarantined, closed.due) == (1, 15)


def test_kind_waits_for_its_predecessors_and_reports_it() -> None:
    ledger = begun()

    assert ledger.waits_for(PLAN, "b") == ["a"]
    assert ledger.errors == ["b: waits for a"]
    ledger.add_range(ledger.next_range(OPENED, PLAN, A, 0), receipt(finished=True))
    ledger.set_error("b", "")
    assert (ledger.waits_for(PLAN, "b"), ledger.errors, ledger.unfinished) == ([], [], True)


def test_next_run_continues_with_the_same_ledger() -> None:
    ledger = begun()
    ledger.leases, ledger.leases_lost, ledger.tries = 2, 1, 3
    ledger.add_range(ledger.next_range(OPENED, PLAN, A, 0), receipt(faults=FAULTS, fault_details=FAULTS))

    carried = ledger.carried("run", OPENED, 7)
    again = Ledger(carried)
    again.leases += 1  # it takes the lease again

    assert (carried.run, carried.plan, carried.opened) == ("run", 7, OPENED)
    assert again.close_order(OPENED, 7, PLAN, "FAILED", "x") == ledger.close_order(OPENED, 7, PLAN, "FAILED", "x")


def test_kinds_carried_by_older_code_begin_again() -> None:
    older = {"kind": "a", "due": 10, "claimed": 4, "ranges": 1, "cursor": {"retention_starts_at": 5, "id": "d"}}
    carried = {"run": "run", "plan": 7, "leases": 1, "lost_leases": 0, "tries": 0, "faults": {}, "kinds": [older]}
    ledger = Ledger(Carried.model_validate(carried))

    ledger.begin(PLAN)

    assert ledger.unfinished_shards("a") == [0]
    assert ledger.next_range(OPENED, PLAN, A, 0).number == 0  # its stored receipt is returned again
    assert ledger.kinds["a"].claimed == 0


def test_what_adoption_counted_is_carried() -> None:
    ledger = Ledger()
    ledger.add_adoption(RangeReceipt(quarantined=3, kept={LIVE: 2}, finished=True))
    ledger.add_adoption_time(700)
    ledger.add_adoption_time(300)
    carried = Carried.model_validate_json(ledger.carried("run", OPENED, 1).model_dump_json())
    after = Ledger(carried)

    assert after.kept == {LIVE: 2}
    after.add_adoption_time(5)
    after.add_adoption(RangeReceipt(quarantined=1, finished=True))  # the next run adopts again
    closing = after.close_order(OPENED, 1, None, "SUCCEEDED", "")
    assert (closing.quarantined, closing.kept, closing.adoption_ms) == (4, {}, 1_005)
