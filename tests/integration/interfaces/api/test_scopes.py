"""Each route admits exactly the scopes of its row in the table ``routes``, with two instances ``a`` and ``b``."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import Route as AppRoute

from sexton.operators.call_log import CallStore
from sexton.replication.binlog.model import LogRetention
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.routes import EVERYBODY, OPEN, PRINCIPALS, ROUTES, Route
from tests.integration.interfaces.api.two_instances import two_instances
from tests.servers.api import Api
from tests.support.rig import Rig


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rig, Api]]:
    with two_instances(tmp_path_factory.mktemp("two")) as served:
        yield served


@pytest.fixture
def rig(served: tuple[Rig, Api]) -> Rig:
    return served[0]


@pytest.fixture
def api(served: tuple[Rig, Api]) -> Api:
    return served[1]


def refusal(status: int) -> int | None:
    """Return 401 and 403, and what no cell of the table may be; None: the principal was admitted."""
    return status if status in (401, 403, 405, 500) else None


def expected(route: Route, principal: str | None) -> int | None:
    if principal in NOBODY:
        return 401
    return None if principal in route.admits else 403


NOBODY = (None, "revoked")


def is_quiet(route: Route) -> bool:
    """Return whether a route changes nothing, or is one that programs repeat: only a refusal leaves a row."""
    if route.operation is not None:
        return not route.operation.record.changes or route.operation.record.routine
    return route.method == "GET"


def test_the_table_of_scopes_has_every_route(app: FastAPI) -> None:
    documented = {(m.upper(), path) for path, methods in app.openapi()["paths"].items() for m in methods}
    undocumented = {
        (method, route.path)
        for route in app.routes
        if isinstance(route, AppRoute)
        for method in (route.methods or set()) - {"HEAD"}
    }

    assert {(r.method, r.template) for r in (*OPEN, *ROUTES)} == documented | undocumented


@pytest.mark.slow
def test_each_route_admits_and_logs_the_scopes_of_its_row(tmp_path: Path) -> None:
    """Each refusal is one row of the log of calls; what is admitted leaves a row unless its route is quiet."""
    wrong, wrong_rows = {}, {}
    with two_instances(tmp_path) as (rig, api), httpx.Client(base_url=api.url) as http:
        calls = CallStore(rig.db)
        tokens = {scope: api.token(scope) for scope in PRINCIPALS} | {"revoked": api.token("admin")}
        api.tokens.revoke(tokens["revoked"].split("_")[1], "ops")
        headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
        for route in (*OPEN, *ROUTES):
            before, admitted, refused = calls.newest(), dict[str, bool](), list[str]()
            for principal in PRINCIPALS[:1] if route in OPEN else (*NOBODY, *PRINCIPALS):
                sent = headers[principal] if principal else {}
                answer = http.request(route.method, route.path, json=route.body, headers=sent)
                wanted = None if route in OPEN else expected(route, principal)
                if refusal(answer.status_code) != wanted:
                    wrong[route.name, principal] = f"{answer.status_code} {answer.text[:200]}"
                elif wanted is None:
                    admitted[str(principal)] = answer.is_success
                elif wanted == 403:
                    refused.append(str(principal))
            rows = calls.rows(before, 1_000)
            scopes = [(row.who.partition("(")[2].rstrip(")"), row.outcome) for row in rows]
            forbidden = [scope for scope, outcome in scopes if outcome == "FORBIDDEN"]
            others = {scope for scope, outcome in scopes if outcome not in ("FORBIDDEN", "UNAUTHENTICATED")}
            quiet = {scope for scope, succeeded in admitted.items() if succeeded and is_quiet(route)}
            loud = set() if is_quiet(route) else set(admitted)
            if forbidden != refused or others & quiet or loud - others:
                wrong_rows[route.name] = scopes

    assert wrong == {}
    assert wrong_rows == {}


def test_no_route_about_a_admits_a_principal_of_b() -> None:
    about_a = [route for route in ROUTES if route.admits is not EVERYBODY and not route.is_own]

    assert {r.name for r in about_a for principal in r.admits if principal.endswith("@b")} == set()
    assert [r.template for r in ROUTES if r not in about_a] == ["/v1/openapi.json", "/v1/stop", "/v1/start"]


def test_a_token_of_one_instance_selects_it(ask: Ask) -> None:
    status = {scope: ask("GET", "/v1/status", scope=scope).json() for scope in ("read@b", "read")}
    checks = {scope: ask("GET", "/v1/checks", scope=scope).json()["items"] for scope in ("read@a", "read@b")}
    logs = {scope: ask("GET", "/v1/databases", scope=scope) for scope in ("owner@a", "owner@b", "read")}
    stories = ask("GET", "/v1/why?key=data/a.dat", scope="read@b")

    seen = {scope: [i["instance"] for i in answer["instances"]] for scope, answer in status.items()}
    assert seen == {"read@b": ["b"], "read": ["a", "b"]}
    assert {scope: len(found) for scope, found in checks.items()} == {"read@a": 1, "read@b": 0}
    assert {log["db"] for log in logs["owner@a"].json()["items"]} >= {"sales", "secret"}
    assert logs["owner@b"].json()["items"] == []
    assert logs["read"].status_code == 422  # a scope of every instance has to name one
    assert stories.json()["items"] == []


def test_a_refusal_does_not_tell_what_other_instances_have(ask: Ask) -> None:
    for path in ("/v1/status?instance={}", "/v1/databases?instance={}", "/v1/instances/{}/protections"):
        texts = {ask("GET", path.format(name), scope="operate@b").text for name in ("a", "unknown")}
        assert len(texts) == 1, texts
    for path in ("/v1/plans/{}", "/v1/checks/{}"):
        answers = {ask("GET", path.format(number), scope="read@b").status_code for number in (1, 999)}
        assert answers == {403}
    assert ask("GET", "/v1/plans/999", scope="read").status_code == 404
    assert ask("GET", "/v1/checks/999", scope="read").status_code == 404


def test_a_job_reads_only_logs_that_are_registered_for_it(ask: Ask) -> None:
    def read(db: str, consumer: str) -> int:
        return ask("GET", f"/v1/binlogs?db={db}&consumer={consumer}", scope="sync:copy@a").status_code

    def register(db: str, consumer: str, scope: str = "sync:copy@a") -> int:
        return ask("PUT", f"/v1/consumers/{consumer}?instance=a", {"db": db}, scope=scope).status_code

    before = read("sales", "copy"), read("sales", "copy:2"), read("secret", "copy"), register("secret", "copy")
    own = register("sales", "copy:2")
    by_owner, by_operator = register("secret", "copy", "owner@a"), register("secret", "copy", "operate@a")

    assert before == (200, 200, 403, 403)
    assert (own, by_owner, by_operator) == (200, 403, 200)
    assert (read("secret", "copy"), register("secret", "copy")) == (200, 200)


def register_copy(api: Api, db: str) -> None:
    """Switch a log of ``a`` on, which the job ``copy`` reads."""
    api.app.state.service.stores.binlogs.configs.put("a", db, "", LogRetention(ttl_seconds=60))
    api.app.state.service.stores.binlogs.consumers.register("a", "copy", db)


def test_a_job_loses_a_log_that_an_operator_removed(api: Api, ask: Ask) -> None:
    register_copy(api, "removed")

    def codes(consumer: str) -> list[int]:
        body = {"db": "removed", "commit_seq": 0}
        answers = [
            ask("GET", f"/v1/binlogs?db=removed&consumer={consumer}", scope="sync:copy@a"),
            ask("POST", f"/v1/consumers/{consumer}/acknowledge", body, scope="sync:copy@a"),
            ask("PUT", f"/v1/consumers/{consumer}", {"db": "removed"}, scope="sync:copy@a"),
        ]
        return [answer.status_code for answer in answers]

    ask("PUT", "/v1/consumers/copy:1", {"db": "removed"}, scope="sync:copy@a")
    before = codes("copy:1")
    ask("POST", "/v1/consumers/copy/remove", {"db": "removed"}, scope="operate@a")

    assert (before, codes("copy"), codes("copy:1")) == ([200] * 3, [403] * 3, [403] * 3)
    assert ask("POST", "/v1/consumers/copy:1/remove", {"db": "removed"}, scope="sync:copy@a").status_code == 204


def test_a_job_has_a_largest_number_of_runs_on_a_log(api: Api, ask: Ask) -> None:
    register_copy(api, "many")

    def register(consumer: str) -> int:
        return ask("PUT", f"/v1/consumers/{consumer}", {"db": "many"}, scope="sync:copy@a").status_code

    assert [register(f"copy:{n}") for n in range(11)] == [200] * 10 + [429]
    assert (register("copy:3"), register("copy")) == (200, 200)
    ask("POST", "/v1/consumers/copy:3/remove", {"db": "many"}, scope="sync:copy@a")
    assert register("copy:10") == 200


def test_a_node_follows_the_journal_under_its_own_name_only(rig: Rig, ask: Ask) -> None:
    paths = ("/v1/journal?follower={}&instance=a", "/v1/journal/snapshot?follower={}&instance=a")
    answers = {
        name: [ask("GET", path.format(name), scope="node:n7@a") for path in paths]
        for name in ("n7", "n1", "*", "%00", "n7%0A", "")
    }

    statuses = {name: [answer.status_code for answer in found] for name, found in answers.items()}
    refused = {"*": [422, 422], "%00": [422, 422], "n7%0A": [422, 422]}
    assert statuses == refused | {"n7": [200, 200], "n1": [403, 403], "": [403, 403]}
    assert "the node's own (node:n1)" in answers["n1"][0].json()["detail"]
    assert "follower" in answers["*"][0].json()["detail"]
    assert ask("GET", paths[0].format("*"), scope="admin").status_code == 422
    assert [row.name for row in rig.rows("journal_follower")] == ["n7"]


def test_a_setting_of_another_tenant_is_not_named(ask: Ask) -> None:
    key = "/v1/settings/recycle.retention_seconds"
    assert ask("PUT", f"{key}?instance=b", {"value": "604800"}).status_code == 200

    own = ask("DELETE", f"{key}?instance=a", scope="operate@a").json()
    every = ask("DELETE", f"{key}?instance=a").json()

    assert (own["elsewhere"], every["elsewhere"]) == ([], ["b"])
