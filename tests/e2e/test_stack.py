"""The embedded stack restarts over its home, listens on loopback only, and reports a dead part."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.runtime.embedded.child import Child, EmbeddedError, stop_leftovers
from sexton.runtime.embedded.stack import SPARK_WORKER, Stack
from sexton.runtime.embedded.up import QUICK_DEATHS, StackSupervisor
from tests.servers.s3 import client_of
from tests.support.eventually import PATIENCE_SECONDS
from tests.surroundings import variables

pytestmark = pytest.mark.slow

LISTEN = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def _start(home: Path) -> Stack:
    stack = Stack(home)
    stack.start(report=print)
    return stack


def _up(home: Path, *options: str) -> subprocess.Popen[str]:
    """A `sexton up`, without a worker unless told, that has said everything is there."""
    process = subprocess.Popen(
        [Path(sys.executable).with_name("sexton"), "up", *(options or ("--no-worker",))],
        env=variables(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Ctrl-C stops"):
            return process
    raise AssertionError(f"sexton up ended with {process.wait()}")


def _pid(home: Path, name: str) -> int:
    return int(json.loads((home / "run" / f"{name}.pid").read_text())["pid"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One stack for the tests that only look at it."""
    stack = _start(tmp_path_factory.mktemp("stack"))
    yield stack
    stack.stop()


def test_second_stack_over_one_home_is_refused_with_the_pid(running: Stack) -> None:
    with pytest.raises(EmbeddedError, match=rf"already runs over .*pid {os.getpid()}\)"):
        _start(running.home)

    running.check()


def test_two_workers_run_side_by_side(running: Stack) -> None:
    running.start_worker()

    running.start_worker("worker-2")

    running.check()
    assert running.children["worker"].pid != running.children["worker-2"].pid


def test_dead_worker_is_restarted_and_reported(running: Stack) -> None:
    messages: list[str] = []
    watch = StackSupervisor(running, messages.append, first_wait_seconds=0.1)
    running.start_worker()
    killed = running.children["worker"].pid
    running.children["worker"].kill()

    while running.children["worker"].exit_code() is not None:
        watch.check()
        time.sleep(0.05)

    running.await_worker()
    assert running.children["worker"].pid != killed
    assert messages[0] == "worker ended with exit code -9; it starts again in 0.1 s"
    assert messages[1].startswith("worker started again")


def _doomed(home: Path, worker: str) -> Stack:
    """Return a stack of one worker, which dies soon after each start."""
    stack = Stack(home)
    command = [sys.executable, "-c", "import time; time.sleep(0.3); raise SystemExit('no luck')"]
    stack.children[worker] = Child(worker, command, home, {})
    stack.children[worker].start(lambda: True, 10)
    return stack


def test_stack_stops_when_its_worker_keeps_dying(tmp_path: Path) -> None:
    messages: list[str] = []
    stack = _doomed(tmp_path, "worker")

    with pytest.raises(EmbeddedError, match=r"worker ended with exit code 1(.|\n)*no luck"):
        StackSupervisor(stack, messages.append, first_wait_seconds=0.01).supervise(interval_seconds=0.01)

    assert len([line for line in messages if "started again" in line]) == QUICK_DEATHS
    assert messages[-2:] == [
        "worker died 5 times within 30 s of its start: giving up",
        "worker ended with exit code 1; stopping the rest …",
    ]


def test_spark_worker_that_keeps_dying_leaves_the_rest(tmp_path: Path) -> None:
    messages: list[str] = []
    stack = _doomed(tmp_path, SPARK_WORKER)
    watch = StackSupervisor(stack, messages.append, first_wait_seconds=0.01)

    while stack.children:
        watch.check()
        time.sleep(0.01)

    assert messages[-2:] == [
        "worker-spark died 5 times within 30 s of its start: giving up",
        f"everything else goes on without it; see {tmp_path / 'logs' / 'worker-spark.log'}",
    ]


def test_a_worker_starts_and_is_replaced_after_a_kill(running: Stack) -> None:
    running.start_worker()
    running.children["worker"].kill()
    with pytest.raises(EmbeddedError, match="worker ended with exit code -9"):
        running.check()

    running.start_worker()

    running.check()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net/tcp")
def test_nothing_listens_beyond_loopback(running: Stack) -> None:
    addresses = [a for child in running.children.values() for a in _listening(child.pid)]

    assert len(addresses) > 10
    # Little-endian hexadecimal: 127.0.0.1, and ::1 or ::ffff:127.0.0.1.
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert set(addresses) <= loopback


def _listening(pid: int | None) -> list[str]:
    inodes = {str(fd.readlink()).strip("socket:[]") for fd in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        if (table := Path(f"/proc/{pid}/net/{name}")).exists()
        for line in table.read_text().splitlines()[1:]
    ]
    return [row[1].split(":")[0] for row in rows if row[3] == LISTEN and row[9] in inodes]


def test_keys_are_readable_by_their_owner_only(running: Stack) -> None:
    assert (running.home / "env").stat().st_mode & 0o777 == 0o600


def test_a_restart_keeps_objects_addresses_and_identity(tmp_path: Path) -> None:
    first = _start(tmp_path)
    before = first.environment()
    client_of(before).create_bucket(Bucket="kept")
    client_of(before).put_object(Bucket="kept", Key="a/b", Body=b"here")
    first.stop()

    second = _start(tmp_path)
    try:
        assert client_of(second.environment()).get_object(Bucket="kept", Key="a/b")["Body"].read() == b"here"
        assert second.environment() == before
        assert re.fullmatch(r"demo-[0-9a-f]{8}", before["SEXTON_DEPLOYMENT"])
    finally:
        second.stop()


def test_dead_part_ends_the_stack_with_its_last_log_line(tmp_path: Path) -> None:
    up = _up(tmp_path)
    os.kill(_pid(tmp_path, "s3"), signal.SIGKILL)

    output, _ = up.communicate(timeout=PATIENCE_SECONDS)

    assert up.returncode == 1
    at_once, _, at_the_end = output.partition("error: s3 ended with exit code -9")
    assert "s3 ended with exit code -9; stopping the rest" in at_once
    last = (tmp_path / "logs" / "s3.log").read_text().splitlines()[-1]
    assert last.strip() in at_the_end
    assert not list((tmp_path / "run").glob("*.pid"))


def test_rounds_are_scheduled_once_over_restarts(tmp_path: Path) -> None:
    outputs = []
    for _ in range(2):
        up = _up(tmp_path, "--worker")
        schedules = _sexton(tmp_path, "schedules", "list", "--json")
        applied = _sexton(tmp_path, "schedules", "apply")
        up.terminate()
        up.communicate(timeout=PATIENCE_SECONDS)
        outputs.append((len(json.loads(schedules)["items"]), applied.splitlines()[0].split(": ")[1].split(";")[0]))

    assert outputs == [(1, "unchanged"), (1, "unchanged")]


def _sexton(home: Path, *words: str) -> str:
    command = [Path(sys.executable).with_name("sexton"), *words]
    done = subprocess.run(command, env=variables(home), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sigterm_stops_every_part(tmp_path: Path) -> None:
    up = _up(tmp_path)
    pids = [_pid(tmp_path, name) for name in ("s3", "temporal")]
    up.terminate()
    output, _ = up.communicate(timeout=PATIENCE_SECONDS)

    assert up.returncode == 0, output
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_stack_starts_again_after_a_killed_one(tmp_path: Path) -> None:
    up = _up(tmp_path)
    old = _pid(tmp_path, "s3")
    up.kill()
    up.communicate(timeout=PATIENCE_SECONDS)

    stack = _start(tmp_path)
    try:
        stack.check()
        assert _gone(old)
    finally:
        stack.stop()


def _gone(pid: int) -> bool:
    """Ended: no such process, or one that only waits for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_pid_file_never_stops_a_foreign_process(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    record = {"pid": stranger.pid, "started": "1", "command": ["sleep", "60"]}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "s3.pid").write_text(json.dumps(record))

    stopped = stop_leftovers(tmp_path)
    time.sleep(0.2)

    assert stopped == []
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
