"""Every route needs a valid token of a sufficient scope, except the public ones."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from sexton.operators.access import policy
from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.store import CallStore
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.routes import OPEN, ROUTES, Route
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.rig import Rig


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=api.url) as http:
        yield http


def send(http: httpx.Client, route: Route, authorization: str | None) -> httpx.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    return http.request(route.method, route.path, json=route.body, headers=headers)


@pytest.mark.slow
def test_a_call_without_a_valid_token_is_refused(http: httpx.Client, api: Api, rig: Rig) -> None:
    good = api.token("admin")
    id_, secret = policy.presented(f"Bearer {good}")
    other = policy.presented(f"Bearer {api.token('admin')}").secret
    api.tokens.revoke(policy.presented(f"Bearer {(revoked := api.token('admin'))}").id, "test")
    bad = [None, "", "Bearer", f"Basic {good}", f"Bearer {good}x", f"Bearer {good[:-1]}", f"Bearer {secret}"]
    bad += [
        f"Bearer {policy.token_text(id_, other)}",
        f"Bearer {policy.token_text('0' * 12, secret)}",
        f"Bearer {revoked}",
    ]
    # Each route meets a few of them, the first all.
    few = [None, f"Bearer {policy.token_text(id_, other)}", f"Bearer {revoked}"]
    answers = {(r.name, given): send(http, r, given) for r in ROUTES for given in (bad if r is ROUTES[0] else few)}
    rig.later(86_400)
    answers |= {(r.name, "expired"): send(http, r, f"Bearer {good}") for r in ROUTES}

    assert {asked for asked, a in answers.items() if a.status_code != 401} == set()
    assert {a.headers["content-type"] for a in answers.values()} == {"application/problem+json"}
    assert {a.json()["code"] for a in answers.values()} == {"UNAUTHENTICATED"}
    assert not [a for a in answers.values() if secret in a.text or other in a.text]


def test_health_needs_no_token_and_reveals_nothing(http: httpx.Client) -> None:
    answers = [http.get(path) for path in ("/healthz", "/livez", "/readyz")]
    assert [(a.status_code, a.json()) for a in answers] == [(200, {"status": "ok"})] * 3
    assert {http.get(path).status_code for path in ("/", "/docs", "/redoc", "/v1/openapi.json", "/v1/nothing")} == {401}


@pytest.mark.slow
def test_only_public_routes_answer_without_a_token(http: httpx.Client) -> None:
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    paths = [*(r.path for r in OPEN), "/livez/", "//livez", "/LIVEZ", "/livez/x", "/v1/status"]

    answered = {(m, path) for path in paths for m in methods if http.request(m, path).status_code != 401}

    assert answered == {(m, p) for m in methods for p in ("/healthz", "/livez", "/readyz")}


def test_changing_calls_are_logged_with_their_result(ask: Ask, rig: Rig) -> None:
    ask("POST", "/v1/instances/shop/stop", {"reason": "a restore"}, scope="operate@shop")
    ask("POST", "/v1/instances/shop/start", scope="sync:copy@shop")
    ask("POST", "/v1/instances/shop/protections/j/release", {"reason": "no more"})
    ask("POST", "/v1/instances/shop/enable", scope="operate@shop")

    found = CallStore(rig.db).last(10)

    told = [(c.action, c.instance, c.subject, c.outcome, c.reason) for c in reversed(found)]
    assert told == [
        ("stop", "shop", "", "ok", "a restore"),
        ("start", "shop", "", "FORBIDDEN", ""),
        ("protection release", "shop", "j", "NOT_FOUND", "no more"),
        ("enable", "shop", "", "ok", ""),
    ]
    assert {c.source for c in found} == {"127.0.0.1"}
    assert [c.who.partition(" ")[2].split(" ")[1] for c in reversed(found)] == [
        "(operate@shop)",
        "(sync:copy@shop)",
        "(admin)",
        "(operate@shop)",
    ]


def test_old_calls_are_deleted_by_the_next_round(rig: Rig) -> None:
    calls = CallStore(rig.db)
    for subject in ("long ago", "lately"):
        with calls.recorded(CallRecord(who="ada", source="cli@here", action="stop", subject=subject)):
            pass
        rig.later(300 * 86_400)

    rig.round()

    assert [c.subject for c in calls.last(10) if c.source == "cli@here"] == ["lately"]


def test_request_stores_when_its_token_was_used(http: httpx.Client, api: Api, rig: Rig) -> None:
    text = api.token("read")
    unused = [token.last_used_at for token in api.tokens.all()]
    for _ in range(2):  # the second is answered on the same connection, after the first use is stored
        http.get("/v1/status", headers={"Authorization": f"Bearer {text}"})
    used = [token.last_used_at for token in api.tokens.all()]

    assert unused == [None]
    assert used[0] is not None


def test_a_refusal_reaches_a_client_that_is_still_sending(api: Api) -> None:
    head = b"POST /v1/stop HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    for length in (64 << 10, 1 << 20):
        with socket.create_connection(api.address, timeout=20) as client:
            client.sendall(head % length)
            answered = client.recv(4_096)
            assert answered.startswith(b"HTTP/1.1 401 ")
            client.sendall(b" " * length + head % 0)
            received = b""  # head and body of an answer may come apart
            while b"HTTP/1.1 401 " not in received:
                piece = client.recv(4_096)
                assert piece, "the connection was closed"
                received += piece


def test_b26_wrong_expired_and_foreign_tokens_are_denied(api: Api, rig: Rig) -> None:
    def status(url: str, token: str) -> tuple[int, str]:
        answer = httpx.get(f"{url}/v1/journal?instance=shop", headers={"Authorization": f"Bearer {token}"}, timeout=60)
        return answer.status_code, answer.json().get("code", "")

    theirs = Rig(new_database()).instance()
    with Api(theirs) as other:
        foreign = other.token("operate@*")
        at_home = status(other.url, foreign)
    theirs.db.close()
    own, denied = api.token("operate@*"), (401, "UNAUTHENTICATED")

    assert at_home == (200, "")
    assert status(api.url, foreign) == denied
    assert status(api.url, own[:-1] + ("a" if own[-1] != "a" else "b")) == denied
    assert status(api.url, own) == (200, "")
    rig.later(86_401)
    assert status(api.url, own) == denied
