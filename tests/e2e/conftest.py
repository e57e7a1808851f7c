"""The `sexton` command, as a process or in this one, its environment, and a small database."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.interfaces.cli import main as cli
from sexton.recycle.rounds.model import CloseOrder
from tests.servers.forked import Forked
from tests.servers.postgres import live_url, new_database, shared
from tests.servers.temporal import DevServer
from tests.support.cli_json import check_json
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, put

Run = Callable[..., subprocess.CompletedProcess[str]]


DATABASES: dict[Path, str] = {}
"""The directory of a test → the URL of its database, which is empty unless ``migrate`` made it."""


def deployment_of(directory: Path) -> str:
    """Return the deployment of a test: on a shared Temporal server each has its own."""
    return f"test-{directory.name[-20:].replace('_', '-').strip('-').lower()}"


def migrate(directory: Path) -> Rig:
    """Give a test a database with the schema; return its rig."""
    name = ""
    if empty := DATABASES.get(directory):  # other fixtures have its URL
        shared().drop_database(empty)
        name = empty.rpartition("/")[2]
    DATABASES[directory] = new_database(deployment_of(directory), name)
    return Rig(DATABASES[directory], deployment=deployment_of(directory))


def settings(directory: Path, temporal: str) -> dict[str, str]:
    """Return the environment variables of a test's deployment."""
    if directory not in DATABASES:
        DATABASES[directory] = shared().create_database()
    return {
        "SEXTON_HOME": str(directory / "home"),
        "SEXTON_DATABASE_URL": DATABASES[directory],
        "SEXTON_LIVE_DATABASE_URL": live_url(DATABASES[directory]),
        "SEXTON_DEPLOYMENT": deployment_of(directory),
        "SEXTON_TEMPORAL__ADDRESS": temporal,
    }


@pytest.fixture
def environment(tmp_path: Path, temporal_server: DevServer) -> dict[str, str]:
    return os.environ | settings(tmp_path, temporal_server.address)


@pytest.fixture
def sexton(environment: dict[str, str], tmp_path: Path) -> Run:
    def run(*words: str, **extra: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sexton", *words]
        variables = {k: v for k, v in (environment | extra).items() if v}
        ran = subprocess.run(
            command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        check_json(words, ran.stdout)
        return ran

    return run


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process, with a Temporal address; standard input is the text ``typed``."""

    def run(temporal: str, *words: str, typed: str = "", **extra: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as m:
            for name, value in (settings(tmp_path, temporal) | extra).items():
                m.setenv(name, value)
            m.setattr(sys, "argv", ["sexton", *words])
            m.setattr(sys, "stdin", io.StringIO(typed))
            m.chdir(tmp_path)
            capsys.readouterr()
            code = cli.run()
        printed = capsys.readouterr()
        check_json(words, printed.out)
        return subprocess.CompletedProcess(words, code, printed.out, printed.err)

    return run


@pytest.fixture
def offline(in_process: Run) -> Run:
    """Run the command in this process, without Temporal."""
    return partial(in_process, "127.0.0.1:1")


@pytest.fixture
def online(in_process: Run, temporal_server: DevServer) -> Run:
    """Run the command in this process, with a Temporal server."""
    return partial(in_process, temporal_server.address)


@pytest.fixture
def worker(environment: dict[str, str], tmp_path: Path) -> Iterator[None]:
    process = Forked("worker", "sexton", ["worker", "run"], tmp_path, environment)
    process.start(lambda: "is polling" in process.log.read_text())
    yield
    assert process.stop() == 0


@pytest.fixture
def shop(tmp_path: Path) -> Rig:
    """Create a database with instance ``shop``, which only observes, vault ``disk`` and one due mark of one file."""
    rig = migrate(tmp_path).instance(enable=False)
    put(rig.local(tmp_path / "v"), "data/a.dat")
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("data/a.dat",), bytes=10))
    rig.later(10_801)
    return rig


def ended_round(rig: Rig, run: str = "run", **order: Any) -> int:
    """Open and close a round as its workflow does, with these fields of the order to close it; return its number."""
    opened = rig.rounds.open("shop", run, None, rig.policy)
    rig.rounds.close(CloseOrder(opened=opened, plan=None, outcome="SUCCEEDED", **order))
    return opened.round


def items(ran: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return what a command listed with ``--json``."""
    listed: list[dict[str, Any]] = json.loads(ran.stdout)["items"]
    return listed


def findings(doctor: Run, **extra: str) -> dict[str, dict[str, Any]]:
    """Return what `sexton doctor` found, by what it is about."""
    return {finding["about"]: finding for finding in items(doctor("doctor", "--json", **extra))}
