"""`--watch` shows what runs, from SQL alone, until it ends; without a terminal it prints lines and no escape codes."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.check.model import CheckRequest
from sexton.insight.progress import read_running
from sexton.insight.views import RecentRate
from sexton.interfaces.cli import watching
from sexton.interfaces.cli.render.rounds import lines_of
from sexton.kernel.crash_points import installed
from sexton.operators.registry.markers import MarkerStore
from tests.support.command import run
from tests.support.crashes import Crash, crash_at
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import DEPLOYMENT, Rig


@pytest.fixture
def paused_midway(worker: Rig) -> Iterator[threading.Event]:
    """A round that waits after its second page of ten keys until the event is set."""
    midway, go_on, pages = threading.Event(), threading.Event(), 0

    def wait(point: str) -> None:
        nonlocal pages
        if point == "outcomes.recorded":
            pages += 1
            if pages == 2:
                midway.set()
                go_on.wait(PATIENCE_SECONDS)

    with installed(wait):
        thread = threading.Thread(target=worker.round)
        thread.start()
        assert midway.wait(PATIENCE_SECONDS)
        yield go_on
        go_on.set()
        thread.join()


def end_after(monkeypatch: pytest.MonkeyPatch, shows: int, then: threading.Event) -> None:
    """Redraw at once, and set an event after so many readings."""
    readings = 0

    def sleep(_: float) -> None:
        nonlocal readings
        readings += 1
        if readings >= shows:
            then.set()
            threading.Event().wait(0.05)

    monkeypatch.setattr(watching.time, "sleep", sleep)


def test_round_is_shown_until_its_report(
    rig: Rig, paused_midway: threading.Event, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    number = str(MarkerStore(rig.db).last_round("shop"))
    [work] = read_running(rig.db)
    rate = RecentRate()
    for elapsed_ms in (0, 5_000):
        rate.add(work.progress.model_copy(update={"elapsed_ms": elapsed_ms}))
    end_after(monkeypatch, 3, paused_midway)

    shown = run(rig, capsys, "round", "show", number, "--watch")

    assert shown.code == 0
    assert "20 of about 30 objects gone (67%)" in shown.out
    assert f"round {number} of shop" in shown.out
    assert f"round {number} of shop: SUCCEEDED" in shown.out
    assert "\x1b" not in shown.out
    assert [line for line in lines_of(work, rate) if len(line) > 80] == []


def test_watch_names_halted_instances_while_nothing_runs(
    rig: Rig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching.time, "sleep", interrupt)
    run(rig, capsys, "stop", "shop", "--reason", "a migration")
    shown = run(rig, capsys, "status", "--watch")

    assert shown.code == 130
    assert "nothing is running" in shown.out
    assert "shop is halted: shop is stopped" in shown.out
    assert "a migration" in shown.out


def test_checks_purges_and_paused_rounds_are_shown_as_running(
    rig: Rig, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.checker.begin(CheckRequest(instance="shop", by="test"), "run-1")
    with pytest.raises(Crash), installed(crash_at("round.opened")):
        rig.round()
    rig.sql("UPDATE {}round SET waiting = 'paused', waiting_since = started_at")
    purge = {"kafka_id": "k", "floor": 100, "at": 1_000, "log_start": 40, "log_end": 200, "holders": {}}
    for topic, mode in (("wal-1", "delete"), ("wal-2", "logical")):
        rig.insert("wal_topic", name=topic, instance="shop", enabled=True, mode=mode)
        rig.insert("wal_purge", topic=topic, **purge)

    running = {work.work: work for work in read_running(rig.db)}
    status = run(rig, capsys, "status").out
    rig.sql("UPDATE {}wal_purge SET done_at = at")

    assert {work: (one.instance, one.state) for work, one in running.items() if work != "purge"} == {
        "check": ("shop", running["check"].state),
        "round": ("shop", "paused"),
    }
    assert (running["purge"].name, running["purge"].state) == (
        "wal-1",
        "the log has not deleted all entries below 100 yet: 60 entries",
    )
    assert "purge of wal-1, since 1970-01-01 00:00:01 UTC" in status
    assert {work.work for work in read_running(rig.db)} == {"check", "round"}


@pytest.mark.slow
def test_terminal_is_redrawn_each_second(rig: Rig, paused_midway: threading.Event) -> None:
    reader, writer = pty.openpty()
    variables = {"SEXTON_DATABASE_URL": rig.url, "SEXTON_DEPLOYMENT": DEPLOYMENT, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "sexton", "status", "--watch"]
    with subprocess.Popen(command, env=os.environ | variables, stdout=writer, stderr=writer, stdin=writer) as child:
        shown = b""
        while shown.count(b"20 of about 30 objects gone") < 3:
            shown += os.read(reader, 65_536)
        child.send_signal(signal.SIGINT)
        code = child.wait(PATIENCE_SECONDS)

    assert code == 130
    assert b"\x1b[" in shown
    times = re.findall(rb"(\d\d:\d\d:\d\d) UTC; Ctrl-C ends this view only", shown)
    assert len(set(times)) >= 2
