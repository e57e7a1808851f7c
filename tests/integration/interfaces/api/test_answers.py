"""Each route answers as documented, and refuses with a typed code and a problem document, also of a quota."""

import base64
import logging
import os
from pathlib import Path

import httpx
import pytest

from sexton.client import Sexton
from sexton.interfaces.api.guarded_route import SMALL_BYTES
from sexton.operations.fields import MAX_BODY_BYTES, MAX_ITEMS_BYTES
from sexton.operators.controls.model import ControlKind
from sexton.protection.errors import JobQuotaExceeded
from sexton.protection.filter import Filter
from sexton.protection.model import Item
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.protection.registrations import remaining_keys
from tests.servers.api import Api
from tests.servers.postgres import shared
from tests.support.kept import kept_texts
from tests.support.rig import DAY, DEPLOYMENT, Rig

HERE = "/v1/instances/shop/protections"
A = {"job": "copy:1", "owner": "ada", "objects": ["disk/data/a.dat"]}


def problem_of(answer: httpx.Response) -> tuple[int, str, int | None]:
    """Return status, code and number of a problem document."""
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == answer.status_code
    assert problem["type"] == f"urn:sexton:problem:{problem['code']}"
    assert problem["detail"]
    return answer.status_code, problem["code"], problem.get("number")


@pytest.mark.slow
def test_a_protection_lives_until_the_watermark_passes_it(ask: Ask, rig: Rig, root: Path) -> None:
    made = ask("POST", HERE, A | {"valid_ts": 1000, "ttl_seconds": 600})
    again = ask("POST", HERE, A | {"valid_ts": 1000, "ttl_seconds": 600})
    first = rig.round()
    renewed = ask("PATCH", f"{HERE}/copy:1", {"ttl_seconds": 3_600})
    finished = ask("POST", f"{HERE}/copy:1/finish")
    ask("PUT", "/v1/instances/shop/watermark", {"value": 1000})
    rig.round()
    still = remaining_keys(root)
    ask("PUT", "/v1/instances/shop/watermark", {"value": 1001})
    rig.round()

    assert (made.status_code, made.json()["state"], made.json()["sealed"]["objects"]) == (200, "ACTIVE", 1)
    assert again.json() | {"expires_at": 0} == made.json() | {"expires_at": 0}
    assert kept_texts(first) == {"protection copy:1": 1}
    assert renewed.json()["expires_at"] > made.json()["expires_at"]
    assert finished.json()["state"] == "SOFT"
    assert still == {"data/a.dat"}
    assert remaining_keys(root) == set()


def test_each_refusal_of_a_protection_has_its_code(api: Api, ask: Ask, rig: Rig) -> None:
    assert ask("POST", HERE, A).status_code == 200
    other = A | {"objects": ["disk/data/b.dat"]}

    assert problem_of(ask("POST", HERE, other)) == (409, "EXISTS", 20644)
    assert problem_of(ask("PATCH", f"{HERE}/none", {})) == (404, "NOT_FOUND", 20643)
    assert problem_of(ask("POST", f"{HERE}/none/finish")) == (404, "NOT_FOUND", 20643)
    assert problem_of(ask("PATCH", f"{HERE}/copy:1", {"ttl_seconds": 1})) == (422, "INVALID", 20647)
    ask("POST", f"{HERE}/copy:1/finish")
    assert problem_of(ask("PATCH", f"{HERE}/copy:1", {})) == (409, "SOFT_DELETED", 20646)
    assert problem_of(ask("POST", HERE, A)) == (409, "EXISTS", 20644)
    assert problem_of(ask("POST", "/v1/instances/none/protections", A)) == (404, "UNKNOWN_INSTANCE", None)


def test_a_full_register_and_the_strict_gate_refuse(rig: Rig, root: Path) -> None:
    headers = {"count": {"sync_protection_max_count": 1}, "gate": {"strict_gate": True}}
    with Api(rig, protection=headers["count"]) as full, httpx.Client(base_url=full.url) as http:
        given = {"Authorization": f"Bearer {full.token('sync:copy@shop')}"}
        assert http.post(HERE, json=A, headers=given).status_code == 200
        assert problem_of(http.post(HERE, json=A | {"job": "copy:2"}, headers=given)) == (429, "MAX_COUNT", 20645)
    rig.rounds.open("shop", "run", None, rig.policy)
    with Api(rig, protection=headers["gate"]) as strict, httpx.Client(base_url=strict.url) as http:
        given = {"Authorization": f"Bearer {strict.token('sync:copy@shop')}"}
        answer = http.post(HERE, json=A | {"job": "copy:3"}, headers=given)
        assert problem_of(answer) == (503, "GC_IS_RUNNING", 20642)
        assert answer.headers["retry-after"].isdigit()


BROKEN = bytearray(bytes(Filter.build([Item("disk", "data/a.dat")], 1)))
BROKEN[-1] ^= 1


@pytest.mark.slow
def test_p05_an_invalid_filter_is_refused_without_an_entry(ask: Ask, subtests: pytest.Subtests) -> None:
    for filter_ in [
        "",
        "no base64!",
        base64.b64encode(b"x" * 20).decode(),
        base64.b64encode(os.urandom(200)).decode(),
        base64.b64encode(BROKEN).decode(),
    ]:
        with subtests.test(filter_=filter_):
            body = {"job": "copy:1", "owner": "ada", "filter": filter_}

            assert problem_of(ask("POST", HERE, body)) == (422, "INVALID", 20647)
            assert ask("GET", HERE).json()["items"] == []


def test_a_filter_protects_and_is_marked_as_unverified(ask: Ask, rig: Rig, root: Path) -> None:
    made = Filter.build([Item("disk", "data/a.dat")], 1)
    answer = ask("POST", HERE, {"job": "copy:1", "owner": "ada", "filter": made.encode()})
    rig.round()

    assert (answer.status_code, answer.json()["sealed"]["verified"]) == (200, False)
    assert "data/a.dat" in remaining_keys(root)


def test_chunks_protect_from_their_commit_and_are_sealed(ask: Ask, rig: Rig, root: Path) -> None:
    opened = ask("POST", HERE, {"job": "copy:1", "owner": "ada", "digest": "d" * 64})
    first = ask("PUT", f"{HERE}/copy:1/chunks/0", {"objects": ["disk/data/a.dat"]})
    again = ask("PUT", f"{HERE}/copy:1/chunks/0", {"objects": ["disk/data/a.dat"]})
    rig.round()
    gone = ask("PUT", f"{HERE}/copy:1/chunks/1", {"objects": ["disk/data/b.dat"], "prefixes": ["disk/dir/"]})
    failed = ask("POST", f"{HERE}/copy:1/seal", {"on_missing": "report"})

    assert opened.json()["state"] == "OPEN"
    assert (first.json()["objects"], again.json()) == (1, first.json())
    assert gone.json()["named"] == ["disk/data/b.dat: not there", "disk/dir/: nothing below it"]
    assert (failed.status_code, failed.json()["state"], failed.json()["sealed"]["missing"]) == (200, "ACTIVE", 2)
    assert remaining_keys(root) == {"data/a.dat"}


@pytest.mark.slow
def test_an_invalid_registration_leaves_no_entry(ask: Ask, subtests: pytest.Subtests) -> None:
    for body in [
        {"job": "copy:1", "owner": "ada"},
        {"job": "copy:1", "owner": "ada", "objects": ["disk/data/a.dat"], "digest": "d" * 64},
        {"job": "copy:1", "owner": "ada", "objects": ["disk/data/a.dat"], "filter": "AAAA"},
        {"job": "copy/1", "owner": "ada", "objects": ["disk/data/a.dat"]},
        {"job": "..", "owner": "ada", "objects": ["disk/data/a.dat"]},
        {"job": "", "owner": "ada", "objects": ["disk/data/a.dat"]},
        {"job": "copy:1", "owner": "", "objects": ["disk/data/a.dat"]},
        {"job": "copy:1", "owner": "ada", "objects": ["nowhere/data/a.dat"]},
        {"job": "copy:1", "owner": "ada", "objects": ["disk/../../etc/passwd"]},
        {"job": "copy:1", "owner": "ada", "objects": ["disk/data/a.dat"], "ttl_seconds": 0},
        {"job": "copy:1\u0000", "owner": "ada", "objects": ["disk/data/a.dat"]},
    ]:
        with subtests.test(body=body):
            status, code, _ = problem_of(ask("POST", HERE, body))

            assert (status, code in ("INVALID", "BAD_INPUT")) == (422, True)
            assert ask("GET", HERE).json()["items"] == []


def test_an_invalid_body_is_refused_without_repeating_it(ask: Ask) -> None:
    answer = ask("POST", HERE, {"job": 7, "owner": "sxt_secret_in_the_wrong_place", "objectz": ["disk/data/a.dat"]})

    assert problem_of(answer) == (422, "INVALID_REQUEST", None)
    assert "body.job" in answer.json()["detail"]
    assert "body.objectz: Extra inputs" in answer.json()["detail"]
    assert "secret" not in answer.text


def test_an_unknown_field_that_may_be_a_token_is_not_repeated(ask: Ask) -> None:
    answer = ask("POST", HERE, {"job": "copy:1", "owner": "ada", "sxt_0123456789ab_Secret": ["disk/data/a.dat"]})

    assert "body: Extra inputs" in answer.json()["detail"]
    assert "sxt" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/settings/recycle.retention_seconds?instnace=shop", {"value": "600", "reason": "a test"}),
        ("DELETE", "/v1/databases/sales?table=orders", None),
    ],
)
def test_an_unknown_parameter_of_a_change_is_refused(ask: Ask, method: str, path: str, body: object) -> None:
    """Ignored, each would do more than was meant: for all instances, the whole database, or its own log."""
    answer = ask(method, path, body)

    assert problem_of(answer) == (422, "INVALID_REQUEST", None)
    assert f"query.{path.rpartition('=')[0].split('?')[1].split('&')[-1]}: Extra" in answer.json()["detail"]


def test_a_body_that_is_too_large_is_refused(api: Api, subtests: pytest.Subtests) -> None:
    for told in [True, False]:
        for path, limit in [
            ("/v1/instances/shop/stop", SMALL_BYTES),
            (f"{HERE}/copy/seal", MAX_BODY_BYTES),
            (HERE, MAX_ITEMS_BYTES),
        ]:
            with subtests.test(told=told, path=path, limit=limit):
                whole = b'{"reason": "' + b"x" * limit + b'"}'
                headers = {"Authorization": f"Bearer {api.token('admin')}", "Content-Type": "application/json"}
                content = whole if told else (whole[n : n + 65_536] for n in range(0, len(whole), 65_536))

                answer = httpx.post(f"{api.url}{path}", content=content, headers=headers, timeout=60)

                assert problem_of(answer) == (413, "BODY_TOO_LARGE", None)
                assert f"{limit:,} bytes" in answer.json()["detail"]


@pytest.mark.parametrize("value", [b"9" * 5_000, b"\xff", b"[" * 20_000], ids=["digits", "no UTF-8", "nested"])
def test_a_body_that_is_no_json_is_refused(api: Api, value: bytes, subtests: pytest.Subtests) -> None:
    for padding in [0, SMALL_BYTES]:
        with subtests.test(padding=padding):
            headers = {"Authorization": f"Bearer {api.token('admin')}", "Content-Type": "application/json"}
            content = b'{"job": "copy", "owner": "ada", "ttl_seconds": ' + value + b"}" + b" " * padding

            answer = httpx.post(f"{api.url}{HERE}", content=content, headers=headers)

            assert problem_of(answer) == ((422, "INVALID_REQUEST", None) if padding else (400, "HTTP_400", None))


def test_a_long_number_in_an_address_is_refused(ask: Ask, subtests: pytest.Subtests) -> None:
    for path in ["/v1/checks/N", "/v1/plans/N", "/v1/journal?after=N", "/v1/journal?wait=N"]:
        with subtests.test(path=path):
            assert problem_of(ask("GET", path.replace("N", "9" * 5_000))) == (422, "INVALID_REQUEST", None)


def test_no_answer_leads_to_the_host_that_a_request_names(ask: Ask) -> None:
    answer = ask("GET", "/v1/status/")

    assert problem_of(answer) == (404, "HTTP_404", None)
    assert "Location" not in answer.headers


def test_plans_need_the_scope_to_be_made_and_applied(ask: Ask, rig: Rig) -> None:
    made = ask("POST", "/v1/instances/shop/plans").json()
    shown = ask("GET", f"/v1/plans/{made['plan']['plan']}", scope="read").json()
    away = ask("POST", f"/v1/plans/{made['plan']['plan']}/apply")
    rig.registry.observe("shop")
    observes = ask("POST", f"/v1/plans/{made['plan']['plan']}/apply")

    assert [k["kind"] for k in made["plan"]["kinds"]] == ["dropped"]
    assert (shown["plan"], shown["row"]["state"]) == (made["plan"], "PLANNED")
    assert problem_of(away) == (503, "TEMPORAL_AWAY", None)
    assert problem_of(observes) == (409, "NOT_ENABLED", None)
    assert ask("GET", "/v1/plans/999").status_code == 404


def test_start_names_the_controls_that_still_block(ask: Ask, rig: Rig) -> None:
    rig.controls.put(ControlKind.BLACKLIST, "shop", "by the test")
    stopped = ask("POST", "/v1/instances/shop/stop", {"reason": "a restore"}).json()
    everything = ask("POST", "/v1/stop", {"reason": "a restore", "everything": True}).json()
    halted = ask("GET", "/v1/status").json()["instances"][0]["halt"]
    ask("POST", "/v1/start", {"everything": True})
    started = ask("POST", "/v1/instances/shop/start").json()

    assert (stopped["stopped"], everything["stopped"], halted is not None) == (True, True, True)
    assert (started["stopped"], "blacklist" in started["halts"]["shop"]) == (False, True)
    assert problem_of(ask("POST", "/v1/instances/none/stop", {"reason": "x"})) == (404, "UNKNOWN_INSTANCE", None)


@pytest.mark.slow
def test_why_answers_and_no_worker_metrics_are_exposed(ask: Ask) -> None:
    told = ask("GET", "/v1/why", params={"key": "data/a.dat"}).json()["items"]
    metrics = ask("GET", "/metrics").text

    assert [s["mark"] for s in told] == ["a"]
    assert f'sexton_api_up{{deployment="{DEPLOYMENT}"}} 1.0' in metrics
    assert "sexton_up{" not in metrics


def test_an_unexpected_error_is_one_sentence_with_a_logged_trace(
    api: Api, ask: Ask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_instance: str | None) -> None:
        raise RuntimeError("a secret of the program")

    monkeypatch.setattr(api.app.state.service, "status", broken)
    with caplog.at_level(logging.ERROR):
        answer = ask("GET", "/v1/status")

    assert problem_of(answer) == (500, "FAILED", None)
    assert "secret" not in answer.text
    assert "a secret of the program" in caplog.text


def test_an_unreachable_database_is_503(api: Api, ask: Ask, rig: Rig) -> None:
    token = api.token("read")
    rig.db.close()
    shared().drop_database(rig.url)

    answer = httpx.get(f"{api.url}/v1/status", headers={"Authorization": f"Bearer {token}"})
    health = [httpx.get(f"{api.url}/{path}") for path in ("healthz", "readyz", "livez")]

    assert problem_of(answer) == (503, "DATABASE_AWAY", None)
    away = (503, {"status": "unavailable", "failed": ["database"]})
    assert [(h.status_code, h.json()) for h in health] == [away, away, (200, {"status": "ok"})]


def test_own_token_of_a_job_has_the_limits_of_jobs(rig: Rig, root: Path) -> None:
    large = Filter.build([Item("disk", "data/a.dat")], 1_300_000).encode()
    body = {"owner": "ada", "filter": large}
    with Api(rig, protection={"job_max_age_seconds": DAY}) as api, httpx.Client(base_url=api.url, timeout=30) as http:
        job, operator = ({"Authorization": f"Bearer {api.token(s)}"} for s in ("sync:copy@shop", "operate@shop"))
        refused = http.post(HERE, json=body | {"job": "copy:1"}, headers=job)
        accepted = http.post(HERE, json=body | {"job": "copy:2"}, headers=operator)
        opened = http.post(HERE, json={"job": "copy:3", "owner": "ada", "objects": ["disk/data/a.dat"]}, headers=job)
        rig.later(600)
        renewals = [
            http.patch(f"{HERE}/copy:3", json={"ttl_seconds": DAY}, headers=headers) for headers in (job, operator)
        ]

    assert (refused.status_code, refused.json()["code"], refused.json()["number"]) == (429, "JOB_QUOTA", 20645)
    assert "operate@INSTANCE" in refused.json()["detail"]
    assert (accepted.status_code, opened.status_code) == (200, 200)
    assert [answer.status_code for answer in renewals] == [429, 200]
    assert "job_max_age_seconds in section protection" in renewals[0].json()["detail"]


def test_client_raises_the_quota_as_its_own_error(rig: Rig, root: Path) -> None:
    with Api(rig, protection={"job_max_objects": 1}) as api, Sexton(api.url, api.token("sync:copy@shop")) as client:
        block = client.protect("shop", "copy:1", owner="ada", objects=["disk/data/a.dat", "disk/data/b.dat"])
        with pytest.raises(JobQuotaExceeded, match="would protect 2 objects"), block:
            raise AssertionError("entered")

    assert rig.protections.list_protections("shop") == []
