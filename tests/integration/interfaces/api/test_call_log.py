"""Every route that changes something leaves a row in the log of calls, and so does every refusal; floods do not."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.repeats import MOST_REFUSED, MOST_ROUTINE
from sexton.operators.call_log.store import CallStore
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.routes import OPEN, ROUTES, Route
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig, put

READ_ONLY = {
    ("GET", "/healthz"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/v1/openapi.json"),
    ("GET", "/v1/status"),
    ("GET", "/v1/blockers"),
    ("GET", "/v1/why"),
    ("GET", "/v1/plans/{plan}"),
    ("GET", "/v1/instances"),
    ("GET", "/v1/pace"),
    ("GET", "/v1/instances/{instance}/rounds/{round}/events"),
    ("GET", "/v1/topics/{topic}/regions"),
    ("GET", "/v1/lists"),
    ("GET", "/v1/log"),
    ("GET", "/v1/settings"),
    ("GET", "/v1/settings/{key}/preview"),
    ("GET", "/v1/tokens"),
    ("GET", "/v1/users"),
    *(("GET", f"/v1/instances/{{instance}}/{name}") for name in ("vaults", "plans", "rounds", "holds", "marks")),
    ("GET", "/v1/instances/{instance}/rounds/{round}"),
    ("GET", "/v1/instances/{instance}/rounds/{round}/deletions"),
    ("GET", "/v1/checks"),
    ("GET", "/v1/checks/{check}"),
    ("GET", "/v1/instances/{instance}/findings"),
    ("POST", "/v1/instances/{instance}/inventory"),
    ("GET", "/v1/instances/{instance}/protections"),
    ("GET", "/v1/instances/{instance}/protections/{job}"),
    ("GET", "/v1/topics"),
    ("GET", "/v1/topics/{topic}"),
    ("GET", "/v1/databases"),
    ("GET", "/v1/binlogs"),
    ("GET", "/v1/consumers"),
    ("GET", "/v1/replicas"),
    ("GET", "/v1/replicas/{tablet}"),
    ("GET", "/v1/journal/snapshot"),
    ("GET", "/v1/journal/followers"),
    *(("GET", f"/v1/instances/{{instance}}/catalog/{name}") for name in ("show", "tablets", "rowsets")),
}
"""Routes that change nothing. All others must leave a row: ``GET /v1/journal`` only if it names a follower."""


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


def writes(route: Route) -> bool:
    if route.template == "/v1/journal":
        return "follower" in route.query
    return (route.method, route.template) not in READ_ONLY


@pytest.mark.slow
def test_every_route_that_writes_leaves_a_row(ask: Ask, rig: Rig) -> None:
    silent, loud = [], []
    for route in (*OPEN, *ROUTES):
        before = CallStore(rig.db).newest()
        answer = ask(route.method, route.path, route.body)
        row = CallStore(rig.db).rows(before, 9)
        # A purge or an apply is refused or fails here, because no Temporal runs; that is logged too.
        assert answer.status_code != 401 or route in OPEN, route.name
        if writes(route) and not row:
            silent.append(route.name)
        if not writes(route) and row and answer.status_code < 400:
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
        if [(row.outcome, row.times) for row in rows] != [("FORBIDDEN", 1)]:
            silent.append((route.name, answer.status_code, rows))

    assert silent == []


@pytest.mark.slow
def test_refusals_of_one_token_are_one_row_with_a_count(api: Api, rig: Rig) -> None:
    token = api.token("read@a")
    with httpx.Client(base_url=api.url, headers={"Authorization": f"Bearer {token}"}) as http:
        answers = {http.post("/v1/instances/a/stop", json={"reason": f"number {n}"}).status_code for n in range(30)}
        answers |= {http.get(f"/v1/instances/x{n}/findings").status_code for n in range(30)}
    stored = CallStore(rig.db).newest()
    api.app.state.service.stores.calls.store_counts(all_=True)

    assert answers == {403}
    assert stored == 2
    assert [(c.action, c.outcome, c.times) for c in calls(rig)] == [
        ("POST /v1/instances/*/stop", "FORBIDDEN", 30),
        ("GET /v1/instances/{instance}/findings", "FORBIDDEN", 30),
    ]


def test_the_log_names_a_revoked_token_that_is_sent_again(api: Api, rig: Rig) -> None:
    token = api.token("node:n7@a")
    id_ = token.split("_")[1]
    api.tokens.revoke(id_, "ops")
    forged = f"sxt_{id_}_{'x' * 43}"
    with httpx.Client(base_url=api.url) as http:
        answers = [http.get("/v1/status", headers={"Authorization": f"Bearer {t}"}) for t in (token, token, forged)]
    api.app.state.service.stores.calls.store_counts(all_=True)

    assert {answer.status_code for answer in answers} == {401}
    assert [(c.who, c.outcome, c.times) for c in calls(rig)] == [
        (f"token {id_} (node:n7@a)", "UNAUTHENTICATED", 2),
        ("unknown", "UNAUTHENTICATED", 1),
    ]


def test_an_address_without_a_token_is_one_row_with_a_count(api: Api, rig: Rig) -> None:
    secret = "sxt_0123456789ab_" + "x" * 43
    with httpx.Client(base_url=api.url) as http:
        answers = {http.post(f"/v1/plans/{n}/apply").status_code for n in range(20)}
        answers |= {http.get(f"/v1/{secret}/{n}").status_code for n in range(20)}
        answers |= {http.get("/v1/status", headers={"Authorization": f"Bearer {secret}"}).status_code}
    api.app.state.service.stores.calls.store_counts(all_=True)

    assert answers == {401}
    assert [(c.who, c.source, c.action, c.outcome, c.times) for c in calls(rig)] == [
        ("unknown", "127.0.0.1", "POST /v1/plans/*/apply", "UNAUTHENTICATED", 41)
    ]
    assert "x" * 43 not in str(CallStore(rig.db).rows(0, 9))


def test_invalid_writes_are_logged_though_no_route_ran(ask: Ask, rig: Rig) -> None:
    invalid = ask("POST", "/v1/instances/a/stop", {"reason": 7})
    unknown = ask("PUT", "/v1/databases/sales/binlog?instance=none", {"ttl_seconds": 60})
    ask("GET", "/v1/status?instance=none")

    assert (invalid.status_code, unknown.status_code) == (422, 404)
    assert [(c.action, c.outcome, c.times) for c in calls(rig)] == [
        ("POST /v1/instances/{instance}/stop", "INVALID_REQUEST", 1),
        ("PUT /v1/databases/{db}/binlog", "UNKNOWN_INSTANCE", 1),
    ]


def test_refused_requests_of_a_job_do_not_fill_the_log(api: Api, rig: Rig) -> None:
    token = api.token("sync:copy@a")
    with httpx.Client(base_url=api.url, headers={"Authorization": f"Bearer {token}"}) as http:
        answers = {http.post(f"/v1/instances/a/protections/copy:{n}/finish").status_code for n in range(30)}
    api.app.state.service.stores.calls.store_counts(all_=True)

    assert answers == {404}
    assert [(c.action, c.outcome, c.times) for c in calls(rig)] == [("finish", "NOT_FOUND", 30)]


def test_heartbeats_are_one_row_with_a_count(api: Api, rig: Rig) -> None:
    token = api.token("node:n7@*")
    with httpx.Client(base_url=api.url, headers={"Authorization": f"Bearer {token}"}) as http:
        answers = {http.post("/v1/nodes/n7/heartbeat", json={"reports": []}).status_code for _ in range(30)}
    api.app.state.service.stores.calls.store_counts(all_=True)

    assert answers == {200}
    assert [(c.action, c.subject, c.outcome, c.times) for c in calls(rig)] == [("wal heartbeat", "n7", "ok", 30)]


@pytest.mark.slow
def test_a_token_that_varies_its_calls_adds_few_rows(api: Api, rig: Rig) -> None:
    scope = "node:n7@a"
    long_name, body = "x" * 5_000, {"reports": []}
    with httpx.Client(base_url=api.url, headers={"Authorization": f"Bearer {api.token(scope)}"}) as http:
        http.request(long_name, "/v1/plans/1")
        for n in range(50):
            assert http.request(f"GET{n}", "/v1/plans/1").status_code == 403
        for n in range(80):
            answer = http.get("/v1/journal", params={"follower": f"n7{n}"})
            assert answer.status_code == 403
        assert http.post("/v1/nodes/n7/heartbeat", json=body).status_code == 200
    httpx.get(f"{api.url}/v1/status")
    api.app.state.service.stores.calls.store_counts(all_=True)

    logged = calls(rig)
    assert [(c.action, c.times) for c in logged if c.who != "unknown"][-2:] == [
        ("further calls", 121),
        ("wal heartbeat", 1),
    ]
    assert all(scope in c.who for c in logged[:-1])
    assert (logged[-1].who, logged[-1].outcome) == ("unknown", "UNAUTHENTICATED")
    assert len(logged) == MOST_REFUSED + 3
    assert len(logged[0].action) == 500


@pytest.mark.slow
def test_an_owner_that_repeats_a_call_adds_few_rows(api: Api, rig: Rig) -> None:
    url, headers = f"{api.url}/v1/instances/a/watermark", {"Authorization": f"Bearer {api.token('owner@a')}"}
    with httpx.Client(headers=headers) as http:
        answers = [http.put(url, json={"value": max(0, n - 100)}).status_code for n in range(200)]
        refused = http.put(url, json={"value": 0}).status_code
    api.app.state.service.stores.calls.store_counts(all_=True)

    logged = calls(rig)
    assert (set(answers), refused) == ({204}, 422)
    assert [(c.action, c.outcome, c.times) for c in logged[:2]] == [("watermark", "ok", 101), ("watermark", "ok", 1)]
    assert sum(c.times for c in logged if c.outcome == "ok") == 200
    assert sum(c.times for c in logged if c.outcome != "ok") == 1
    assert len(logged) == MOST_ROUTINE + 2


def test_an_owners_call_that_cannot_be_logged_does_not_run(api: Api, rig: Rig) -> None:
    url, headers = f"{api.url}/v1/instances/a/watermark", {"Authorization": f"Bearer {api.token('owner@a')}"}
    rig.sql("CREATE TABLE public.head AS SELECT * FROM {}call_head")
    rig.sql("DELETE FROM {}call_head")
    refused = httpx.put(url, json={"value": 5}, headers=headers).status_code
    rig.sql("INSERT INTO {}call_head SELECT * FROM public.head")
    done = httpx.put(url, json={"value": 4}, headers=headers).status_code

    assert refused == 503
    assert done == 204  # the watermark was not raised to 5
    assert [(c.action, c.subject, c.outcome, c.times) for c in calls(rig)] == [("watermark", "4", "ok", 1)]


def test_counts_are_stored_when_the_api_ends(rig: Rig, root: Path) -> None:
    with Api(rig) as api, httpx.Client(base_url=api.url) as http:
        for _ in range(5):
            http.get("/v1/status")

    assert [(c.outcome, c.times) for c in calls(rig)] == [("UNAUTHENTICATED", 5)]
    assert CallStore(rig.db).verify().fault is None
