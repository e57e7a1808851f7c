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

from sexton.client import SIGNATURE_HEADER, is_signed
from sexton.runtime.embedded.ports import free_port
from tests.e2e.conftest import settings
from tests.servers.forked import Forked
from tests.servers.http import Asked, answering
from tests.servers.temporal import DevServer
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.rig import Rig

pytestmark = pytest.mark.slow

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


def variables(directory: Path, temporal: str, **extra: str) -> dict[str, str]:
    """Return the whole environment of a worker: SEXTON_HOME is the deployment's own, so nothing else is read."""
    return settings(directory, temporal) | {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path.cwd())} | extra


def test_worker_without_its_server_ends_with_a_sentence(shop: Rig, tmp_path: Path, temporal_server: DevServer) -> None:
    nowhere = {"SEXTON_TEMPORAL__NAMESPACE": "nowhere"}
    for module, arguments, env, sentences in [
        ("sexton", ["worker", "run"], variables(tmp_path, "127.0.0.1:1"), ("cannot reach Temporal at 127.0.0.1:1;",)),
        ("worker", [], variables(tmp_path, "127.0.0.1:1"), ("error: cannot reach Temporal at 127.0.0.1:1; start it",)),
        (
            "sexton",
            ["worker", "run"],
            variables(tmp_path, temporal_server.address, **nowhere),
            ("has no namespace nowhere for this program", "or set SEXTON_TEMPORAL__NAMESPACE"),
        ),
    ]:
        worker = Forked("worker", module, arguments, tmp_path, env)
        worker.start(lambda: True)
        eventually("the worker has ended", worker.exit_code, lambda code: code is not None)
        printed = worker.log.read_text()

        assert (worker.exit_code(), printed.count("\n")) == (1, 1), printed
        assert [sentence for sentence in sentences if sentence not in printed] == []


@pytest.mark.parametrize(
    ("error", "printed"),
    [("SextonError('no server')", "error: no server\n"), ("ValueError('a defect')", "ValueError: a defect\n")],
)
def test_failed_program_skips_the_interpreters_exit(error: str, printed: str) -> None:
    code = ABORTING_EXIT.format(error=error)

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS)

    assert ended.returncode == 1
    assert ended.stderr.endswith(printed)


def test_worker_and_temporals_sdk_log_json(shop: Rig, tmp_path: Path, temporal_server: DevServer) -> None:
    """The worker says that no schedule runs; when its server is lost, the SDK says so."""
    with cuttable(temporal_server.address) as (address, cut):
        env = variables(tmp_path, address, SEXTON_LOG__FORMAT="json")
        worker = Forked("worker", "sexton", ["worker", "run"], tmp_path, env)
        worker.start(lambda: "is polling" in worker.log.read_text())
        cut()
        eventually("the SDK warns", lambda: "sdk_core" in worker.log.read_text())
        worker.kill()
    lines = [json.loads(line) for line in worker.log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    of_sdk = [line for line in lines if "sdk_core" in line["logger"]]

    assert any(line["level"] == "warning" and "no schedule was applied" in line["event"] for line in lines)
    assert {line["deployment"] for line in lines} == {env["SEXTON_DEPLOYMENT"]}
    assert {line["role"] for line in lines if line not in of_sdk} == {"control"}
    assert {line["level"] for line in of_sdk} == {"warning"}


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


def test_a_second_worker_of_a_machine_is_scraped_too(shop: Rig, tmp_path: Path, temporal_server: DevServer) -> None:
    """It takes the next free port, which its log and its row name."""
    port = free_port()
    env = variables(tmp_path, temporal_server.address, SEXTON_METRICS__LISTEN=f"127.0.0.1:{port}")
    workers = [Forked(f"worker-{n}", "sexton", ["worker", "run"], tmp_path, env) for n in range(2)]
    for worker in workers:
        worker.start(lambda log=worker.log: "is polling" in log.read_text())
    ports = [int(worker.metrics.rpartition(":")[2]) for worker in shop.all_stores.workers.present()]
    for one in ports:
        eventually("it is ready", lambda one=one: _get(one, "/readyz")[0] == 200)
    scraped = [
        eventually(
            "the SDK has metrics",
            lambda one=one: _get(one, "/metrics")[1],
            lambda s: "temporal_num_pollers{" in s,
        )
        for one in ports
    ]

    assert [worker.stop() for worker in workers] == [0, 0]
    assert (len(set(ports)), port in ports) == (2, True)
    assert [f'sexton_up{{deployment="{env["SEXTON_DEPLOYMENT"]}"}} 1.0' in text for text in scraped] == [True, True]
    used = next(one for one in ports if one != port)
    assert f"the next free port is {used}" in workers[1].log.read_text()


def test_a_worker_tells_a_webhook_what_needs_an_operator(shop: Rig, tmp_path: Path, temporal_server: DevServer) -> None:
    """No schedule was applied: the worker itself finds out that nothing begins a round."""
    asked: list[Asked] = []
    with answering(lambda request: asked.append(request) or (200, b"ok")) as url:
        env = variables(tmp_path, temporal_server.address, SEXTON_NOTICES__URL=url, SEXTON_NOTICES__SECRET="s" * 32)
        worker = Forked("worker", "sexton", ["worker", "run"], tmp_path, env)
        worker.start(lambda: "is polling" in worker.log.read_text())
        eventually("it posts", lambda: asked)
        stopped = worker.stop()

    notice = json.loads(asked[0].body)
    assert (stopped, len(asked)) == (0, 1)
    assert (notice["deployment"], notice["instance"]) == (env["SEXTON_DEPLOYMENT"], "shop")
    assert (notice["severity"], notice["held_by"], notice["event"]) == ("overdue", "overdue", "appeared")
    assert is_signed("s" * 32, asked[0].headers[SIGNATURE_HEADER], "/", asked[0].body, time.time())


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
