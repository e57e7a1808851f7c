"""Each request has an id and one line in the log, which repeats nothing that was sent."""

import logging
from collections.abc import Iterator

import httpx
import pytest

from sexton.interfaces.api.serve import HEADER
from tests.integration.interfaces.api.shared import rig
from tests.servers.api import Api
from tests.support.eventually import eventually
from tests.support.rig import Rig

__all__ = ["rig"]


@pytest.fixture(scope="module")
def api(rig: Rig) -> Iterator[Api]:
    with Api(rig, console=True) as server:
        yield server


def lines(caplog: pytest.LogCaptureFixture, number: int) -> str:
    """Return what was logged, once it has so many lines: a line is written after its answer was sent."""

    def logged() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.name == "sexton.interfaces.api.serve"]

    eventually(f"{number} lines", lambda: len(logged()) >= number)
    assert len(logged()) == number
    return "\n".join(logged())


def get(api: Api, path: str, **headers: str) -> httpx.Response:
    authorization = {"Authorization": f"Bearer {api.token('read@shop')}"}
    return httpx.get(f"{api.url}{path}", headers=authorization | headers)


def test_a_line_has_the_template_and_no_key(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answers = [
        httpx.get(f"{api.url}/livez"),  # a probe that succeeds has no line
        get(api, "/v1/why?key=data/my-customer"),
        get(api, "/v1/instances/shop/protections/my-customer"),
        get(api, "/my-customer"),
        httpx.get(f"{api.url}/v1/status"),
        httpx.get(f"{api.url}/console/login"),
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 404, 404, 401, 200]
    logged = lines(caplog, 5)
    assert "GET /v1/why: 200 in " in logged
    assert "GET /v1/instances/{instance}/protections/{job}: 404 in " in logged
    assert "GET *: 404 in " in logged
    assert "401 in " in logged
    assert "GET /console/login: 200 in " in logged
    assert "my-customer" not in logged


def test_an_answer_has_the_id_of_its_request(api: Api, subtests: pytest.Subtests) -> None:
    for sent, is_kept in [("job-7.a_b", True), ("a b", False), ("x" * 65, False), ("", False)]:
        with subtests.test(sent=sent, is_kept=is_kept):
            id_ = get(api, "/v1/status", **{HEADER: sent}).headers[HEADER]

            assert (id_ == sent) is is_kept
            assert id_


def test_an_unexpected_error_is_logged_with_its_id(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_instance: str | None) -> None:
        raise RuntimeError("a secret of the program")

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(api.app.state.service, "status", broken)
    answer = get(api, "/v1/status", **{HEADER: "night-call"})

    assert (answer.status_code, answer.json()["code"], answer.headers[HEADER]) == (500, "FAILED", "night-call")
    assert "secret" not in answer.text
    assert "GET /v1/status: 500 in " in lines(caplog, 1)
    assert "a secret of the program" in caplog.text
