"""The API applies the limits of jobs to tokens of jobs, and says how an operator raises them."""

from pathlib import Path

import httpx
import pytest

from sexton.client import Sexton
from sexton.protection.errors import JobQuotaExceeded
from sexton.protection.filter import Filter
from sexton.protection.model import Item
from tests.servers.api import Api
from tests.support.rig import DAY, Rig

HERE = "/v1/instances/shop/protections"


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
