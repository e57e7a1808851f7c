"""Operators' routes: each answer is compared with the database, and each change can be repeated."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.operators.call_log import CallStore
from sexton.operators.controls.model import ControlKind
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


def quarantine(rig: Rig, reason: str, *ids: str) -> None:
    for id_ in ids:
        rig.mark("dropped", NewMark(id=id_, vault="disk", keys=(f"data/{id_}.dat",)))
        rig.update("mark", {"id": id_}, quarantined_reason=reason)


def reasons(rig: Rig) -> dict[str, str | None]:
    return {row.id: row.quarantined_reason for row in rig.rows("mark") if row.id.startswith("q")}


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


REFUSED = (
    ("POST", "/v1/holds/999/release", None, 404, "UNKNOWN_HOLD"),
    ("GET", "/v1/rounds/999", None, 404, "UNKNOWN_ROUND"),
    ("GET", "/v1/plans/999", None, 404, "UNKNOWN_PLAN"),
    ("GET", "/v1/checks/999", None, 404, "UNKNOWN_CHECK"),
    ("PUT", f"{I}/vaults/nope/cap", {"rate": 1}, 404, "UNKNOWN_VAULT"),
    ("GET", "/v1/instances/nope/marks", None, 404, "UNKNOWN_INSTANCE"),
    ("POST", f"{I}/rounds/running/explode", None, 404, "HTTP_404"),
    ("POST", f"{I}/holds", {"seconds": 60, "prefix": "nope/data/", **WHY}, 422, "BAD_INPUT"),
    ("PUT", f"{I}/vaults/disk/cap", {"rate": 0}, 422, "INVALID_REQUEST"),
    ("GET", f"{I}/marks?state=CLAIMED&parent=table/1", None, 422, "BAD_INPUT"),
    ("POST", f"{I}/quarantine/retry", {"mark": "dropped/q3"}, 409, "UNCONFIRMED"),
    ("POST", f"{I}/quarantine/retry", {"mark": "dropped/a"}, 409, "NOT_QUARANTINED"),
    ("POST", f"{I}/quarantine/retry", {"cause": "BAD_LUCK"}, 422, "INVALID_REQUEST"),
    ("POST", f"{I}/rounds", None, 503, "TEMPORAL_AWAY"),
    ("POST", f"{I}/rounds/running/pause", None, 503, "TEMPORAL_AWAY"),
)
"""Method, path and body, and the status and the code of the refusal."""


def test_refusals_of_operations_have_their_code(ask: Ask, rig: Rig, subtests: pytest.Subtests) -> None:
    quarantine(rig, "CHANGED", "q3")
    for method, path, body, status, code in REFUSED:
        with subtests.test(path=path, code=code):
            answer = ask(method, path, body)

            assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert reasons(rig) == {"q3": "CHANGED"}
    assert {row.outcome for row in CallStore(rig.db).last(2)} == {"TEMPORAL_AWAY"}


def test_a_plan_is_applied_only_to_an_enabled_instance(ask: Ask, rig: Rig) -> None:
    number = ask("POST", f"{I}/plans").json()["plan"]["plan"]
    shown = ask("GET", f"/v1/plans/{number}", scope="read").json()
    away = ask("POST", f"/v1/plans/{number}/apply")
    observed = ask("POST", f"{I}/observe").json()["mode"]
    observes = ask("POST", f"/v1/plans/{number}/apply")
    ask("POST", f"{I}/enable", WHY)

    assert ([k["kind"] for k in shown["plan"]["kinds"]], shown["row"]["state"]) == (["dropped"], "PLANNED")
    assert (away.status_code, away.json()["code"]) == (503, "TEMPORAL_AWAY")
    assert (observed, observes.status_code, observes.json()["code"]) == ("observe", 409, "NOT_ENABLED")
    assert rig.registry.instance("shop").mode == "enabled"


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
