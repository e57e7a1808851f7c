"""Operators' routes: each answer is compared with the database, and each change can be repeated."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.operators.call_log.store import CallStore
from sexton.operators.controls.model import ControlKind
from sexton.recycle.planning.sql.plans import PlanStore
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.shared import api, rig, root
from tests.support.rig import Rig, put

__all__ = ["api", "rig", "root"]

I = "/v1/instances/shop"  # noqa: E741
WHY = {"reason": "the test"}


def test_a_hold_is_placed_listed_and_released(ask: Ask, rig: Rig) -> None:
    first, second = (ask("POST", f"{I}/holds", {"table": f"t{n}", "seconds": 60, **WHY}) for n in "12")
    pages = [ask("GET", f"{I}/holds?limit=1").json()]
    pages.append(ask("GET", f"{I}/holds?limit=1&after={pages[0]['next']}").json())
    number = first.json()["hold"]["hold"]
    released = [ask("POST", f"/v1/holds/{number}/release") for _ in range(2)]
    active, every = (ask("GET", f"{I}/holds?ended={ended}").json()["items"] for ended in ("false", "true"))

    assert (first.status_code, first.json()["blocks_now"], first.json()["too_late"]) == (200, 0, 0)
    assert first.json()["hold"]["placed_by"].startswith("token")
    numbers = [number, second.json()["hold"]["hold"]]
    assert [h["hold"] for page in pages for h in page["items"]] == numbers[::-1]
    assert pages[1]["next"] == ""
    assert {answer.json()["released_at"] for answer in released} == {released[0].json()["released_at"]}
    assert ([h["hold"] for h in active], [h["hold"] for h in every]) == (numbers[1:], numbers[::-1])
    assert [hold.id for hold in rig.holds.active("shop")] == numbers[1:]


def test_a_hold_that_blocks_nothing_is_refused(ask: Ask, subtests: pytest.Subtests) -> None:
    for body, says in [
        ({"seconds": 0}, "lasts"),
        ({"seconds": 60, "table": "1", "mark": "dropped/t1"}, "hold one thing"),
        ({"seconds": 60, "mark": "table"}, "mark"),
        ({"seconds": 60, "prefix": "disk"}, "names no prefix"),
        ({"seconds": 60, "prefix": "nope/data/"}, "has no vault nope"),
    ]:
        with subtests.test(says=says):
            answer = ask("POST", f"{I}/holds", body | WHY)

            assert (answer.status_code, says in answer.text) == (422, True), answer.text


def test_what_is_absent_is_not_found(ask: Ask, rig: Rig) -> None:
    rig.instance("other")
    elsewhere = ask("POST", "/v1/instances/other/holds", {"seconds": 60, **WHY}).json()["hold"]

    answers = {
        path: ask(method, path, body).status_code
        for method, path, body in (
            ("POST", "/v1/holds/999/release", None),
            ("GET", "/v1/rounds/999", None),
            ("GET", "/v1/plans/999", None),
            ("POST", "/v1/instances/none/stop", WHY),
            ("POST", "/v1/plans/999/reject", WHY),
            ("PUT", f"{I}/vaults/nope/cap", {"rate": 1}),
            ("GET", "/v1/instances/nope/marks", None),
            ("POST", "/v1/instances/nope/enable", None),
        )
    }

    assert set(answers.values()) == {404}, answers
    assert [hold.id for hold in rig.holds.active("other")] == [elsewhere["hold"]]


def test_marks_are_listed_page_by_page(ask: Ask, rig: Rig) -> None:
    with rig.db.read() as c:
        stored = {(row.kind, row.id) for row in c.execute(rig.db.t.mark.select()) if row.instance == "shop"}
    seen, after = [], ""
    while True:
        page = ask("GET", f"{I}/marks?limit=2", params={"limit": 2, "after": after}).json()
        seen += [(mark["kind"], mark["mark"]) for mark in page["items"]]
        after = page["next"]
        if not after:
            break

    assert len(seen) > 2
    assert (len(seen), set(seen)) == (len(stored), stored)
    assert ask("GET", f"{I}/marks?state=CLAIMED").json()["items"] == []
    assert ask("GET", f"{I}/marks?state=CLAIMED&parent=table/1").status_code == 422


def quarantine(rig: Rig, reason: str, *ids: str) -> None:
    marks = [NewMark(id=id_, vault="disk", keys=(f"data/{id_}.dat",)) for id_ in ids]
    rig.mark("dropped", *marks)
    mark = rig.db.t.mark
    with rig.db.write() as c:
        c.execute(mark.update().where(mark.c.id.in_(ids)).values(quarantined_reason=reason))


def reasons(rig: Rig) -> dict[str, str | None]:
    with rig.db.read() as c:
        rows = c.execute(rig.db.t.mark.select()).all()
    return {row.id: row.quarantined_reason for row in rows if row.id.startswith("q")}


@pytest.mark.slow
def test_quarantined_marks_are_retried_and_discarded(ask: Ask, rig: Rig) -> None:
    quarantine(rig, "DELETE_FAILED", "q1", "q2")
    quarantine(rig, "CHANGED", "q3")
    listed = ask("GET", f"{I}/marks?state=QUARANTINED").json()["items"]

    everything = ask("POST", f"{I}/quarantine/retry", {"everything": True}).json()
    unconfirmed = ask("POST", f"{I}/quarantine/retry", {"mark": "dropped/q3"})
    after_refusal = reasons(rig)
    confirmed = ask("POST", f"{I}/quarantine/retry", {"mark": "dropped/q3", "deletes_current": True}).json()
    again = ask("POST", f"{I}/quarantine/retry", {"mark": "dropped/q3", "deletes_current": True})

    assert [(mark["mark"], mark["quarantined"]) for mark in listed] == [
        ("q1", "DELETE_FAILED"),
        ("q2", "DELETE_FAILED"),
        ("q3", "CHANGED"),
    ]
    assert (everything, confirmed) == ({"marks": 2, "left": 1}, {"marks": 1, "left": 0})
    assert (unconfirmed.status_code, unconfirmed.json()["code"]) == (409, "UNCONFIRMED")
    assert after_refusal == {"q1": None, "q2": None, "q3": "CHANGED"}
    assert (again.status_code, again.json()["code"]) == (409, "NOT_QUARANTINED")

    quarantine(rig, "BAD_KEY", "q4")
    discarded = ask("POST", f"{I}/quarantine/discard", {"mark": "dropped/q4", **WHY})
    assert (discarded.status_code, "q4" in reasons(rig)) == (200, False)
    assert ask("POST", f"{I}/quarantine/discard", {"mark": "dropped/q4", **WHY}).status_code == 409
    assert ask("POST", f"{I}/quarantine/retry", {"mark": "dropped/q1", "everything": True}).status_code == 422
    assert ask("POST", f"{I}/quarantine/retry", {"cause": "BAD_LUCK"}).status_code == 422


def test_a_round_is_not_started_or_signalled_without_temporal(ask: Ask, rig: Rig) -> None:
    answers = [ask("POST", f"{I}/rounds"), ask("POST", f"{I}/rounds/running/pause")]

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(503, "TEMPORAL_AWAY")] * 2
    assert {row.outcome for row in CallStore(rig.db).last(2)} == {"TEMPORAL_AWAY"}
    assert ask("POST", f"{I}/rounds/running/explode").status_code == 404


def test_rounds_are_listed_and_shown(ask: Ask, rig: Rig, root: Path) -> None:
    put(rig.instance("rounds").local(root.with_name("rounds"), instance="rounds"), "a.dat")
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)), instance="rounds")
    rig.later(10_801)
    reports = [rig.round("rounds") for _ in range(3)]

    newest = ask("GET", "/v1/instances/rounds/rounds?limit=2").json()
    oldest = ask("GET", "/v1/instances/rounds/rounds", params={"limit": 2, "after": newest["next"]}).json()
    shown = ask("GET", f"/v1/rounds/{reports[0].round}").json()

    numbers = [row["round"] for row in (*newest["items"], *oldest["items"])]
    assert numbers == [report.round for report in reversed(reports)]
    assert (shown["round"]["report"]["deleted"], shown["progress"]) == (reports[0].deleted, None)
    assert (reports[0].deleted, oldest["next"]) == (1, "")


def test_plans_are_listed_and_one_that_waits_is_rejected(ask: Ask, rig: Rig) -> None:
    numbers = [ask("POST", f"{I}/plans").json()["plan"]["plan"] for _ in range(2)]
    plan = rig.db.t.plan
    with rig.db.write() as c:
        c.execute(plan.update().where(plan.c.id == numbers[0]).values(awaits="it exceeds a limit", expires_at=10**13))

    newest = ask("GET", f"{I}/plans?limit=1").json()
    rejected = ask("POST", f"/v1/plans/{numbers[0]}/reject", WHY)
    again = ask("POST", f"/v1/plans/{numbers[0]}/reject", WHY)
    shown = ask("GET", f"/v1/plans/{numbers[1]}", scope="read").json()
    away = ask("POST", f"/v1/plans/{numbers[1]}/apply")
    rig.registry.observe("shop")
    observes = ask("POST", f"/v1/plans/{numbers[1]}/apply")
    rig.registry.enable("shop")

    assert ([k["kind"] for k in shown["plan"]["kinds"]], shown["row"]["state"]) == (["dropped"], "PLANNED")
    assert (away.status_code, away.json()["code"]) == (503, "TEMPORAL_AWAY")
    assert (observes.status_code, observes.json()["code"]) == (409, "NOT_ENABLED")
    assert [row["plan"] for row in newest["items"]] == numbers[::-1]
    assert newest["next"] == str(numbers[1])
    assert (rejected.status_code, rejected.json()["state"]) == (200, "REJECTED")
    assert PlanStore(rig.db).approvals.state(numbers[0]) == "REJECTED"
    assert (again.status_code, again.json()["code"]) == (409, "PLAN_REFUSED")


def test_instances_are_enabled_and_observe(ask: Ask, rig: Rig) -> None:
    def mode() -> str:
        [shown] = [row for row in ask("GET", "/v1/instances").json()["items"] if row["instance"] == "shop"]
        assert shown["mode"] == rig.registry.instance("shop").mode
        return str(shown["mode"])

    observes = [ask("POST", f"{I}/observe").status_code for _ in range(2)]
    before = mode()
    enables = [ask("POST", f"{I}/enable", WHY).status_code for _ in range(2)]

    assert (observes, before, enables, mode()) == ([200, 200], "observe", [200, 200], "enabled")
    assert {row.reason for row in CallStore(rig.db).last(2)} == {"the test"}


def test_a_vault_is_capped_proved_and_uncapped(ask: Ask, rig: Rig) -> None:
    capped = [ask("PUT", f"{I}/vaults/disk/cap", {"rate": 500, **WHY}).status_code for _ in range(2)]
    [proved] = ask("GET", f"{I}/vaults").json()["items"]
    cleared = [ask("DELETE", f"{I}/vaults/disk/cap").status_code for _ in range(2)]
    [unproved] = ask("GET", f"{I}/vaults?prove=false").json()["items"]

    assert (capped, cleared) == ([200, 200], [200, 200])
    assert (proved["vault"], proved["keys_per_second"], proved["proof"]) == ("disk", 500, "ours")
    assert (unproved["keys_per_second"], unproved["proof"]) == (None, "")
    assert ask("PUT", f"{I}/vaults/disk/cap", {"rate": 0}).status_code == 422


def test_lists_change_and_only_a_scope_of_all_may_block_others(ask: Ask, rig: Rig) -> None:
    rig.instance("other")
    added = ask("POST", "/v1/lists/blacklist/add", {"name": "shop", **WHY}, scope="operate@shop")
    listed = ask("GET", "/v1/lists").json()["items"]
    removed = [ask("POST", "/v1/lists/blacklist/remove", {"name": "shop"}, scope="operate@shop") for _ in range(2)]
    refused = {
        (name, entry): ask("POST", f"/v1/lists/{name}/add", {"name": entry}, scope="operate@shop").status_code
        for name, entry in (
            ("blacklist", "other"),
            ("whitelist", "shop"),
            ("vaults", "shop/disk"),
            ("windows", "mon-fri 22:00-06:00 UTC"),
        )
    }

    assert (added.status_code, added.json()["listed"]) == (200, True)
    assert [(c["list"], c["name"], c["reason"]) for c in listed] == [("blacklist", "shop", "the test")]
    assert [(answer.status_code, answer.json()["listed"]) for answer in removed] == [(200, False)] * 2
    assert set(refused.values()) == {403}, refused
    assert [c for c in rig.controls.all() if c.kind is not ControlKind.STOP] == []
    assert ask("POST", "/v1/lists/windows/add", {"name": "now"}).status_code == 422
    assert ask("POST", "/v1/lists/unknown/add", {"name": "shop"}).status_code == 422


def test_the_log_of_calls_is_read_page_by_page(ask: Ask, rig: Rig) -> None:
    rig.instance("own").instance("foreign")
    for name in ("own", "foreign", "own"):
        ask("POST", f"/v1/instances/{name}/stop", WHY)
    first = ask("GET", "/v1/log?instance=own&limit=1").json()
    second = ask("GET", "/v1/log", params={"instance": "own", "limit": 1, "after": first["next"]}).json()
    own = ask("GET", "/v1/log", scope="read@foreign").json()["items"]

    assert [(c["action"], c["instance"]) for c in (*first["items"], *second["items"])] == [("stop", "own")] * 2
    assert second["items"][0]["call"] < first["items"][0]["call"]
    assert {c["instance"] for c in own} == {"foreign"}
