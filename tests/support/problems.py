"""Instances of which each has one problem, as rows; and how bad it is."""

from collections.abc import Mapping
from typing import Any

from sexton.contract import NewMark
from sexton.marks.kept import Severity, by_owner_silence
from sexton.operators.controls.model import ControlKind
from sexton.recycle.model import RoundReport
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.runtime.worker_rows import WorkerPresence, WorkerStore
from tests.support.rig import DAY, Rig

PROBLEMS: Mapping[str, Severity] = {
    "lost": Severity.LOST,
    "denied": Severity.FAULT,
    "silent": Severity.FAULT,
    "failed": Severity.FAILED,
    "retries": Severity.FAILED,
    "bad-key": Severity.QUARANTINED,
    "cut-off": Severity.OVERDUE,
    "overdue": Severity.OVERDUE,
    "paused": Severity.HALTED,
    "stopped": Severity.HALTED,
    "waits": Severity.APPROVAL,
    "observes": Severity.OBSERVES,
}
"""The worst first, as every view has them."""
FINE = ("cancelled", "shop")
"""Instances without a problem; the newest round of the first was cancelled."""
REPORTS: Mapping[str, dict[str, Any]] = {
    "denied": {"state": "PARTIAL", "vaults": {"disk": "DENIED"}},
    "silent": {"state": "PARTIAL", "kept": {by_owner_silence("no answer"): 3}},
    "failed": {"state": "FAILED", "error": "the disk is full"},
    "cancelled": {"state": "CANCELLED", "error": "cancelled"},
}


def add_problems(rig: Rig) -> None:
    """Add an instance for each problem to a rig with instance ``shop``."""
    for name in ("cancelled", *PROBLEMS):
        rig.instance(name, enable=name != "observes")
    rig.rounds.open("cut-off", "cut-off", None, rig.policy)
    rig.later(61)
    for name, why, wait in (("paused", "by ada", "PAUSED"), ("retries", "for 20 s: no", "BACKING_OFF")):
        rig.rounds.release(rig.rounds.open(name, name, None, rig.policy), why, wait)
    WorkerStore(rig.db).report(WorkerPresence(worker="w", role="control"))
    now = rig.now()
    rig.update("instance", turn_at=now)
    rig.update("instance", {"id": "overdue"}, turn_at=now - DAY * 1_000)
    for name, fields in REPORTS.items():
        report = RoundReport(round=7, instance=name, **fields).model_dump(mode="json")
        ended = {"instance": name, "run_id": name, "state": "FAILED", "started_at": now, "ended_at": now}
        rig.insert("round", **ended, report=report)
    rig.insert("check_run", instance="lost", run="lost", state="WHOLE", cutoff=now, open_counts={"LOST": [3, 2]})
    rig.mark("dropped", NewMark(id="q", vault="disk", keys=("q.dat",)), instance="bad-key")
    rig.update("mark", {"instance": "bad-key"}, quarantined_reason="BAD_KEY")
    rig.controls.put(ControlKind.STOP, "stopped", "a drill", "ada")
    kinds = (KindPlan(kind="dropped", cutoff=1, marks=7),)
    plan = Plan(instance="waits", created_at=now, policy=rig.policy, kinds=kinds).model_dump()
    made = {"instance": "waits", "created_at": now, "planned_by": "round", "policy_version": "1", "body": plan}
    rig.insert("plan", **made, awaits="a limit", expires_at=now + DAY * 1_000)
