"""The log of calls names who asked for what and how it ended, also of refusals, and no secret."""

from collections.abc import Iterator

import httpx
import pytest

from sexton.operators.call_log import CallRecord, CallStore
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.shared import rig
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.refusing import refuse_inserts
from tests.support.rig import Rig

__all__ = ["rig"]


@pytest.fixture(scope="module")
def api(rig: Rig) -> Iterator[Api]:
    with Api(rig) as served:
        yield served


CALLS = (
    ("operate@shop", "POST", "/v1/instances/shop/stop", {"reason": "a restore"}),
    ("sync:copy@shop", "POST", "/v1/instances/shop/start", None),
    ("admin", "POST", "/v1/instances/shop/protections/j/release", {"reason": "no more"}),
    ("operate@shop", "POST", "/v1/instances/shop/enable", None),
    ("admin", "POST", "/v1/instances/shop/stop", {"reason": 7}),
    ("admin", "PUT", "/v1/databases/sales/binlog?instance=none", {"ttl_seconds": 60}),
    ("admin", "GET", "/v1/status?instance=none", None),
    ("sync:copy@shop", "POST", "/v1/instances/shop/protections/copy/finish", None),
    ("node:n7@*", "POST", "/v1/nodes/n7/heartbeat", {"reports": []}),
    ("owner@shop", "PUT", "/v1/instances/shop/watermark", {"value": 5}),
    ("owner@shop", "PUT", "/v1/instances/shop/watermark", {"value": -1}),
    ("owner@shop", "PUT", "/v1/databases/sales/binlog?instance=shop", {"ttl_seconds": 60}),
)
"""Calls that are logged; and those that only read, or that programs repeat, which are not."""
LOGGED = (
    ("operate@shop", "stop", "shop", "", "ok", "a restore"),
    ("sync:copy@shop", "start", "shop", "", "FORBIDDEN", ""),
    ("admin", "protection release", "shop", "j", "NOT_FOUND", "no more"),
    ("operate@shop", "enable", "shop", "", "ok", ""),
    ("admin", "POST /v1/instances/{instance}/stop", "", "", "INVALID_REQUEST", ""),
    ("admin", "binlog set", "none", "sales: ttl 60, from 0", "UNKNOWN_INSTANCE", ""),
    ("sync:copy@shop", "protection finish", "shop", "copy", "NOT_FOUND", ""),
    ("owner@shop", "PUT /v1/instances/{instance}/watermark", "", "", "INVALID_REQUEST", ""),
    ("owner@shop", "binlog set", "shop", "sales: ttl 60, from 0", "ok", ""),
)
"""Scope, action, instance, subject, outcome and reason of each row."""


def test_changes_and_refusals_are_logged_with_their_result(ask: Ask, rig: Rig) -> None:
    for scope, method, path, body in CALLS:
        ask(method, path, body, scope=scope)

    calls = [c for c in reversed(CallStore(rig.db).last(100)) if c.source == "127.0.0.1"]
    scopes = [c.who.partition("(")[2].rstrip(")") for c in calls]
    rows = [(s, c.action, c.instance, c.subject, c.outcome, c.reason) for s, c in zip(scopes, calls, strict=True)]
    assert rows == [*LOGGED]


def test_a_refused_token_is_named_if_known_and_no_secret_logged(api: Api, rig: Rig) -> None:
    token = api.token("node:n7@shop")
    id_ = token.split("_")[1]
    api.tokens.revoke(id_, "ops")
    forged, secret = f"sxt_{id_}_{'x' * 43}", "sxt_0123456789ab_" + "x" * 43
    before = CallStore(rig.db).newest()
    with httpx.Client(base_url=api.url) as http:
        answers = [http.post("/v1/plans/7/apply"), http.get(f"/v1/{secret}/7")]
        headers = [{"Authorization": f"Bearer {text}"} for text in (token, forged, secret)]
        answers += [http.get("/v1/status", headers=given) for given in headers]

    assert {answer.status_code for answer in answers} == {401}
    rows = CallStore(rig.db).rows(before, 100)
    assert {(row.source, row.outcome) for row in rows} == {("127.0.0.1", "UNAUTHENTICATED")}
    assert [(row.who, row.action) for row in rows] == [
        ("unknown", "POST /v1/plans/*/apply"),
        ("unknown", "GET /v1/*/*"),
        (f"token {id_} (node:n7@shop)", "GET /v1/status"),
        ("unknown", "GET /v1/status"),
        ("unknown", "GET /v1/status"),
    ]


def test_a_call_that_cannot_be_logged_does_not_run() -> None:
    rig = Rig(new_database()).instance()
    with Api(rig) as api:
        headers = {"Authorization": f"Bearer {api.token('owner@shop')}"}
        refuse_inserts(rig.db, "call")

        refused = httpx.put(f"{api.url}/v1/databases/sales/binlog", json={"ttl_seconds": 60}, headers=headers)

    assert (refused.status_code, rig.count("binlog_log")) == (500, 0)
    rig.db.close()


def test_old_calls_are_deleted_by_the_next_round(rig: Rig) -> None:
    calls = CallStore(rig.db)
    for subject in ("long ago", "lately"):
        with calls.recorded(CallRecord(who="ada", source="cli@here", action="stop", subject=subject)):
            pass
        rig.later(300 * 86_400)

    rig.instance("lake").round("lake")

    assert [c.subject for c in calls.last(10) if c.source == "cli@here"] == ["lately"]
