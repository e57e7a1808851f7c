"""A round as server-sent events: what it has done while it runs, and its report when it has ended."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sexton.interfaces.api.routes import rounds
from sexton.recycle.rounds.ledger import Ledger
from tests.servers.api import Api
from tests.servers.api_process import ApiProcess
from tests.support.rig import Rig


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PERIOD_SECONDS", 0.1)


def _events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, object]]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def _stream(api: Api | ApiProcess, round_: int, scope: str = "read@shop") -> httpx.Response:
    headers = {"Authorization": f"Bearer {api.token(scope)}"}
    return httpx.Client().stream("GET", f"{api.url}/v1/rounds/{round_}/events", headers=headers)


def test_a_running_round_is_followed_to_its_end(api: Api, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = rig.rounds.open("shop", "run", None, rig.policy)
    for scope, status in {"read": 404, "read@shop": 403}.items():
        with _stream(api, 77, scope) as unknown:
            assert unknown.status_code == status
    with monkeypatch.context() as patch:
        patch.setattr(rounds, "LONGEST_SECONDS", 0.0)
        with _stream(api, opened.round) as cut:
            assert [name for name, _ in _events(cut.iter_lines())] == ["progress"]
    with _stream(api, opened.round) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = _events(answer.iter_lines())
        name, running = next(events)
        assert (name, running["progress"] is not None, running["worked_at"] is not None) == ("progress", True, True)
        assert next(events)[0] == "progress"

        rig.rounds.close(Ledger().close_order(opened, None, None, "STOPPED", "a stop"))
        *_, (name, ended) = events

    assert name == "ended"
    assert ended["round"]["report"]["state"] == "STOPPED"


@pytest.mark.slow
def test_a_process_that_is_stopped_ends_its_streams(rig: Rig, root: Path, tmp_path: Path) -> None:
    opened = rig.rounds.open("shop", "run", None, rig.policy)
    with ApiProcess(rig, tmp_path / "home") as api, _stream(api, opened.round) as answer:
        events = _events(answer.iter_lines())
        next(events)
        os.kill(api.pid, signal.SIGTERM)
        assert [name for name, _ in events] in ([], ["progress"])
    assert "Traceback" not in api.log()
