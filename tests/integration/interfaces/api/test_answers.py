"""Each route answers as documented, and refuses with a typed code and a problem document, also of a quota."""

import base64
import os
from pathlib import Path

import httpx
import pytest

from sexton.client import Sexton
from sexton.interfaces.api.guarded_route import SMALL_BYTES
from sexton.operations.fields import MAX_BODY_BYTES, MAX_ITEMS_BYTES
from sexton.protection.filter import Filter
from sexton.protection.model import Item, JobQuotaExceeded
from tests.integration.interfaces.api.conftest import Ask
from tests.integration.interfaces.api.shared import api, rig, root
from tests.servers.api import Api
from tests.servers.postgres import new_database, shared
from tests.support.rig import DAY, DEPLOYMENT, Rig, put

__all__ = ["api", "rig", "root"]
HERE = "/v1/instances/shop/protections"
A = {"job": "copy:1", "owner": "ada", "objects": ["disk/data/a.dat"]}
BROKEN = bytearray(bytes(Filter.build([Item("disk", "data/a.dat")], 1)))
BROKEN[-1] ^= 1


def problem_of(answer: httpx.Response) -> tuple[int, str, int | None]:
    """Return status, code and number of a problem document."""
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == answer.status_code
    assert problem["type"] == f"urn:sexton:problem:{problem['code']}"
    assert problem["detail"]
    return answer.status_code, problem["code"], problem.get("number")


def test_each_refusal_of_a_protection_has_its_code(ask: Ask) -> None:
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


def test_each_limit_of_the_settings_refuses_with_its_code(rig: Rig, tmp_path: Path) -> None:
    root = rig.instance("lake").local(tmp_path / "lake", instance="lake")
    for name in ("a", "b"):
        put(root, f"data/{name}.dat")
    here, limits = "/v1/instances/lake/protections", {"job_max_age_seconds": 600, "job_max_objects": 1}
    protection = {"sync_protection_max_count": 1, "strict_gate": True, **limits}
    with Api(rig, protection=protection) as api, httpx.Client(base_url=api.url) as http:
        job, operator = ({"Authorization": f"Bearer {api.token(s)}"} for s in ("sync:copy@lake", "operate@lake"))
        lease = rig.leases.acquire("lake", "recycle", "somebody")
        gate = http.post(here, json=A, headers=operator)
        rig.leases.free(lease)
        with Sexton(api.url, api.token("sync:copy@lake")) as client:
            objects = ["disk/data/a.dat", "disk/data/b.dat"]
            block = client.protect("lake", "copy:2", owner="ada", objects=objects, ttl_seconds=300)
            with pytest.raises(JobQuotaExceeded, match="would protect 2 objects"), block:
                raise AssertionError("entered")
        by_job, by_operator = (http.post(here, json=A | {"ttl_seconds": 601}, headers=h) for h in (job, operator))
        renewals = [http.patch(f"{here}/copy:1", json={"ttl_seconds": DAY}, headers=h) for h in (job, operator)]
        full = http.post(here, json=A | {"job": "other"}, headers=operator)

    assert problem_of(gate) == (503, "GC_IS_RUNNING", 20642)
    assert gate.headers["retry-after"].isdigit()
    assert problem_of(full) == (429, "MAX_COUNT", 20645)
    assert [problem_of(answer) for answer in (by_job, renewals[0])] == [(429, "JOB_QUOTA", 20645)] * 2
    assert "job_max_age_seconds in section protection" in renewals[0].json()["detail"]
    assert (by_operator.status_code, renewals[1].status_code) == (200, 200)
    assert [p.job for p in rig.protections.list_protections("lake")] == ["copy:1"]


def test_p05_an_invalid_registration_leaves_no_entry(ask: Ask, subtests: pytest.Subtests) -> None:
    valid = A | {"job": "copy:9"}
    without_objects = {"job": "copy:9", "owner": "ada"}
    before = ask("GET", HERE).json()["items"]
    encoded = (base64.b64encode(content).decode() for content in (b"x" * 20, os.urandom(200), BROKEN))
    for body in [
        without_objects,
        *(without_objects | {"filter": filter_} for filter_ in ("", "no base64!", *encoded)),
        valid | {"digest": "d" * 64},
        valid | {"filter": "AAAA"},
        valid | {"job": "copy/1"},
        valid | {"job": ".."},
        valid | {"job": ""},
        valid | {"job": "copy:1\u0000"},
        valid | {"owner": ""},
        valid | {"objects": ["nowhere/data/a.dat"]},
        valid | {"objects": ["disk/../../etc/passwd"]},
        valid | {"ttl_seconds": 0},
    ]:
        with subtests.test(body=body):
            status, code, number = problem_of(ask("POST", HERE, body))

            assert (status, (code, number) in (("INVALID", 20647), ("BAD_INPUT", None))) == (422, True)
            assert code == "INVALID" or "filter" not in body
            assert ask("GET", HERE).json()["items"] == before


def test_an_invalid_body_is_refused_without_repeating_it(ask: Ask) -> None:
    mistaken = ask("POST", HERE, {"job": 7, "owner": "sxt_secret_in_the_wrong_place", "objectz": ["disk/data/a.dat"]})
    token = ask("POST", HERE, {"job": "copy:1", "owner": "ada", "sxt_0123456789ab_Secret": ["disk/data/a.dat"]})

    assert problem_of(mistaken) == problem_of(token) == (422, "INVALID_REQUEST", None)
    assert "body.job" in mistaken.json()["detail"]
    assert "body.objectz: Extra inputs" in mistaken.json()["detail"]
    assert "body: Extra inputs" in token.json()["detail"]
    assert "sxt" not in mistaken.text + token.text


def test_an_unknown_parameter_of_a_change_is_refused(ask: Ask) -> None:
    """Ignored, each would do more than was meant: for all instances, the whole database, or its own log."""
    setting = {"value": "600", "reason": "a test"}
    for method, path, name, body in [
        ("PUT", "/v1/settings/recycle.retention_seconds", "instnace", setting),
        ("DELETE", "/v1/databases/sales", "table", None),
    ]:
        answer = ask(method, f"{path}?{name}=shop", body)

        assert problem_of(answer) == (422, "INVALID_REQUEST", None)
        assert f"query.{name}: Extra" in answer.json()["detail"]


def test_a_body_that_is_too_large_is_refused(ask: Ask, subtests: pytest.Subtests) -> None:
    for path, limit, is_length_stated in [
        ("/v1/instances/shop/stop", SMALL_BYTES, True),
        ("/v1/instances/shop/stop", SMALL_BYTES, False),
        (f"{HERE}/copy/seal", MAX_BODY_BYTES, True),
        (f"{HERE}/copy/seal", MAX_BODY_BYTES, False),
        (HERE, MAX_ITEMS_BYTES, True),
    ]:
        with subtests.test(path=path, is_length_stated=is_length_stated):
            whole = b'{"reason": "' + b"x" * limit + b'"}'
            pieces = (whole[n : n + 65_536] for n in range(0, len(whole), 65_536))

            answer = ask("POST", path, content=whole if is_length_stated else pieces)

            assert problem_of(answer) == (413, "BODY_TOO_LARGE", None)
            assert f"{limit:,} bytes" in answer.json()["detail"]


def test_a_body_that_is_no_json_is_refused(ask: Ask, subtests: pytest.Subtests) -> None:
    for name, value in [("digits", b"9" * 5_000), ("no UTF-8", b"\xff"), ("nested", b"[" * 20_000)]:
        for padding, refusal in [(0, (400, "HTTP_400", None)), (SMALL_BYTES, (422, "INVALID_REQUEST", None))]:
            with subtests.test(name=name, padding=padding):
                content = b'{"job": "copy", "owner": "ada", "ttl_seconds": ' + value + b"}" + b" " * padding

                assert problem_of(ask("POST", HERE, content=content)) == refusal


def test_a_long_number_in_an_address_is_refused(ask: Ask, subtests: pytest.Subtests) -> None:
    for path in [
        "/v1/checks/N",
        "/v1/plans/N",
        "/v1/journal?instance=shop&after=N",
        "/v1/journal?instance=shop&wait=N",
    ]:
        with subtests.test(path=path):
            assert problem_of(ask("GET", path.replace("N", "9" * 5_000))) == (422, "INVALID_REQUEST", None)


def test_no_answer_leads_to_the_host_that_a_request_names(ask: Ask) -> None:
    answer = ask("GET", "/v1/status/")

    assert problem_of(answer) == (404, "HTTP_404", None)
    assert "Location" not in answer.headers


def test_metrics_of_the_api_are_not_those_of_a_worker(ask: Ask) -> None:
    metrics = ask("GET", "/metrics").text

    assert f'sexton_api_up{{deployment="{DEPLOYMENT}"}} 1.0' in metrics
    assert "sexton_up{" not in metrics


def test_an_unreachable_database_is_503() -> None:
    rig = Rig(new_database())
    with Api(rig) as api:
        token = api.token("read")
        rig.db.close()
        shared().drop_database(rig.url)

        answer = httpx.get(f"{api.url}/v1/status", headers={"Authorization": f"Bearer {token}"})
        health = [httpx.get(f"{api.url}/{path}") for path in ("healthz", "readyz", "livez")]

    assert problem_of(answer) == (503, "DATABASE_AWAY", None)
    away = (503, {"status": "unavailable", "failed": ["database"]})
    assert [(h.status_code, h.json()) for h in health] == [away, away, (200, {"status": "ok"})]
