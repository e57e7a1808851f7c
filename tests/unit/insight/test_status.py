"""What is wrong by a status: each problem has its severity, and the sentence names the worst one with its way out."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from sexton.insight.metrics.model import WalFigures
from sexton.insight.status import log_problems, problems, sentence, worst_first
from sexton.insight.views import Checked, InstanceStatus, KindStatus, Running
from sexton.marks.kept import LIVE, KeepReason, Kept, Severity, by_hold, by_live, by_owner_silence, by_vault, way_out
from sexton.operators.controls.model import ALL, ControlKind, Halt
from sexton.recycle.model import DAY_MS, RoundReport
from sexton.recycle.pacing.model import Cap
from sexton.recycle.planning.model import PlanRow
from sexton.replication.binlog.model import LogCounts

NOW = 1_000_000
NONE: dict[str, Any] = dict.fromkeys(("running", "halt", "last_success", "last", "last_ended"))
FINE = InstanceStatus(
    **NONE,
    instance="shop",
    mode="enabled",
    now=NOW,
    next_round=NOW + 60_000,
    failures=0,
    holds=0,
    kinds=(),
    claimed=0,
    late=0,
    quarantined={},
)


def ended(state: str, **report: Any) -> RoundReport:
    return RoundReport(round=7, instance="shop", state=state, **report)


def halted(by: ControlKind, scope: str) -> Halt:
    return Halt(by=by, scope=scope, why="a drill", todo="to resume: sexton start --all")


def running(**fields: Any) -> Running:
    return Running(round=8, since=1, **fields)


PLAN = PlanRow(
    id=3, instance="shop", state="", created_at=1, planned_by="", marks=7, objects=7, bytes=7, kinds=("7 dropped",)
)
STATES: Sequence[tuple[str, Any, Severity]] = [
    ("checked", Checked(lost=3), Severity.LOST),
    ("last", ended("PARTIAL", vaults={"disk": "DENIED", "cold": "normal"}), Severity.FAULT),
    ("last", ended("PARTIAL", kept={by_vault("disk", "DENIED"): 2}, vaults={"disk": "DENIED"}), Severity.FAULT),
    ("last", ended("PARTIAL", kept={by_owner_silence("no answer"): 2}), Severity.FAULT),
    ("last", ended("FAILED", error="the disk is full\nINSERT …"), Severity.FAILED),
    ("last", ended("CANCELLED", error="cancelled"), Severity.OTHER),
    ("last", ended("SUCCEEDED", kept={by_hold(1): 2}), Severity.OTHER),
    ("last", ended("SUCCEEDED", vaults={"disk": "normal", "cold": "NOT_LISTED"}), Severity.HALTED),
    ("last", ended("SUCCEEDED", kept={Kept(KeepReason.UNKNOWN_KIND, "odd"): 2}), Severity.APPROVAL),
    ("has_worker", False, Severity.OVERDUE),
    ("has_temporal", False, Severity.OVERDUE),
    ("schedule", "paused: a migration", Severity.HALTED),
    ("quarantined", {"BAD_KEY": 2, "CHANGED": 1}, Severity.QUARANTINED),
    ("overdue_since", 1, Severity.OVERDUE),
    ("running", running(leased=True, cut_off=True), Severity.OVERDUE),
    ("running", running(waiting="for 20 s: no", wait="BACKING_OFF"), Severity.FAILED),
    ("running", running(waiting="by ada", wait="PAUSED"), Severity.HALTED),
    ("running", running(waiting="paused, or so it reads"), Severity.OTHER),
    ("running", running(leased=True), Severity.OTHER),
    ("halt", halted(ControlKind.STOP, "shop"), Severity.HALTED),
    ("halt", halted(ControlKind.WINDOW, ALL), Severity.HALTED),
    ("approvals", (PLAN,), Severity.APPROVAL),
    ("mode", "observe", Severity.OBSERVES),
    ("holds", 2, Severity.OTHER),
]
"""A field of a status, its value, and the severity of the problem that it shows; OTHER: it shows none."""


def status_of(**fields: Any) -> InstanceStatus:
    return FINE.model_copy(update=fields)


def test_the_sentence_names_the_worst_of_all_problems() -> None:
    chosen = [of for n in range(4) for of in combinations(STATES, n) if len({name for name, *_ in of}) == n]
    assert len(chosen) > 400
    for states in chosen:
        status = status_of(**{name: value for name, value, _ in states})
        rows = [row for row in worst_first(problems(status)) if row.severity is not Severity.OTHER]
        # Nothing begins a round while it is halted.
        names = {name for name, *_ in states}
        ends = {"overdue_since"} if names & {"halt", "schedule"} else set()
        ends |= {"has_worker", "has_temporal"} if "mode" in names else set()  # it only observes
        expected = {of for name, _, of in states if name not in ends} - {Severity.OTHER}
        text = sentence(rows, [FINE, status])

        assert {row.severity for row in rows} == expected, states
        assert [row for row in rows if not row.way_out] == []
        assert text.startswith("All is well: the next round, of shop, ") == (not expected), text
        assert text.startswith("Nothing is wrong, but ") == (bool(expected) and all(s.is_ordered for s in expected))
        if rows:
            assert rows[0].severity is min(expected)
            assert text.endswith(f": {rows[0]}. Way out: {rows[0].way_out}")


LATE = (KindStatus(kind="dropped", waiting=5, due=5, due_bytes=0, oldest=0, due_since=NOW - DAY_MS - 1),)
"""Marks that have been due for more than a day."""
CAP = Cap(instance="shop", vault="disk", keys_per_second=1)
DUE = "All is well: the next round, of shop, is due at 1970-01-01 00:17:40 UTC"
SENTENCES: Sequence[tuple[dict[str, Any], str]] = [
    ({}, DUE),
    ({"holds": 2}, f"{DUE}; 2 holds in force"),
    ({"kinds": LATE}, DUE),  # no round has ended since
    ({"kinds": LATE, "running": running(leased=True), "last": ended("SUCCEEDED"), "last_ended": NOW}, DUE),
    ({"next_round": NOW}, "All is well: the next round, of shop, runs or is due now"),
    (
        {"mode": "observe", "checked": Checked(lost=3)},
        "2 things need an operator, the worst first: shop: LOST: 3 objects, confirmed. "
        "Way out: sexton check findings shop --type LOST",
    ),
    (
        {"last": ended("FAILED", error="the disk is full\nINSERT …"), "failures": 2},
        "1 thing needs an operator: shop: failed round: 2 rounds without success (the disk is full). "
        "Way out: sexton round show 7",
    ),
    (
        {"last": ended("STOPPED"), "failures": 2},
        "1 thing needs an operator: shop: failed round: 2 rounds without success. Way out: sexton round show 7",
    ),
    (
        {"has_temporal": False},
        "1 thing needs an operator: (all): no Temporal: everything (no worker reaches Temporal: no round begins). "
        "Way out: sexton doctor",
    ),
    (
        {"schedule": "paused: a migration"},
        "Nothing is wrong, but 1 order blocks deletions: (all): paused schedule: all rounds, checks, purges and binlog "
        "GCs (a migration). Way out: sexton schedules resume",
    ),
    (
        {"kinds": LATE, "last": ended("SUCCEEDED"), "last_ended": NOW},
        "1 thing needs an operator: shop: late: 5 marks (due for more than a day). Way out: sexton blockers shop",
    ),
    (
        {"kinds": LATE, "last": ended("SUCCEEDED", kept={by_hold(2): 5, by_hold(1): 4}), "last_ended": NOW},
        "Nothing is wrong, but 1 order blocks deletions: shop: late: 5 marks (due for more than a day; the last round "
        "kept 5: hold 2). Way out: sexton hold release 2",
    ),
    (  # what nobody has ordered is named first
        {"kinds": LATE, "last": ended("SUCCEEDED", kept={by_hold(2): 5, LIVE: 1}), "last_ended": NOW},
        "1 thing needs an operator: shop: late: 5 marks (due for more than a day; the last round kept 1: live). "
        f"Way out: {way_out(LIVE, 'shop')}",
    ),
    (  # also while a round runs, which will keep them again
        {
            "kinds": LATE,
            "caps": (CAP,),
            "running": running(leased=True),
            "last": ended("SUCCEEDED", kept={by_hold(2): 5, LIVE: 1, by_live("m", "row 1"): 2}),
            "last_ended": NOW,
        },
        "1 thing needs an operator: shop: late: 5 marks (due for more than a day; the last round kept 3: live). "
        f"Way out: {way_out(LIVE, 'shop')}",
    ),
    (  # a round has claimed all that is due
        {"claimed": 7, "caps": (CAP,), "running": running(leased=True).model_copy(update={"since": NOW - DAY_MS - 1})},
        "Nothing is wrong, but 1 order blocks deletions: shop: late: 7 marks (due for more than a day; vault disk is "
        "capped at 1 keys/s). Way out: sexton vault uncap shop disk",
    ),
    (
        {"kinds": LATE, "caps": (CAP,), "running": running(leased=True)},
        "Nothing is wrong, but 1 order blocks deletions: shop: late: 5 marks (due for more than a day; vault disk is "
        "capped at 1 keys/s). Way out: sexton vault uncap shop disk",
    ),
    (
        {"halt": halted(ControlKind.STOP, ALL)},
        "Nothing is wrong, but 1 order blocks deletions: (all): stop: everything (a drill). "
        "Way out: to resume: sexton start --all",
    ),
]


def test_a_sentence_says_what_is_wrong_and_what_was_ordered() -> None:
    statuses = [status_of(**fields) for fields, _ in SENTENCES]

    assert [sentence(problems(status), [status]) for status in statuses] == [text for _, text in SENTENCES]
    assert sentence([], []) == "no instance is registered; begin with: sexton instance add NAME"


def test_a_stop_of_everything_is_one_problem() -> None:
    stop = halted(ControlKind.STOP, ALL)
    both = [FINE.model_copy(update={"instance": name, "halt": stop}) for name in ("shop", "depot")]

    rows = worst_first(row for status in both for row in problems(status, [stop, halted(ControlKind.WINDOW, ALL)]))

    assert [(row.instance, row.held_by) for row in rows] == [("(all)", "stop"), ("(all)", "window")]


def test_losses_and_faults_of_logs_are_problems() -> None:
    topics = WalFigures(lost_regions=2, quarantined=1, faulty=1)
    rows = list(log_problems(topics, LogCounts(lost=1, refused=1, waiting=1)))

    assert [str(row) for row in worst_first(rows)] == [
        "(all): topics, LOSS: 2 regions",
        "(all): binlogs, LOST: 1 consumer",
        "(all): topics, log fault: 1 topic",
        "(all): binlogs, clock: 1 instance",
        "(all): topics, quarantine: 1 topic",
        "(all): binlogs, approval: 1 cut",
    ]
    assert list(log_problems(WalFigures(), LogCounts())) == []
    assert sentence(rows, [FINE]).startswith(
        "6 things need an operator, the worst first: (all): topics, LOSS: 2 regions. "
    )
