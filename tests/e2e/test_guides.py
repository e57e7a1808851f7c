"""The pages that a new user follows, run as they are written, by roles of PostgreSQL with no other rights.

The commands of docs/first-day.md and the SQL of docs/integration.md make one story, those of docs/trial.md and the
README another. What a page leaves to its reader (hosts, buckets, numbers of plans) is filled in here, and nothing else
is changed. What README.md shows of the demo is compared by test_demo.py.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import psycopg
import pytest

from sexton.runtime.embedded.up import WITHOUT_TICKS
from tests.servers.postgres import Cluster
from tests.servers.s3 import RunningS3
from tests.servers.temporal import DevServer
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.surroundings import variables as of_home

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = "lake"
EXIT_CODES = {"sexton plan shop": 2, "sexton plan trial": 2, "sexton doctor": 1}
"""Exit codes other than 0: something is due; something is missing, here the vault and the worker."""
SERVES = {"sexton worker run": "is polling", "sexton up": "Ctrl-C stops the stack"}
"""Commands that run until a signal → what they print when they are ready."""
READ_OFF = {
    "sexton plan shop": {"PLAN": r"sexton apply (\d+)"},
    "sexton plan trial": {"PLAN": r"sexton apply (\d+)"},
    "sexton apply PLAN": {"ROUND": r"round (\d+)"},
}
"""Commands → the number that their reader needs next → where it is in what they print."""
WRONG_MARK = """
INSERT INTO sexton.mark (instance, kind, id, vault, keys)
VALUES ('shop', 'compacted', 'f-2', 'cold', '["data/r-2/0.dat"]');
"""
"""A mark of an object that the live view of the page shows."""


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of code of a page in one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


class Reader:
    """A new user: types the commands of a page into one shell, and fills in what the page leaves open."""

    def __init__(self, home: Path, variables: dict[str, str], filled_in: dict[str, str]) -> None:
        self._home, self._variables, self.filled_in = home, variables, filled_in
        self._exports: list[str] = []
        self._serving: list[subprocess.Popen[bytes]] = []
        programs = home / "bin"
        programs.mkdir()
        for name, module in (("sexton", "-m sexton"), ("python", "")):
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            (programs / name).chmod(0o755)
        self._variables["PATH"] = f"{programs}:{variables['PATH']}"

    def type(self, block: str) -> dict[str, str]:
        """Type a block of commands; return what each one printed, by the command as the page has it."""
        printed = {}
        for line in block.splitlines():
            command = line.partition("  #")[0].strip()
            if command.startswith("export "):
                self._exports.append(self._fill_in(command))
            elif command in SERVES:
                self._start(command)
            else:
                printed[command] = self._run(command)
        return printed

    def _fill_in(self, command: str) -> str:
        for left_open, value in self.filled_in.items():
            command = re.sub(rf"\b{re.escape(left_open)}(?![A-Z])", value, command)
        return command

    def _script(self, command: str) -> list[str]:
        return ["bash", "-c", "\n".join([*self._exports, self._fill_in(command)])]

    def _run(self, command: str) -> str:
        done = subprocess.run(
            self._script(command),
            env=self._variables,
            cwd=self._home,
            input="y\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == EXIT_CODES.get(command, 0), (command, printed)
        for name, pattern in READ_OFF.get(command, {}).items():
            self.filled_in[name] = re.findall(pattern, printed)[-1]
        return printed

    def log(self, command: str) -> Path:
        """Return the file with what a command that serves has printed."""
        return self._home / f"{command.replace(' ', '-')}.log"

    def _start(self, command: str) -> None:
        log = self.log(command)
        with log.open("wb") as out:
            script = self._script(f"exec {command}")
            process = subprocess.Popen(script, env=self._variables, cwd=self._home, stdout=out, stderr=out)
        self._serving.append(process)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return SERVES[command] in log.read_text()

        eventually(f"{command} is ready", is_ready)

    def stop(self) -> None:
        for process in self._serving:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_SECONDS)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of its own: the pages name roles and a database."""
    cluster = Cluster(fsync=False)
    yield cluster
    cluster.stop()


@pytest.fixture
def reader(
    cluster: Cluster, tmp_path: Path, s3_server: RunningS3, bucket: str, temporal_server: DevServer
) -> Iterator[Reader]:
    variables = os.environ | {"SEXTON_HOME": str(tmp_path / "home"), "SEXTON_DEPLOYMENT": "test-guides"}
    host = f"127.0.0.1:{cluster.port}"
    filled_in = {
        "USER@HOST": f"sexton_svc@{host}",
        "_reader@HOST": f"_reader@{host}",
        "127.0.0.1:7233": temporal_server.address,
        "BUCKET/PREFIX": f"{bucket}/{FOLDER} --endpoint {s3_server.endpoint_url}",
        "KEY": "data/r-1/0.dat",
    }
    reader = Reader(tmp_path, variables, filled_in)
    yield reader
    reader.stop()


def send(cluster: Cluster, role: str, sql: str) -> None:
    """Send a block of SQL as a role, as ``psql -f`` does."""
    url = f"postgresql://{role}@127.0.0.1:{cluster.port}/shop"
    with psycopg.connect(url, autocommit=True) as c:
        c.execute(sql.encode())


@pytest.mark.slow
def test_the_pages_of_a_new_user_work_as_written(
    cluster: Cluster, reader: Reader, s3_server: RunningS3, bucket: str
) -> None:
    with psycopg.connect(cluster.url().replace("+psycopg", ""), autocommit=True) as c:
        c.execute("CREATE DATABASE shop")
    administrator, tables, prepare, load, drop, undrop, by_keys, extra, reads, *_ = blocks("integration.md", "sql")
    schema, instance, check, plan, delete, schedules = blocks("first-day.md", "sh")
    store = s3_server.client()

    send(cluster, "postgres", administrator)
    reader.type(schema)
    reader.type(instance)
    for sql in (tables, prepare):
        send(cluster, "shop_app", sql)
    for key, size in (("r-1/0", 1000), ("r-2/0", 2000), ("r-0/0", 250), ("r-0/1", 250)):
        store.put_object(Bucket=bucket, Key=f"{FOLDER}/data/{key}.dat", Body=bytes(size))
    for sql in (load, drop, undrop, by_keys, extra, WRONG_MARK, reads):
        send(cluster, "shop_app", sql)
    reader.type("sexton trial advance 4d")
    reader.type(check)
    reader.type(plan)
    deleted = reader.type(delete)["sexton deletions ROUND"]
    reader.type("sexton start shop")
    status = reader.type(schedules)["sexton status"]
    [examined] = reader.type("sexton doctor --json").values()
    findings = {finding["about"]: finding["state"] for finding in json.loads(examined)["items"]}

    assert ("data/r-0/0.dat" in deleted, "data/r-1" in deleted) == (True, False)
    left = [o["Key"] for o in store.list_objects_v2(Bucket=bucket, Prefix=f"{FOLDER}/data/").get("Contents", [])]
    assert left == [f"{FOLDER}/data/r-1/0.dat", f"{FOLDER}/data/r-2/0.dat"]  # undropped, and live
    assert "it kept: 1 by live" in status
    healthy = (DOCS / "first-day.md").read_text().partition("A healthy status:")[2].split("```")[1]
    assert [line for line in re.findall(r"(?m)^  [a-z ,]+: ", healthy) if line not in status] == []
    assert {about: state for about, state in findings.items() if state == "FAIL"} == {}


@pytest.mark.slow
def test_the_trial_and_the_readme_work_as_written(tmp_path: Path) -> None:
    _, begin, use = blocks("trial.md", "sh")
    [program] = blocks("trial.md", "python")
    _, operate = blocks("../README.md", "sh")
    (tmp_path / "mark.py").write_text(program)
    reader = Reader(tmp_path, of_home(tmp_path / ".sexton"), {"KEY": "data/r-1/0.dat", "INSTANCE": "trial"})
    try:
        reader.type(begin)
        printed = reader.type(use) | reader.type(operate)
        up = reader.log("sexton up").read_text()
        [(link, token)] = re.findall(r"(http://\S+)/console\n +log in with (sxt_\S+), which ends after 30 days", up)
        listed = httpx.get(f"{link}/v1/instances", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        console = httpx.get(f"{link}/console/login", trust_env=False)
    finally:
        reader.stop()

    assert "deleted" in printed["sexton why data/r-1/0.dat"]
    assert not (tmp_path / "files/data/r-1/0.dat").exists()
    assert [instance["instance"] for instance in listed.json()["items"]] == ["trial"]
    assert console.status_code == 200
    assert re.search(rf"Temporal UI  http://\S+\?query={re.escape(quote(WITHOUT_TICKS))}\n", up)
