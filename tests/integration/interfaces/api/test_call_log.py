"""Every route that changes something leaves a row in the log of calls, and so does every refusal."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.store import CallStore
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.routes import OPEN, ROUTES, Route
from tests.integration.interfaces.api.two_instances import Away
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.refusing import refuse_inserts
from tests.support.rig import Rig, put


def is_quiet(route: Route) -> bool:
    """Return whether a route changes nothing, or is one that programs repeat: only a refusal leaves a row."""
    if route.operation is not None:
        return not route.operation.record.changes or route.operation.record.routine
    return route.method == "GET"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(new_database()).instance("a")
    yield rig
    rig.db.close()


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    root = rig.local(tmp_path / "v", instance="a")
    put(root, "data/a.dat")
    return root


def calls(rig: Rig) -> list[CallRecord]:
    return list(reversed(CallStore(rig.db).last(100)))


@pytest.mark.slow
def test_every_route_that_writes_leaves_a_row(api: Api, ask: Ask, rig: Rig) -> None:
    api.app.state.service.__dict__["starter"] = Away()
    silent, loud = [], []
    for route in (*OPEN, *ROUTES):
        before = CallStore(rig.db).newest()
        answer = ask(route.method, route.path, route.body)
        row = CallStore(rig.db).rows(before, 9)
        # A purge or an apply is refused or fails here, because no Temporal runs; that is logged too.
        assert answer.status_code != 401 or route in OPEN, route.name
        if not is_quiet(route) and not row:
            silent.append(route.name)
        if is_quiet(route) and row and answer.status_code < 400:
            loud.append(route.name)

    assert silent == []
    assert loud == []


@pytest.mark.slow
def test_every_route_that_refuses_a_token_leaves_a_row(api: Api, rig: Rig) -> None:
    silent = []
    for route in ROUTES:
        if not route.admits or route.template == "/v1/openapi.json":
            continue
        token = api.token("sync:other@a" if "sync:other@a" not in route.admits else "node:n1@a")
        before = CallStore(rig.db).newest()
        answer = httpx.request(
            route.method, api.url + route.path, json=route.body, headers={"Authorization": f"Bearer {token}"}
        )
        rows = CallStore(rig.db).rows(before, 9)
        if [row.outcome for row in rows] != ["FORBIDDEN"]:
            silent.append((route.name, answer.status_code, rows))

    assert silent == []


def test_the_log_names_a_revoked_token_that_is_sent_again(api: Api, rig: Rig) -> None:
    token = api.token("node:n7@a")
    id_ = token.split("_")[1]
    api.tokens.revoke(id_, "ops")
    forged = f"sxt_{id_}_{'x' * 43}"
    with httpx.Client(base_url=api.url) as http:
        answers = [http.get("/v1/status", headers={"Authorization": f"Bearer {t}"}) for t in (token, token, forged)]

    assert {answer.status_code for answer in answers} == {401}
    assert [(c.who, c.outcome) for c in calls(rig)] == [
        (f"token {id_} (node:n7@a)", "UNAUTHENTICATED"),
        (f"token {id_} (node:n7@a)", "UNAUTHENTICATED"),
        ("unknown", "UNAUTHENTICATED"),
    ]


def test_a_request_without_a_token_is_logged_without_its_secret(api: Api, rig: Rig) -> None:
    secret = "sxt_0123456789ab_" + "x" * 43
    with httpx.Client(base_url=api.url) as http:
        answers = {http.post("/v1/plans/7/apply").status_code}
        answers |= {http.get(f"/v1/{secret}/7").status_code}
        answers |= {http.get("/v1/status", headers={"Authorization": f"Bearer {secret}"}).status_code}

    assert answers == {401}
    assert [(c.who, c.source, c.action, c.outcome) for c in calls(rig)] == [
        ("unknown", "127.0.0.1", "POST /v1/plans/*/apply", "UNAUTHENTICATED"),
        ("unknown", "127.0.0.1", "GET /v1/*/*", "UNAUTHENTICATED"),
        ("unknown", "127.0.0.1", "GET /v1/status", "UNAUTHENTICATED"),
    ]


def test_invalid_writes_are_logged_though_no_route_ran(ask: Ask, rig: Rig) -> None:
    invalid = ask("POST", "/v1/instances/a/stop", {"reason": 7})
    unknown = ask("PUT", "/v1/databases/sales/binlog?instance=none", {"ttl_seconds": 60})
    ask("GET", "/v1/status?instance=none")

    assert (invalid.status_code, unknown.status_code) == (422, 404)
    assert [(c.action, c.outcome) for c in calls(rig)] == [
        ("POST /v1/instances/{instance}/stop", "INVALID_REQUEST"),
        ("binlog set", "UNKNOWN_INSTANCE"),
    ]


def test_calls_of_jobs_nodes_and_owners_are_logged(api: Api, rig: Rig) -> None:
    with httpx.Client(base_url=api.url) as http:
        for scope, method, path, body in (
            ("sync:copy@a", "POST", "/v1/instances/a/protections/copy/finish", None),
            ("node:n7@*", "POST", "/v1/nodes/n7/heartbeat", {"reports": []}),
            ("owner@a", "PUT", "/v1/instances/a/watermark", {"value": 5}),
            ("owner@a", "PUT", "/v1/instances/a/watermark", {"value": -1}),
            ("owner@a", "PUT", "/v1/databases/sales/binlog?instance=a", {"ttl_seconds": 60}),
        ):
            http.request(method, path, json=body, headers={"Authorization": f"Bearer {api.token(scope)}"})

    assert [(c.action, c.outcome) for c in calls(rig)] == [
        ("protection finish", "NOT_FOUND"),
        ("PUT /v1/instances/{instance}/watermark", "INVALID_REQUEST"),
        ("binlog set", "ok"),
    ]


def test_a_call_that_cannot_be_logged_does_not_run(api: Api, rig: Rig) -> None:
    url, headers = f"{api.url}/v1/databases/sales/binlog", {"Authorization": f"Bearer {api.token('owner@a')}"}
    refuse_inserts(rig.db, "call")

    refused = httpx.put(url, params={"instance": "a"}, json={"ttl_seconds": 60}, headers=headers).status_code

    assert (refused, rig.count("binlog_log")) == (500, 0)
