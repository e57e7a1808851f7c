"""A worker that cannot work ends with one sentence and a nonzero exit code; others share a machine."""

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sexton.database.engine import Database
from sexton.runtime.embedded.ports import free_port
from tests.e2e.conftest import settings
from tests.servers.temporal import DevServer

pytestmark = pytest.mark.slow

COMMAND = ("sexton", "worker", "run")
# Whatever runs at the interpreter's own exit aborts the process, as Temporal's threads sometimes do there.
ABORTING_EXIT = """
import atexit, os
from sexton.kernel.errors import SextonError
from sexton.runtime.temporal.client import run
atexit.register(os.abort)
async def main():
    raise {error}
run(main())
"""


def _run(program: tuple[str, ...], directory: Path, temporal: str, **extra: str) -> subprocess.CompletedProcess[str]:
    # SEXTON_HOME is the deployment's own, so nothing else of this machine is read.
    variables = settings(directory, temporal) | {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path.cwd())} | extra
    command = [sys.executable, "-m", *program]
    return subprocess.run(command, env=variables, cwd=directory, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", [COMMAND, ("worker",)], ids=" ".join)
def test_worker_without_temporal_ends_with_a_sentence(shop: Database, tmp_path: Path, program: tuple[str, ...]) -> None:
    ended = _run(program, tmp_path, "127.0.0.1:1")

    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "error: cannot reach Temporal at 127.0.0.1:1; start it" in ended.stderr


def test_worker_of_an_unknown_namespace_names_the_setting(
    shop: Database, tmp_path: Path, temporal_server: DevServer
) -> None:
    ended = _run(COMMAND, tmp_path, temporal_server.address, SEXTON_TEMPORAL__NAMESPACE="nowhere")

    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "has no namespace nowhere for this program" in ended.stderr
    assert "or set SEXTON_TEMPORAL__NAMESPACE" in ended.stderr


@pytest.mark.parametrize(
    ("error", "printed"),
    [("SextonError('no server')", "error: no server\n"), ("ValueError('a defect')", "ValueError: a defect\n")],
)
def test_failed_program_skips_the_interpreters_exit(error: str, printed: str) -> None:
    code = ABORTING_EXIT.format(error=error)

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert ended.returncode == 1
    assert ended.stderr.endswith(printed)


def test_worker_logs_json_and_says_that_no_schedule_runs(
    shop: Database, tmp_path: Path, temporal_server: DevServer
) -> None:
    at = settings(tmp_path, temporal_server.address)
    variables = at | {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path.cwd()), "SEXTON_LOG__FORMAT": "json"}
    command = [sys.executable, "-m", "sexton", "worker", "run"]
    lines = []
    with subprocess.Popen(command, env=variables, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        for line in worker.stderr:
            lines.append(json.loads(line))
            if "is polling" in lines[-1]["event"]:
                worker.terminate()
        assert worker.wait(60) == 0

    assert any(line["level"] == "warning" and "no schedule was applied" in line["event"] for line in lines)
    assert {(line["role"], line["deployment"]) for line in lines} == {("control", at["SEXTON_DEPLOYMENT"])}


def test_lines_of_temporals_sdk_are_json_too(shop: Database, tmp_path: Path, temporal_server: DevServer) -> None:
    with cuttable(temporal_server.address) as (address, cut):
        at = settings(tmp_path, address)
        variables = at | {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path.cwd()), "SEXTON_LOG__FORMAT": "json"}
        command = [sys.executable, "-m", "sexton", "worker", "run"]
        sdk_lines = []
        with subprocess.Popen(
            command, env=variables, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as worker:
            assert worker.stdout is not None
            try:
                for text in worker.stdout:
                    line = json.loads(text)
                    if "is polling" in line["event"]:
                        cut()
                    elif "sdk_core" in line["logger"]:
                        sdk_lines.append(line)
                        break
            finally:
                worker.kill()

    assert {(line["level"], line["deployment"]) for line in sdk_lines} == {("warning", at["SEXTON_DEPLOYMENT"])}


@contextmanager
def cuttable(address: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Relay connections to a server; yield the relay's address, and what ends it with all of its connections."""
    host, port = address.split(":")
    listening = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                pair = (listening.accept()[0], socket.create_connection((host, int(port))))
                ends.extend(pair)
                for source, target in (pair, pair[::-1]):
                    threading.Thread(target=copy, args=(source, target), daemon=True).start()

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)

    def cut() -> None:
        for end in (listening, *ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}", cut
    finally:
        cut()


def test_two_workers_of_a_machine_share_the_default_port(
    shop: Database, tmp_path: Path, temporal_server: DevServer
) -> None:
    """The first one serves metrics and health; the second one logs one warning, and works."""
    port = free_port()
    variables = settings(tmp_path, temporal_server.address) | {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path.cwd())}
    variables["SEXTON_METRICS__LISTEN"] = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "sexton", "worker", "run"]
    logs = [tmp_path / f"{n}.log" for n in range(2)]
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for log in logs:
            with log.open("w") as output:
                workers.append(subprocess.Popen(command, env=variables, cwd=tmp_path, stdout=output, stderr=output))
            _until(lambda log=log: "is polling" in log.read_text())
        _until(lambda: _get(port, "/readyz")[0] == 200)
        _until(lambda: "temporal_num_pollers{" in _get(port, "/metrics")[1])
        scraped = _get(port, "/metrics")[1]
        for process in workers:
            process.terminate()
        codes = [process.wait(60) for process in workers]
    finally:
        for process in workers:
            process.kill()

    assert codes == [0, 0]
    assert f'sexton_up{{deployment="{variables["SEXTON_DEPLOYMENT"]}"}} 1.0' in scraped
    assert [log.read_text().count("no metrics") for log in logs] == [0, 1]


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)
