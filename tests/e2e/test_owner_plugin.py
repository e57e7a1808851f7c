"""The owner of docs/owner-plugin.md, installed as a package of its own, is connected, checked, held and cleaned."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sexton.database import schema
from sexton.database.engine import Database
from tests.e2e.conftest import Run, migrate
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.owner_package import install
from tests.support.rig import listing, put

TABLES = {"events": ["lake/events/0.parquet", "lake/events/1.parquet"], "users": ["lake/users/0.parquet"]}
REASON = ("--reason", "wait for the audit")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return install(tmp_path)


@pytest.fixture
def environment(environment: dict[str, str], package: Path) -> dict[str, str]:
    return environment | {"PYTHONPATH": str(package)}


@pytest.fixture
def worker(environment: dict[str, str], tmp_path: Path) -> Iterator[None]:
    migrate(tmp_path).db.close()
    command, log = [sys.executable, "-m", "sexton", "worker", "run"], tmp_path / "worker.log"
    with log.open("wb") as output, subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=output) as process:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()


@pytest.fixture
def lake(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The lake with two tables, and their objects, written long ago."""
    monkeypatch.syspath_prepend(package)
    from folder_lake import FolderLake

    (tmp_path / "metadata").mkdir()
    lake = FolderLake(tmp_path / "metadata")
    for name, keys in TABLES.items():
        lake.create(name, "disk", keys)
        for key in keys:
            put(tmp_path / "objects", key)
            os.utime(tmp_path / "objects" / key, (0, 0))
    return lake


def items(ran: subprocess.CompletedProcess[str]) -> Any:
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.slow
def test_the_owner_of_the_page_is_connected_and_cleaned(
    sexton: Run, environment: dict[str, str], lake: Any, worker: None, tmp_path: Path
) -> None:
    db, objects = Database.open(environment["SEXTON_DATABASE_URL"]), tmp_path / "objects"
    [shown] = [o for o in items(sexton("owner", "list", "--json"))["items"] if o["owner"] == "folder"]
    wrong = sexton("instance", "add", "lake", "--owner", "folder", "--option", "dir=/srv")
    add = ("instance", "add", "lake", "--owner", "folder", "--option", f"folder={lake.folder}")
    assert sexton(*add).returncode == sexton("vault", "add", "lake", "disk", "--local", str(objects)).returncode == 0
    checked = items(sexton("check", "run", "lake", "--json"))
    undropped, dropped = lake.drop("users"), lake.drop("events")
    observed, marks = items(sexton("plan", "lake", "--json")), items(sexton("marks", "list", "lake", "--json"))
    sexton("enable", "lake")
    schema.move_clock(db, 10_801)
    sexton("hold", "add", "lake", "--table", "events", "--for", "1h", *REASON)
    lake.undrop(undropped, "users")
    held = items(sexton("round", "run", "lake", "--json"))
    sexton("hold", "release", "1")
    deleted = items(sexton("round", "run", "lake", "--json"))
    why = sexton("why", dropped)

    assert (shown["package"], shown["options"]) == ("folder-lake", ["folder"])
    assert "the options of owner folder are wrong" in wrong.stderr
    assert (checked["run"]["state"], checked["found"]) == ("WHOLE", {})
    assert observed["plan"]["kinds"] == []  # they are marked, and not due
    assert {m["mark"] for m in marks["items"]} == {dropped, undropped}
    assert listing(objects) == dict.fromkeys(TABLES["users"], 10)
    assert (held["deleted"], deleted["deleted"]) == (0, 2)
    assert not list((lake.folder / "fenced").glob("*.json"))
    assert "deleted" in why.stdout
    assert json.loads(sexton("check", "run", "lake", "--json").stdout)["found"] == {}
    db.close()
