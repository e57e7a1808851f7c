"""Each route admits exactly the scopes of its row in the table ``routes``, with two instances ``a`` and ``b``."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select
from starlette.routing import Route as AppRoute

from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.routes import EVERYBODY, OPEN, PRINCIPALS, ROUTES, Route
from tests.integration.interfaces.api.two_instances import fill_database, fill_stores
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(new_database()).instance("a").instance("b")
    yield rig
    rig.db.close()


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    root = tmp_path / "v"
    fill_database(rig, root)
    return root


@pytest.fixture
def api(rig: Rig, root: Path) -> Iterator[Api]:
    with Api(rig) as served:
        fill_stores(rig, served)
        yield served


def refusal(status: int) -> int | None:
    """Return 401 and 403, and what no cell of the table may be; None: the principal was admitted."""
    return status if status in (401, 403, 405, 500) else None


def expected(route: Route, principal: str | None) -> int | None:
    if principal is None:
        return 401
    return None if principal in route.admits else 403


def test_the_table_of_scopes_has_every_route(api: Api) -> None:
    served = {
        (method, path)
        for path, methods in api.app.openapi()["paths"].items()
        for method in (name.upper() for name in methods)
    }
    undocumented = {
        (method, route.path)
        for route in api.app.routes
        if isinstance(route, AppRoute)
        for method in (route.methods or set()) - {"HEAD"}
    }

    assert {(r.method, r.template) for r in (*OPEN, *ROUTES)} == served | undocumented


@pytest.mark.slow
def test_each_route_admits_exactly_the_scopes_of_its_row(api: Api) -> None:
    headers = {scope: {"Authorization": f"Bearer {api.token(scope)}"} for scope in PRINCIPALS}
    cells, wrong = 0, {}
    with httpx.Client(base_url=api.url, timeout=30) as http:
        for route in ROUTES:
            for principal in (None, *PRINCIPALS):
                sent = {} if principal is None else headers[principal]
                answer = http.request(route.method, route.path, json=route.body, headers=sent)
                cells += 1
                if refusal(answer.status_code) != expected(route, principal):
                    wrong[route.name, principal] = f"{answer.status_code} {answer.text[:200]}"

    assert wrong == {}
    assert cells == len(ROUTES) * (1 + len(PRINCIPALS))


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
    assert {scope: len(logs[scope].json()["items"]) for scope in ("owner@a", "owner@b")} == {"owner@a": 2, "owner@b": 0}
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


def test_a_job_loses_a_log_that_an_operator_removed(ask: Ask) -> None:
    def codes(consumer: str) -> list[int]:
        body = {"db": "sales", "commit_seq": 0}
        answers = [
            ask("GET", f"/v1/binlogs?db=sales&consumer={consumer}", scope="sync:copy@a"),
            ask("POST", f"/v1/consumers/{consumer}/acknowledge", body, scope="sync:copy@a"),
            ask("PUT", f"/v1/consumers/{consumer}", {"db": "sales"}, scope="sync:copy@a"),
        ]
        return [answer.status_code for answer in answers]

    ask("PUT", "/v1/consumers/copy:1", {"db": "sales"}, scope="sync:copy@a")
    before = codes("copy:1")
    ask("POST", "/v1/consumers/copy/remove", {"db": "sales"}, scope="operate@a")

    assert (before, codes("copy"), codes("copy:1")) == ([200] * 3, [403] * 3, [403] * 3)
    assert ask("POST", "/v1/consumers/copy:1/remove", {"db": "sales"}, scope="sync:copy@a").status_code == 204


def test_a_job_has_a_largest_number_of_runs_on_a_log(ask: Ask) -> None:
    def register(consumer: str) -> int:
        return ask("PUT", f"/v1/consumers/{consumer}", {"db": "sales"}, scope="sync:copy@a").status_code

    assert [register(f"copy:{n}") for n in range(11)] == [200] * 10 + [429]
    assert (register("copy:3"), register("copy")) == (200, 200)
    ask("POST", "/v1/consumers/copy:3/remove", {"db": "sales"}, scope="sync:copy@a")
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
    journal = rig.db.t.journal_follower
    with rig.db.read() as c:
        assert list(c.execute(select(journal.c.name)).scalars()) == ["n7"]


def test_a_setting_of_another_tenant_is_not_named(ask: Ask) -> None:
    key = "/v1/settings/recycle.retention_seconds"
    assert ask("PUT", f"{key}?instance=b", {"value": "604800"}).status_code == 200

    own = ask("DELETE", f"{key}?instance=a", scope="operate@a").json()
    every = ask("DELETE", f"{key}?instance=a").json()

    assert (own["elsewhere"], every["elsewhere"]) == ([], ["b"])
