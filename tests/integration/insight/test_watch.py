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
from sqlalchemy import insert

from sexton.check.model import CheckRequest
from sexton.contract import NewMark
from sexton.insight.progress import read_running
from sexton.interfaces.cli import watching
from sexton.kernel.crash_points import installed
from sexton.operators.registry.markers import MarkerStore
from tests.support.command import run
from tests.support.crashes import Crash, crash_at
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import DEPLOYMENT, Rig, put

FILES = 30


@pytest.fixture
def paused_midway(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A round that waits after its second page of ten keys until the event is set."""
    monkeypatch.setattr("sexton.marks.file_list.PAGE_KEYS", 10)
    worker = Rig(rig.url, threads=1, beside=False)
    root = worker.local(tmp_path / "v")
    for n in range(FILES):
        put(root, f"t/{n:02}.dat")
    worker.mark("dropped", NewMark(id="p", vault="disk", prefix="t/"))
    worker.later(10_801)
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
    worker.db.close()


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
    end_after(monkeypatch, 3, paused_midway)

    shown = run(rig, capsys, "round", "show", number, "--watch")

    assert shown.code == 0
    assert "20 of about 30 objects deleted (67%)" in shown.out
    assert f"round {number} of shop" in shown.out
    assert f"round {number} of shop: SUCCEEDED" in shown.out
    assert "\x1b" not in shown.out


def test_status_watches_until_ctrl_c(
    rig: Rig, paused_midway: threading.Event, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching.time, "sleep", interrupt)

    shown = run(rig, capsys, "status", "--watch")

    assert shown.code == 130
    assert "20 of about 30 objects deleted" in shown.out


def test_watch_names_halted_instances_while_nothing_runs(
    rig: Rig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching.time, "sleep", interrupt)
    run(rig, capsys, "stop", "shop", "--reason", "a migration")
    shown = run(rig, capsys, "status", "--watch")

    assert "nothing is running" in shown.out
    assert "shop is halted: shop is stopped" in shown.out
    assert "a migration" in shown.out


def test_lines_fit_80_columns(rig: Rig, paused_midway: threading.Event) -> None:
    from sexton.insight.views import RecentRate
    from sexton.interfaces.cli.render.rounds import lines_of

    [work] = read_running(rig.db)
    rate = RecentRate()
    rate.add(work.progress.model_copy(update={"elapsed_ms": 0}))
    rate.add(work.progress.model_copy(update={"elapsed_ms": 5_000}))

    lines = lines_of(work, rate)

    assert all(len(line) <= 80 for line in lines), lines


def test_running_check_is_shown(rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rig.local(tmp_path / "v")
    rig.checker.begin(CheckRequest(instance="shop", by="test"), "run-1")

    [work] = read_running(rig.db)

    assert (work.work, work.instance) == ("check", "shop")
    assert "one is running since" in run(rig, capsys, "status").out


def test_paused_round_says_why_it_does_not_move(rig: Rig, tmp_path: Path) -> None:
    rig.local(tmp_path / "v")
    with pytest.raises(Crash), installed(crash_at("round.opened")):
        rig.round()
    number = MarkerStore(rig.db).last_round("shop")
    rig.sql("UPDATE {}round SET waiting = 'paused', waiting_since = started_at WHERE id = :id", id=number)

    [work] = read_running(rig.db)

    assert work.state == "paused"


def test_purge_is_shown_until_the_log_has_followed(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    purge = {"kafka_id": "k", "floor": 100, "at": 1_000, "log_end": 200, "holders": {}}
    with rig.db.write() as c:
        for topic, mode in (("wal-1", "delete"), ("wal-2", "logical")):
            c.execute(insert(rig.db.t.wal_topic).values(name=topic, instance="shop", enabled=True, mode=mode))
            c.execute(insert(rig.db.t.wal_purge).values(topic=topic, **purge))

    [work] = read_running(rig.db)
    status = run(rig, capsys, "status").out
    rig.sql("UPDATE {}wal_purge SET done_at = at")

    assert (work.work, work.name, work.state) == ("purge", "wal-1", "the log has not deleted all entries below 100 yet")
    assert "purge of wal-1, since 1970-01-01 00:00:01 UTC" in status
    assert read_running(rig.db) == ()


@pytest.mark.slow
def test_terminal_is_redrawn_each_second(rig: Rig, paused_midway: threading.Event) -> None:
    reader, writer = pty.openpty()
    variables = {"SEXTON_DATABASE_URL": rig.url, "SEXTON_DEPLOYMENT": DEPLOYMENT, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "sexton", "status", "--watch"]
    with subprocess.Popen(command, env=os.environ | variables, stdout=writer, stderr=writer, stdin=writer) as child:
        shown = b""
        while shown.count(b"20 of about 30 objects deleted") < 3:
            shown += os.read(reader, 65_536)
        child.send_signal(signal.SIGINT)
        code = child.wait(PATIENCE_SECONDS)

    assert code == 130
    assert b"\x1b[" in shown
    times = re.findall(rb"(\d\d:\d\d:\d\d) UTC; Ctrl-C ends this view only", shown)
    assert len(set(times)) >= 2
