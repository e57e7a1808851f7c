"""Every route needs a valid token of a sufficient scope, except the public ones."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from sexton.operators.access import policy
from sexton.operators.access.store import TokenStore
from tests.integration.interfaces.api.routes import OPEN
from tests.integration.interfaces.api.shared import api, rig, root
from tests.servers.api import Api
from tests.servers.postgres import new_database
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig

__all__ = ["api", "rig", "root"]


@pytest.fixture
def http(api: Api) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=api.url) as http:
        yield http


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


def test_request_stores_when_its_token_was_used(http: httpx.Client, api: Api) -> None:
    def used_at(text: str) -> list[int | None]:
        return [token.last_used_at for token in api.tokens.all() if token.id == policy.presented(f"Bearer {text}").id]

    text = api.token("read")
    unused = used_at(text)
    for _ in range(2):  # the second is answered on the same connection, after the first use is stored
        http.get("/v1/status", headers={"Authorization": f"Bearer {text}"})

    assert unused == [None]
    assert used_at(text) not in ([], [None])


def test_a_refusal_reaches_a_client_that_is_still_sending(api: Api) -> None:
    head = b"POST /v1/stop HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    for length in (64 << 10, 1 << 20):
        with socket.create_connection(api.address, timeout=PATIENCE_SECONDS) as client:
            client.sendall(head % length)
            answered = client.recv(4_096)
            assert answered.startswith(b"HTTP/1.1 401 ")
            client.sendall(b" " * length + head % 0)
            received = b""  # head and body of an answer may come apart
            while b"HTTP/1.1 401 " not in received:
                piece = client.recv(4_096)
                assert piece, "the connection was closed"
                received += piece


def test_b26_wrong_expired_and_foreign_tokens_are_denied(http: httpx.Client, api: Api, rig: Rig) -> None:
    def send(authorization: str | None) -> list[httpx.Response]:
        headers = {} if authorization is None else {"Authorization": authorization}
        stop = http.post("/v1/stop", json={"reason": "x", "everything": True}, headers=headers)
        return [http.get("/v1/journal?instance=shop", headers=headers), stop]

    theirs = Rig(new_database())
    foreign = TokenStore(theirs.db).create(policy.scope("admin"), 1, "test")[1]
    theirs.db.close()
    good, revoked = api.token("admin"), api.token("admin")
    id_, secret = policy.presented(f"Bearer {good}")
    other = policy.presented(f"Bearer {api.token('admin')}").secret
    api.tokens.revoke(policy.presented(f"Bearer {revoked}").id, "test")
    bad = [None, "", "Bearer", f"Basic {good}", f"Bearer {good}x", f"Bearer {good[:-1]}", f"Bearer {secret}"]
    bad += [f"Bearer {policy.token_text(id_, other)}", f"Bearer {policy.token_text('0' * 12, secret)}"]
    answers = {given: send(given) for given in (*bad, f"Bearer {revoked}", f"Bearer {foreign}")}
    at_first = send(f"Bearer {good}")
    rig.later(86_401)
    answers["expired"] = send(f"Bearer {good}")

    assert [answer.status_code for answer in at_first] == [200, 200]
    assert {given for given, both in answers.items() if [a.status_code for a in both] != [401, 401]} == set()
    refusals = [answer for both in answers.values() for answer in both]
    assert {a.headers["content-type"] for a in refusals} == {"application/problem+json"}
    assert {a.json()["code"] for a in refusals} == {"UNAUTHENTICATED"}
    assert not [a for a in refusals if secret in a.text or other in a.text]
