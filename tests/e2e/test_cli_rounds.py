"""The commands `sexton round` and `sexton schedules` work on a real Temporal server."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import Run
from tests.servers.temporal import DevServer
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, listing
from workflows import ids


class Terminal:
    """A command whose stderr is a terminal, run in the background."""

    def __init__(self, environment: dict[str, str], *words: str) -> None:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "sexton", *words]
        given = environment | {"TERM": "xterm", "COLUMNS": "80"}
        self.process = subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        self.shown = ""
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()

    def _read(self, ours: int) -> None:
        while True:
            try:
                self.shown += os.read(ours, 4096).decode(errors="replace")
            except OSError:  # Linux: its other end is closed
                return

    def wait_for(self, text: str) -> None:
        """Return when the terminal has shown a text."""
        until = time.monotonic() + PATIENCE_SECONDS
        while text not in self.shown:
            assert time.monotonic() < until, f"never shown: {text}; but: {self.shown}"
            time.sleep(0.1)

    def end(self) -> tuple[int, str]:
        """Return exit code and stdout."""
        stdout, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return self.process.returncode, stdout


def told(online: Run, *words: str) -> None:
    """Repeat a signal until there is a round to hear it."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (signalled := online("round", *words)).returncode:
        assert time.monotonic() < until, signalled.stderr


@pytest.mark.slow
def test_terminal_shows_a_paused_and_resumed_round(
    online: Run, shop: Rig, environment: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    online("enable", "shop")
    round_ = Terminal(environment, "round", "run", "shop")
    told(online, "pause", "shop")  # no worker is there: it pauses before it begins
    request.getfixturevalue("worker")
    round_.wait_for("it is paused; to go on: sexton round resume shop")
    remaining = listing(tmp_path / "v")
    resumed = online("round", "resume", "shop")
    code, report = round_.end()
    shown = online("round", "show", "1")
    listed = json.loads(online("round", "list", "shop", "--last", "5", "--json").stdout)["items"]

    assert remaining == {"data/a.dat": 10}
    assert resumed.returncode == 0
    assert (code, "round 1 of shop: SUCCEEDED" in report) == (0, True)
    assert listing(tmp_path / "v") == {}
    assert "round 1 of shop: SUCCEEDED, 1 due, 1 claimed, 1 deleted" in shown.stdout
    assert "vaults: disk normal" in shown.stdout
    assert [(r["round"], r["state"], r["report"]["deleted"]) for r in listed] == [(1, "SUCCEEDED", 1)]


def test_schedule_is_created_once_paused_and_resumed(online: Run, shop: Rig) -> None:
    none = online("schedules", "list", "--json")
    too_early = online("schedules", "pause", "--reason", "x")
    applied = [online("schedules", "apply").stdout, online("schedules", "apply").stdout]
    updated = online("schedules", "apply", SEXTON_RECYCLE__RECYCLE_INTERVAL_SECONDS="100")
    paused = online("schedules", "pause", "--reason", "migrating")
    [schedule] = json.loads(online("schedules", "list", "--json").stdout)["items"]
    doctor = {f["about"]: f for f in json.loads(online("doctor", "--json").stdout)["items"]}
    resumed = online("schedules", "resume")
    [after] = json.loads(online("schedules", "list", "--json").stdout)["items"]

    assert json.loads(none.stdout)["items"] == []
    assert (too_early.returncode, "sexton schedules apply" in too_early.stderr) == (1, True)
    assert ["created" in applied[0], "unchanged" in applied[1], "updated" in updated.stdout] == [True, True, True]
    assert "every 26 s the schedule checks" in updated.stdout
    assert paused.returncode == 0
    assert (schedule["paused"], schedule["note"].split(" ")[0], schedule["every_seconds"]) == (True, "migrating", 26)
    assert (doctor["schedule"]["state"], "migrating" in doctor["schedule"]["detail"]) == ("WARN", True)
    assert resumed.returncode == 0
    assert after["paused"] is False


@pytest.mark.slow
def test_round_is_followed_until_ctrl_c_termination_or_a_cancel(
    online: Run,
    shop: Rig,
    environment: dict[str, str],
    temporal_server: DevServer,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    async def terminate() -> None:
        client = await temporal_server.connect()
        workflow_id = ids.recycle(environment["SEXTON_DEPLOYMENT"], "shop")
        await client.get_workflow_handle(workflow_id).terminate(reason="by hand")

    idle = [online("round", word, "shop") for word in ("cancel", "pause", "resume", "retry")]
    online("enable", "shop")

    left = Terminal(environment, "round", "run", "shop")
    told(online, "pause", "shop")
    left.wait_for("Ctrl-C ends this view only")
    left.process.send_signal(signal.SIGINT)
    left_code, _ = left.end()
    still_running = online("round", "cancel", "shop")
    asyncio.run(terminate())

    terminated = Terminal(environment, "round", "run", "shop")
    told(online, "pause", "shop")
    asyncio.run(terminate())
    terminated_code, _ = terminated.end()

    cancelled = Terminal(environment, "round", "run", "shop", "--json")
    told(online, "cancel", "shop")
    request.getfixturevalue("worker")
    cancelled_code, report = cancelled.end()

    assert [(i.returncode, "no round of shop is running" in i.stderr) for i in idle] == [(1, True)] * 4
    assert (left_code, still_running.returncode) == (130, 0)
    assert "stopped waiting; the round of shop goes on" in left.shown
    assert "Traceback" not in left.shown
    shown = " ".join(terminated.shown.split())
    assert terminated_code == 1
    assert "the round of shop was terminated in Temporal (by hand)" in shown
    assert "sexton stop shop --reason TEXT" in shown
    assert (cancelled_code, json.loads(report)["state"]) == (1, "CANCELLED")
    assert "cancelled" in json.loads(report)["error"]
    assert listing(tmp_path / "v") == {"data/a.dat": 10}
