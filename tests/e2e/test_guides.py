"""The two pages that a new user follows, run as they are written, by roles of PostgreSQL with no other rights.

The commands of docs/first-day.md and the SQL of docs/integration.md make one story. What a page leaves to its reader
(hosts, buckets, numbers of plans) is filled in here, and nothing else is changed.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.servers.postgres import Cluster
from tests.servers.s3 import RunningS3
from tests.servers.temporal import DevServer
from tests.support.eventually import PATIENCE_SECONDS, eventually

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = "lake"
EXIT_CODES = {"sexton plan shop": 2, "sexton doctor": 1}
"""Exit codes other than 0: something is due; something is missing, here the vault and the worker."""
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
        self.worker: subprocess.Popen[bytes] | None = None
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
            elif command.endswith("sexton worker run"):
                self._start_worker(command)
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
        assert done.returncode == EXIT_CODES.get(command, 0), (command, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def _start_worker(self, command: str) -> None:
        log = self._home / "worker.log"
        with log.open("wb") as out:
            script = self._script(command.replace("sexton worker", "exec sexton worker"))
            self.worker = subprocess.Popen(script, env=self._variables, cwd=self._home, stdout=out, stderr=out)
        worker = self.worker

        def is_polling() -> bool:
            assert worker.poll() is None, log.read_text()
            return "is polling" in log.read_text()

        eventually("the worker polls", is_polling)

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.send_signal(signal.SIGTERM)
            self.worker.wait(PATIENCE_SECONDS)


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
    planned = reader.type(plan)["sexton plan shop"]
    reader.filled_in["PLAN"] = re.findall(r"sexton apply (\d+)", planned)[-1]
    applied = reader.type(delete.partition("\n")[0] + "\n" + delete.splitlines()[1])["sexton apply PLAN"]
    reader.filled_in["ROUND"] = re.findall(r"round (\d+)", applied)[-1]
    deleted = reader.type("\n".join(delete.splitlines()[2:]))["sexton deletions ROUND"]
    reader.type("sexton start shop")
    status = reader.type(schedules)["sexton status"]
    [examined] = reader.type("sexton doctor --json").values()
    findings = {finding["about"]: finding["state"] for finding in json.loads(examined)["items"]}

    assert ("data/r-0/0.dat" in deleted, "data/r-1" in deleted) == (True, False)
    left = [o["Key"] for o in store.list_objects_v2(Bucket=bucket, Prefix=f"{FOLDER}/data/").get("Contents", [])]
    assert left == [f"{FOLDER}/data/r-1/0.dat", f"{FOLDER}/data/r-2/0.dat"]  # undropped, and live
    assert "it kept: 1 by live" in status
    assert {about: state for about, state in findings.items() if state == "FAIL"} == {}
