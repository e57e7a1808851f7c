"""`sexton status` reads all instances by few statements; a running round shows page by page what it did."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, insert

from sexton.contract import NewMark
from sexton.insight.progress import NOTHING, round_progress
from sexton.insight.status import overview
from sexton.insight.views import InstanceStatus, KindCounts, RoundCounts
from sexton.interfaces.cli.doctor.stored import examine_work
from sexton.kernel.crash_points import installed
from sexton.marks.kept import Severity
from sexton.operators.controls.model import ControlKind
from sexton.operators.holds.model import Hold
from sexton.operators.registry.markers import MarkerStore
from sexton.operators.settings import SettingStore
from sexton.recycle.model import RoundReport
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.recycle.planning.sql.measure import MOST_KINDS
from sexton.runtime.worker_rows import WorkerPresence, WorkerStore
from tests.integration.insight.conftest import FILES
from tests.integration.recycle.pipeline.attempts import adopt_order
from tests.servers.postgres import new_database, shared
from tests.support.command import run
from tests.support.crashes import Crash, crash_at
from tests.support.problems import FINE, PROBLEMS, add_problems
from tests.support.rig import DAY, Rig, service_of, stores_of

INSTANCES = 20
MOST_STATEMENTS = 15
CHECK = {"cutoff": 1_000, "open_counts": {"LOST": [3, 2]}, "evidence": {"prefixes": 4}}


@contextmanager
def recorded_statements() -> Iterator[list[str]]:
    """Record what any engine sends, but for BEGIN and COMMIT, and what a connection sends as it is opened."""
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        statements.append(str(arguments[2]))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def add_instance(rig: Rig, n: int) -> None:
    """Add an instance whose rows depend on its number: no two of them have the same status."""
    name = f"i{n:02}"
    rig.instance(name, enable=n % 5 > 0)
    for kind in ("dropped", "compacted", "orphan", *(f"own{k:02}" for k in range(n)))[: 2 + n % 3 + n // 2]:
        marks = [NewMark(id=f"{kind}-{m}", vault="disk", keys=(f"{m}.dat",), bytes=10) for m in range(n + 2)]
        rig.mark(kind, *marks, instance=name)
    for h in range(n % 4):
        rig.holds.place(Hold(instance=name, scope="instance", reason=f"audit {h}"), DAY)
    with rig.db.write() as c:
        t, now = rig.db.t, rig.db.now(c)
        for p, state in enumerate(("ACTIVE", "SOFT")[: n % 3]):
            registered = {"registered_at": now, "expires_at": now, "digest": "", "owner": "ada"}
            c.execute(insert(t.protection).values(instance=name, job=f"copy:{p}", state=state, **registered))
        for r in range(n % 4):
            report = {"round": n, "state": "SUCCEEDED", "instance": name, "removed": n + r}
            ended = {"instance": name, "state": "SUCCEEDED", "started_at": 1_000, "ended_at": 2_000 + r}
            c.execute(insert(t.round).values(**ended, run_id=f"{name}-{r}", report=report))
        for r, state in enumerate(("WHOLE", "PARTIAL", "RUNNING")[: n % 4]):
            check = CHECK | {"open_counts": None} if state == "RUNNING" else CHECK
            c.execute(insert(t.check_run).values(instance=name, run=f"{name}-{r}", state=state, **check))
        for _ in range(n % 2):
            plan = Plan(
                instance=name, created_at=now, policy=rig.policy, kinds=(KindPlan(kind="x", cutoff=1, marks=n),)
            )
            row = {"created_at": now, "planned_by": "round", "policy_version": "1", "body": plan.model_dump()}
            c.execute(insert(t.plan).values(instance=name, awaits="a limit", expires_at=now + DAY * 1000, **row))
            c.execute(insert(t.pace_cap).values(instance=name, vault="disk", keys_per_second=n, since=now))


@pytest.fixture(scope="module")
def many() -> Iterator[Rig]:
    """Twenty instances: some halted, some at work, with marks in every state; no test changes them."""
    rig = Rig(shared().keep(new_database())).instance()
    for n in range(1, INSTANCES):
        add_instance(rig, n)
    rig.controls.put(ControlKind.STOP, "i04", "a migration", "ada")
    rig.controls.put(ControlKind.BLACKLIST, "i05", "not ours", "bob")
    rig.later(10_801)
    SettingStore(rig.db).put("recycle.dropped_partition_retention_seconds", "99999", "i07", "an audit", "ada")
    for name in ("i10", "i11"):
        rig.rounds.open(name, f"running-{name}", None, rig.policy)
    rig.sql("UPDATE {}round SET waiting = 'paused', waiting_since = started_at WHERE run_id = 'running-i11'")
    rig.sql("UPDATE {}instance SET turn_at = sexton.now() - interval '5 min', failures = 2 WHERE id < 'i06'")
    rig.sql("UPDATE {}mark SET quarantined_reason = 'UNKNOWN_VAULT' WHERE id = 'dropped-1' AND instance > 'i08'")
    claimed = "state = 'CLAIMED', claimed_at = sexton.now(), lease_epoch = 1, batch = 1, claimed_batch = 1"
    rig.sql("UPDATE {}mark SET " + claimed + " WHERE id = 'compacted-0' AND instance > 'i15'")
    rig.sql("UPDATE {}mark SET first_pass_at = claimed_at WHERE id = 'compacted-0' AND instance > 'i18'")
    lease = "INSERT INTO {}lease (instance, job, state, acquired_at, expires_at) VALUES (:i, 'recycle', 'BUSY', "
    rig.sql(lease + "sexton.now(), sexton.now() + interval '60 s')", i="i13")
    rig.sql(lease + "sexton.now() - interval '9 min', sexton.now() - interval '8 min')", i="i14")
    yield rig
    rig.db.close()
    shared().drop_database(rig.url)


def comparable(status: InstanceStatus) -> InstanceStatus:
    """Return a status without the moment at which it was read."""
    running, at_once = status.running, status.next_round == status.now
    if running is not None:
        running = running.model_copy(update={"progress": running.progress.model_copy(update={"elapsed_ms": 0})})
    next_round = None if at_once else status.next_round
    return status.model_copy(update={"now": 0, "running": running, "next_round": next_round})


@pytest.mark.slow
def test_few_statements_read_any_number_of_instances(many: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    with recorded_statements() as sent:
        shown = run(many, capsys, "status", "--json")
    with recorded_statements() as sent_for_one:
        run(many, capsys, "status", "i01", "--json")

    assert len(json.loads(shown.out)["instances"]) == INSTANCES
    assert len(sent) <= MOST_STATEMENTS < INSTANCES
    assert len(sent_for_one) <= 2 * MOST_STATEMENTS  # with what blocks its topics and binlogs


@pytest.mark.slow
def test_each_instance_has_the_status_of_its_own(many: Rig) -> None:
    stores, policy = stores_of(many.db), many.policy
    whole = overview(many.db, stores.insight, policy, 3)
    alone = [overview(many.db, stores.insight, policy, 3, status.instance) for status in whole.instances]

    assert [comparable(status) for status in whole.instances] == [comparable(one.instances[0]) for one in alone]
    assert len({comparable(s).model_dump_json(exclude={"instance"}) for s in whole.instances}) == INSTANCES
    assert {one.slots_used for one in alone} == {whole.slots_used} == {3}


def test_the_status_of_many_equals_the_rows(many: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    shown = {i["instance"]: i for i in json.loads(run(many, capsys, "status", "--json").out)["instances"]}
    kinds = {name: {k["kind"]: k for k in i["kinds"]} for name, i in shown.items()}

    assert {name for name, i in shown.items() if i["halt"]} == {"i04", "i05"}
    assert {name for name, i in shown.items() if i["running"]} == {"i10", "i11", "i13", "i14"}
    assert {name for name, i in shown.items() if i["next_round_at"] is None} == {"i10", "i11", "i13", "i14"}
    assert (shown["i14"]["running"]["cut_off"], shown["i13"]["running"]["cut_off"]) == (True, False)
    assert (kinds["i06"]["dropped"]["due"], kinds["i07"]["dropped"]["due"]) == (8, 0)
    assert (kinds["i06"]["dropped"]["due_bytes"], kinds["i07"]["dropped"]["next_due_at"] > 0) == (80, True)
    assert kinds["i19"]["own00"]["note"].startswith("kept: no retention is set")
    assert len(kinds["i19"]) <= MOST_KINDS + 3
    assert (shown["i09"]["quarantined"], shown["i08"]["quarantined"]) == ({"UNKNOWN_VAULT": 1}, {})
    assert [(shown[n]["claimed"], shown[n]["late"]) for n in ("i15", "i17", "i19")] == [(0, 0), (1, 0), (1, 1)]
    assert [(shown[n]["holds"], shown[n]["protections"]) for n in ("i07", "i08")] == [(3, 1), (0, 2)]
    assert (shown["i07"]["last"]["removed"], shown["i07"]["last_ended_at"]) == (9, 2_002)
    assert (shown["i07"]["checked"]["lost"], shown["i07"]["checked"]["last"]) == (2, "PARTIAL")
    assert (shown["i07"]["approvals"][0]["marks"], shown["i07"]["caps"][0]["keys_per_second"]) == (7, 7)
    assert (shown["i08"]["approvals"], shown["i08"]["caps"], shown["i03"]["failures"]) == ([], [], 2)


FOUND_BY_DOCTOR = {
    Severity.LOST: "lost objects",
    Severity.FAULT: "last rounds",
    Severity.FAILED: "failed rounds",
    Severity.QUARANTINED: "quarantine",
    Severity.OVERDUE: "rounds",
    Severity.HALTED: "halted",
    Severity.APPROVAL: "approvals",
}


def test_status_blockers_and_doctor_agree_about_problems(
    rig: Rig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.runtime.temporal.waiting.PATIENCE_SECONDS", 0.0)
    add_problems(rig)

    status = json.loads(run(rig, capsys, "status", "--json").out)
    printed = run(rig, capsys, "status").out
    blockers = json.loads(run(rig, capsys, "blockers", "--json").out)["items"]
    findings = {finding.about: finding for finding in examine_work(service_of(rig.db))}
    of_one = {name: run(rig, capsys, "status", name).out.partition("\n")[0] for name in ("shop", "stopped", "paused")}

    assert status["sentence"] == (
        "12 things need an operator, the worst first: lost: LOST: 2 objects, confirmed. "
        "Way out: sexton check findings lost --type LOST"
    )
    assert printed.startswith(status["sentence"] + "\n0 of 16 slots")
    assert list(dict.fromkeys(row["instance"] for row in blockers)) == [name for name in PROBLEMS if name != "lost"]
    assert [row for row in blockers if not row["way_out"]] == []
    details = {severity: findings[about].detail for severity, about in FOUND_BY_DOCTOR.items()}
    ordinary = {name: severity for name, severity in PROBLEMS.items() if severity is not Severity.OBSERVES}
    assert {name: f"{name}: " in details[severity] for name, severity in ordinary.items()} == dict.fromkeys(
        ordinary, True
    )
    assert [text for text in details.values() if any(f"{name}: " in text for name in FINE)] == []
    assert of_one["shop"].startswith("All is well: the next round, of shop, is due at ")
    assert of_one["stopped"].startswith("Nothing is wrong, but 1 order blocks deletions: stopped: stop: ")
    assert of_one["paused"].endswith("Way out: sexton round resume paused")


def cut_off(rig: Rig, point: str, times: int = 1) -> None:
    """Run a round whose worker dies at a point."""
    with pytest.raises(Crash), installed(crash_at(point, times)):
        rig.round()


def test_late_marks_and_ignored_settings_are_in_each_list(
    worker: Rig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.runtime.temporal.waiting.PATIENCE_SECONDS", 0.0)
    worker.later(2 * DAY)
    WorkerStore(worker.db).report(WorkerPresence(worker="w", role="control"))
    worker.set_year_ahead("instance", "turn_at")
    report = RoundReport(round=1, instance="shop", state="SUCCEEDED").model_dump(mode="json")
    ended = {"started_at": worker.now(), "ended_at": worker.now(), "report": report}
    worker.insert("round", instance="shop", run_id="1", state="SUCCEEDED", **ended)
    SettingStore(worker.db).put("recycle.retention_seconds", "7")

    sentence = json.loads(run(worker, capsys, "status", "--json").out)["sentence"]
    blockers = json.loads(run(worker, capsys, "blockers", "--json").out)["items"]
    findings = {finding.about: finding.detail for finding in examine_work(service_of(worker.db))}
    notices = service_of(worker.db).problems()

    assert [row.held_by for row in notices] == ["ignored setting", "late"]
    assert sentence.startswith(f"2 things need an operator, the worst first: {notices[0]}")
    assert [row["held_by"] for row in blockers if row["held_by"] in ("ignored setting", "late")] == [
        row.held_by for row in notices
    ]
    assert str(notices[1]) in findings["rounds"]


def test_counts_move_with_each_page(worker: Rig) -> None:
    seen: list[tuple[str, int | None, int]] = []

    def watch(point: str) -> None:
        if point in ("claim.committed", "outcomes.recorded"):
            [kind] = round_progress(worker.db, MarkerStore(worker.db).last_round("shop")).kinds
            seen.append((point, kind.listed, kind.objects))
            assert (kind.kind, kind.due, kind.claimed, kind.planned) == ("dropped", 1, 1, 10)
            assert (kind.estimated, kind.expected) == (True, FILES)

    with installed(watch):
        worker.round()

    pages = [("outcomes.recorded", FILES, gone) for gone in (10, 20, 30)]
    assert seen == [("claim.committed", FILES, 0), *pages]


def test_each_shard_shows_how_far_it_is(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.recycle.planning.policy.SHARD_OBJECTS", 10)
    rig.mark("dropped", *(NewMark(id=f"m{n:02}", vault="disk", keys=(f"{n}.dat",)) for n in range(35)))
    rig.later(10_801)

    cut_off(rig, "claim.committed", 2)
    [kind] = round_progress(rig.db, MarkerStore(rig.db).last_round("shop")).kinds

    assert round_progress(rig.db, 2**40) == NOTHING
    assert [(s.due, s.claimed, s.finished) for s in kind.shards] == [
        (9, 9, True),
        (9, 9, False),
        (9, 0, False),
        (8, 0, False),
    ]


def test_commands_show_how_far_a_round_is(worker: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    cut_off(worker, "outcomes.recorded", 2)
    number = str(MarkerStore(worker.db).last_round("shop"))

    shown = run(worker, capsys, "round", "show", number).out
    status = run(worker, capsys, "status").out
    as_json = json.loads(run(worker, capsys, "round", "show", number, "--json").out)

    assert "20 of about 30 objects gone, about " in shown
    assert "is running since" in status
    assert ": 20 of about 30 objects gone, about " in status
    assert as_json["progress"]["kinds"][0]["objects"] == 20


def test_objects_are_a_guess_until_the_kind_was_listed(worker: Rig, tmp_path: Path) -> None:
    [first] = worker.plan().kinds
    worker.round()
    worker.mark("dropped", NewMark(id="q", vault="disk", prefix="u/"))
    worker.later(10_801)
    [second] = worker.plan().kinds

    assert (first.estimated, first.guessed, first.objects) == (True, True, 10)
    assert (second.estimated, second.guessed, second.objects) == (True, False, FILES)


def test_counts_of_the_round_say_more_than_its_plan() -> None:
    planned = KindCounts(kind="dropped", due=9, planned=90, estimated=True, guessed=True)
    half = KindCounts(kind="dropped", due=100, claimed=50, planned=1_000, estimated=True, listed=25_000, objects=20_000)

    assert planned.is_guess
    assert not planned.model_copy(update={"listed": 1}).is_guess
    assert half.expected == 50_000
    assert half.model_copy(update={"held": 50}).expected == 25_000
    assert half.model_copy(update={"kept": 40}).expected == 30_000


def test_a_round_shows_how_much_earlier_ones_left(worker: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    cut_off(worker, "outcomes.recorded")
    worker.later(61)  # its lease has ended
    order = adopt_order(worker)
    with pytest.raises(Crash), installed(crash_at("outcomes.recorded")):
        worker.recycler.adopt(order, 1, lambda: None)
    half = run(worker, capsys, "round", "show", str(order.round)).out
    worker.recycler.adopt(order, 2, lambda: None)
    [kind] = round_progress(worker.db, order.round).kinds
    [_, first] = json.loads(run(worker, capsys, "round", "list", "shop", "--json").out)["items"]
    shown = json.loads(run(worker, capsys, "round", "show", str(first["round"]), "--json").out)["round"]

    assert "10 of 20 objects gone, about " in half
    assert (kind.adopted, kind.objects, kind.expected) == (20, 20, 20)
    assert (first["state"], first["report"]["deleted"]) == ("FAILED", 10)  # its run ended without a report
    assert shown == first


def test_own_marks_of_a_round_come_on_top_of_those_it_adopts() -> None:
    adopting = KindCounts(kind="dropped", adopted=90, objects=30)
    planned = adopting.model_copy(update={"due": 9, "planned": 10, "objects": 90})
    listed = planned.model_copy(update={"estimated": True, "claimed": 3, "listed": 40, "objects": 100})

    assert [counts.expected for counts in (adopting, planned, listed)] == [90, 100, 210]
    assert RoundCounts(kinds=(adopting,), elapsed_ms=1_000).seconds_left == 2
