"""JWTs of a company's own issuer are accepted beside tokens of Sexton; forged, foreign and expired ones are not."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from sexton.operators.access.model import IssuerAway
from sexton.operators.access.oidc import count_keys
from sexton.operators.call_log import CallStore
from tests.servers.api import Api
from tests.servers.issuer import Issuer
from tests.servers.postgres import new_database
from tests.support.rig import Rig

SCOPES = {
    "ops": ["operate@shop"],
    "readers": ["read"],
    "copiers": ["sync:copy@shop", "read@lake"],
    "nodes": ["node:n1@shop", "node:n2@shop"],
}
Send = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        issuer.add_key("k1")
        issuer.add_key("k2", curve=True)
        yield issuer


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    rig = Rig(new_database()).instance("shop").instance("lake")
    yield rig
    rig.db.close()


@pytest.fixture(scope="module")
def api(rig: Rig, issuer: Issuer) -> Iterator[Api]:
    with Api(rig, oidc=issuer.settings(**SCOPES)) as served:
        yield served


@pytest.fixture
def send(api: Api) -> Iterator[Send]:
    with sending(api) as send:
        yield send


@contextmanager
def sending(api: Api) -> Iterator[Send]:
    with httpx.Client(base_url=api.url) as http:

        def sent(token: str, method: str = "GET", path: str = "/v1/status", body: object = None) -> httpx.Response:
            return http.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

        yield sent


def test_token_of_each_algorithm_is_accepted(issuer: Issuer, send: Send, api: Api) -> None:
    statuses = [send(issuer.token(key_id)).status_code for key_id in ("k1", "k2")]
    listed = send(issuer.token(aud=["another", "sexton-test"], nbf=int(time.time()) + 20))

    assert statuses == [200, 200]
    assert [i["instance"] for i in listed.json()["instances"]] == ["shop"]
    assert send(api.token("read@lake")).json()["instances"][0]["instance"] == "lake"


def test_caller_in_the_log_is_issuer_and_subject(issuer: Issuer, send: Send, api: Api) -> None:
    send(issuer.token(sub="ada@example.org"), "POST", "/v1/instances/shop/stop", {"reason": "a test"})
    send(issuer.token(groups=["readers", "copiers"]), "POST", "/v1/instances/shop/start")

    refused, stopped = CallStore(api.app.state.service.db).last(2)
    assert stopped.who == f"ada@example.org of {issuer.url} (operate@shop)"
    assert (stopped.outcome, refused.outcome) == ("ok", "FORBIDDEN")
    assert refused.who == f"robot-7 of {issuer.url} (read, sync:copy@shop, read@lake)"


def test_forged_token_is_refused(issuer: Issuer, send: Send) -> None:
    stranger = rsa.generate_private_key(65537, 2_048)
    good = issuer.token()
    head, claims, signature = good.split(".")
    other_claims = issuer.token(groups=["readers"]).split(".")[1]
    forged = {
        "none": issuer.forged({"alg": "none", "typ": "JWT", "kid": "k1"}),
        "None": issuer.forged({"alg": "None", "kid": "k1"}),
        "HS256 with the public key": issuer.forged({"alg": "HS256", "kid": "k1"}, issuer.public_pem("k1")),
        "HS256 called RS256": issuer.forged({"alg": "RS256", "kid": "k1"}, issuer.public_pem("k1")),
        "ES256 with the id of the RSA key": issuer.token("k1", signed_by=issuer.keys["k2"]),
        "another key": issuer.token("k1", signed_by=stranger),
        "unknown key": issuer.token("k9", signed_by=stranger),
        "other claims": f"{head}.{other_claims}.{signature}",
        "no signature": f"{head}.{claims}.",
        "no key id": issuer.forged({"alg": "RS256"}),
        "key id of another type": issuer.forged({"alg": "RS256", "kid": ["k1"]}),
        "header is no object": issuer.forged([]),  # type: ignore[arg-type]
        "unknown critical header": issuer.forged({"alg": "RS256", "kid": "k1", "crit": ["x"], "x": 1}),
        "no JWT": "a.b.c",
        "too long": good + "A" * 9_000,
    }

    answers = {name: send(token) for name, token in forged.items()}

    assert {name: a.status_code for name, a in answers.items()} == dict.fromkeys(forged, 401)
    assert not [name for name, token in forged.items() if token[-20:] in answers[name].text]


def test_token_with_a_wrong_claim_is_refused(issuer: Issuer, send: Send, subtests: pytest.Subtests) -> None:
    for changes, reason in [
        ({"aud": "another"}, "another audience"),
        ({"aud": None}, "claims"),
        ({"iss": "https://elsewhere"}, "another issuer"),
        ({"iss": None}, "claims"),
        ({"exp": 1}, "lasts|expired"),
        ({"exp": None}, "claims"),
        ({"exp": "soon"}, "malformed"),
        ({"exp": float("inf")}, "malformed"),
        ({"iat": None}, "claims"),
        ({"sub": None}, "claims"),
        ({"sub": 7}, "malformed"),
        ({"sub": ""}, "subject"),
        ({"sub": "a\u202eb"}, "subject"),
        ({"sub": "x" * 201}, "subject"),
    ]:
        with subtests.test(changes=changes, reason=reason):
            answer = send(issuer.token(**changes))

            assert answer.status_code == 401
            assert any(text in answer.json()["detail"] for text in reason.split("|"))


def test_times_are_compared_with_a_small_leeway(issuer: Issuer, send: Send) -> None:
    now = int(time.time())
    accepted = [{"exp": now - 10, "iat": now - 100}, {"iat": now + 10}, {"nbf": now + 10}]
    refused = [{"exp": now - 60, "iat": now - 100}, {"iat": now + 90}, {"nbf": now + 90}, {"exp": now + 90_000}]

    assert [send(issuer.token(**changes)).status_code for changes in accepted] == [200] * 3
    assert [send(issuer.token(**changes)).status_code for changes in refused] == [401] * 4


def test_claim_that_maps_to_nothing_permits_nothing(issuer: Issuer, send: Send) -> None:
    values: list[object] = ["strangers", ["strangers"], [], None, 7, {"ops": True}, [["ops"]], "ops readers", "OPS"]

    answers = [send(issuer.token(groups=value)) for value in values]

    assert [a.status_code for a in answers] == [403] * len(values)
    assert "maps to a scope" in answers[0].json()["detail"]


def test_list_of_values_gives_all_of_their_scopes(issuer: Issuer, send: Send) -> None:
    token = issuer.token(groups=["copiers", "nobody", "ops", "ops"])
    both = [send(token, path=f"/v1/status?instance={name}").status_code for name in ("shop", "lake")]
    unnamed = send(token)
    watermark = send(token, "PUT", "/v1/instances/lake/watermark", {"value": 1})
    stop = send(token, "POST", "/v1/instances/shop/stop", {"reason": "a test"})
    of_job = send(issuer.token(groups="copiers"), path="/v1/instances/shop/protections/copy:1")

    assert both == [200, 200]
    assert (unnamed.status_code, "?instance=lake" in unnamed.json()["detail"]) == (422, True)
    assert (watermark.status_code, stop.status_code, of_job.status_code) == (403, 200, 404)


def test_caller_with_two_nodes_acts_for_each(issuer: Issuer, send: Send) -> None:
    token = issuer.token(groups="nodes")
    beats = [send(token, "POST", f"/v1/nodes/{n}/heartbeat", {"reports": []}).status_code for n in ("n1", "n2", "n3")]
    regions = [{"region": name, "first": 0, "node": node} for name, node in (("r2", "n2"), ("r3", "n3"))]
    send(issuer.token(), "PUT", "/v1/topics/orders/regions", {"generation": 1, "regions": regions})
    replays = "/v1/topics/orders/replays"
    unnamed = send(token, "POST", replays, {"region": "r2", "epoch": 1})
    own = send(token, "POST", replays, {"region": "r2", "epoch": 1, "node": "n2"}).json()["id"]
    other = send(issuer.token(), "POST", replays, {"region": "r3", "epoch": 1, "node": "n3"}).json()["id"]

    renewed = [send(token, "PATCH", f"{replays}/{replay}").status_code for replay in (own, other)]
    ended = [send(token, "DELETE", f"{replays}/{replay}").status_code for replay in (own, other)]

    assert beats == [200, 200, 403]
    assert (unnamed.status_code, renewed, ended) == (403, [200, 403], [204, 403])


def test_unknown_keys_do_not_make_the_api_ask_again(issuer: Issuer, send: Send) -> None:
    assert send(issuer.token()).status_code == 200
    before = issuer.requests
    storm = [send(issuer.token(f"random-{n}", signed_by=issuer.keys["k1"])).status_code for n in range(20)]

    assert storm == [401] * 20
    assert issuer.requests == before


def test_issuer_that_gives_no_keys_is_a_temporary_refusal(rig: Rig, issuer: Issuer) -> None:
    odd = json.loads(issuer.document())["keys"][0] | {"alg": ["RS256"]}
    with Issuer() as other:
        other.keys = dict(issuer.keys)
        with Api(rig, oidc=other.settings(**SCOPES)) as api, sending(api) as send:
            for other.answer in (b"<html>", b"[" * 100_000, b'{"keys": 7}', json.dumps({"keys": [odd]}).encode()):
                assert send(other.token()).json()["code"] == "ISSUER_AWAY"
            other.answer = None
            assert send(other.token()).status_code == 200
        with Api(rig, oidc=other.settings(**SCOPES)) as api, sending(api) as send:
            token = other.token()
            other.stop()

            answer = send(token)

            assert (answer.status_code, answer.json()["code"]) == (503, "ISSUER_AWAY")
            assert "retry-after" in answer.headers
            assert send(api.token("read")).status_code == 200


def test_without_an_issuer_no_jwt_is_accepted(rig: Rig, issuer: Issuer) -> None:
    before = issuer.requests
    with Api(rig) as served, sending(served) as send:
        assert send(issuer.token()).status_code == 401
    assert issuer.requests == before


def test_keys_that_cannot_verify_are_not_counted() -> None:
    with Issuer() as issuer:
        issuer.add_key("curve", curve=True)
        assert count_keys(f"{issuer.url}/jwks") == 1
        issuer.keys = {}
        issuer.add_key("short", rsa_bits=1_024)
        assert count_keys(f"{issuer.url}/jwks") == 0
        issuer.status = 500
        with pytest.raises(IssuerAway):
            count_keys(f"{issuer.url}/jwks")
