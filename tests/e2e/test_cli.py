"""The `sexton` command as an operator types it: its words, its refusals, its exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.db import schema
from sexton.db.engine import Database
from tests.rig import Rig, listing, put
from tests.servers.temporal import DevServer

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path, temporal_server: DevServer) -> dict[str, str]:
    return os.environ | {
        "SEXTON_HOME": str(tmp_path / "home"),
        "SEXTON_DATABASE_URL": f"sqlite:///{tmp_path / 'sexton.db'}",
        "SEXTON_DEPLOYMENT": f"test-{tmp_path.name[-20:].replace('_', '-').strip('-').lower()}",
        "SEXTON_TEMPORAL__ADDRESS": temporal_server.address,
    }


@pytest.fixture
def sexton(environment: dict[str, str], tmp_path: Path) -> Run:
    def run(*words: str, **extra: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sexton.cli", *words]
        given = {k: v for k, v in (environment | extra).items() if v}
        return subprocess.run(command, env=given, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    return run


@pytest.fixture
def worker(environment: dict[str, str], tmp_path: Path) -> Iterator[None]:
    with (tmp_path / "worker.log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "worker"], env=environment, stdout=log, stderr=log)
        yield
        process.terminate()
        assert process.wait(30) == 0


@pytest.fixture
def shop(sexton: Run, environment: dict[str, str], tmp_path: Path) -> Database:
    """An initialised database with instance ``shop``, vault ``disk`` and one due mark of one file."""
    assert sexton("init").returncode == 0
    assert sexton("instance", "add", "shop").returncode == 0
    put(tmp_path / "v", "data/a.dat")
    assert sexton("vault", "add", "shop", "disk", "--local", str(tmp_path / "v")).returncode == 0
    db = Database.open(environment["SEXTON_DATABASE_URL"])
    from sexton import contract

    with db.write() as c:
        contract.mark(c, "shop", "dropped", [NewMark(id="t1", vault="disk", keys=("data/a.dat",), bytes=10)])
    schema.move_clock(db, 10_801)
    return db


def test_from_init_to_gone(sexton: Run, shop: Database, worker: None, tmp_path: Path) -> None:
    planned = sexton("plan", "shop", "--json")
    refused = sexton("apply", str(json.loads(planned.stdout)["id"]), "--yes")
    enabled = sexton("enable", "shop")
    applied = sexton("apply", str(json.loads(planned.stdout)["id"]), "--yes", "--json")

    assert planned.returncode == 2
    assert (refused.returncode, "sexton enable shop" in refused.stderr) == (1, True)
    assert enabled.returncode == 0
    assert applied.returncode == 0
    assert json.loads(applied.stdout)["deleted"] == 1
    assert listing(tmp_path / "v") == {}
    assert sexton("plan", "shop").returncode == 0
    again = sexton("apply", str(json.loads(planned.stdout)["id"]), "--yes")
    assert (again.returncode, "not an open plan" in again.stderr) == (1, True)
    story = sexton("why", "data/a.dat").stdout
    assert "marked dropped in vault disk" in story
    assert "gone: 1 objects, 10 bytes" in story


def test_status_and_why_need_no_temporal(sexton: Run, shop: Database) -> None:
    away = {"SEXTON_TEMPORAL__ADDRESS": "127.0.0.1:1"}

    status = sexton("status", **away)
    story = sexton("why", "t1", **away)
    apply = sexton("round", "run", "shop", **away)

    assert status.returncode == 0
    assert "shop: observe" in status.stdout
    assert (story.returncode, "due" in story.stdout) == (0, True)
    assert (apply.returncode, "cannot reach Temporal at 127.0.0.1:1" in apply.stderr) == (1, True)


def test_apply_asks_before_it_deletes(sexton: Run, shop: Database, tmp_path: Path) -> None:
    sexton("enable", "shop")
    plan = json.loads(sexton("plan", "shop", "--json").stdout)["id"]

    unanswered = sexton("apply", str(plan))

    assert unanswered.returncode == 1
    assert listing(tmp_path / "v") == {"data/a.dat": 10}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("plan", "nobody"), "unknown instance nobody"),
        (("enable", "nobody"), "unknown instance nobody"),
        (("apply", "99", "--yes"), "there is no plan 99"),
        (("instance", "add", "Shop!"), "instance 'Shop!' was refused"),
        (("vault", "add", "shop", "x"), "name one place"),
        (("vault", "add", "nobody", "x", "--local", "."), "unknown instance nobody"),
        (("vault", "add", "shop", "x", "--local", "/no/such/place"), "NO_BUCKET"),
        (("vault", "add", "shop", "x", "--local", "v"), "overlaps vault disk"),
        (("contract", "test", "--dsn", "mysql://x/y"), "SQLite or PostgreSQL"),
    ],
)
def test_wrong_input_is_one_sentence_and_no_traceback(
    sexton: Run, shop: Database, words: tuple[str, ...], says: str
) -> None:
    refused = sexton(*words)

    assert refused.returncode == 1
    assert says in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_without_a_schema_or_a_deployment_each_word_says_what_to_do(sexton: Run) -> None:
    no_schema = sexton("status")
    no_deployment = sexton("status", SEXTON_DEPLOYMENT="")

    assert (no_schema.returncode, "run: sexton init" in no_schema.stderr) == (1, True)
    assert (no_deployment.returncode, "sexton init" in no_deployment.stderr) == (1, True)


def test_init_prints_a_new_deployment_once_and_never_adopts_a_copy(sexton: Run) -> None:
    first = sexton("init", SEXTON_DEPLOYMENT="")
    second = sexton("init", SEXTON_DEPLOYMENT="")
    other = sexton("init")

    assert first.returncode == 0
    assert "SEXTON_DEPLOYMENT=sexton-" in first.stdout
    assert (second.returncode, "belongs to deployment sexton-" in second.stderr) == (1, True)
    assert (other.returncode, "belongs to deployment sexton-" in other.stderr) == (1, True)


def test_a_vault_ahead_of_its_database_is_trusted_only_on_command(sexton: Run, shop: Database, tmp_path: Path) -> None:
    marker = tmp_path / "v" / "_sexton" / "vault.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"round": 99, "run": "of a newer copy"}))

    behind = sexton("vault", "list", "shop", "--json")
    unanswered = sexton("vault", "trust", "shop", "disk")
    still = sexton("vault", "list", "shop", "--json")
    trusted = sexton("vault", "trust", "shop", "disk", "--yes")
    ours = sexton("vault", "list", "shop", "--json")

    assert json.loads(behind.stdout)[0]["proof"].startswith("BEHIND")
    assert unanswered.returncode == 1
    assert json.loads(still.stdout)[0]["proof"].startswith("BEHIND")
    assert trusted.returncode == 0
    assert json.loads(ours.stdout)[0]["proof"] == "ours"


def test_contract_test_races_and_leaves_nothing_behind(sexton: Run, shop: Database) -> None:
    raced = sexton("contract", "test", "--marks", "400")

    assert raced.returncode == 0, raced.stdout + raced.stderr
    assert "committed and claimed both: 0" in raced.stdout
    left = Rig.__new__(Rig)
    left.db = shop
    assert [left.count(t) for t in ("instance", "mark", "mark_history", "round", "batch")] == [1, 1, 0, 0, 0]


def test_the_printed_schema_is_sql(sexton: Run) -> None:
    for dialect in ("sqlite", "postgresql"):
        printed = sexton("init", "--print-sql", "--dialect", dialect)

        assert printed.returncode == 0
        assert "CREATE TABLE sexton" in printed.stdout
