"""The `sexton` command works from init to a deleted mark; exit codes tell of wrong input and of lost objects."""

import importlib.metadata
import json
from pathlib import Path

import pytest

from sexton import contract
from sexton.contract import NewMark
from sexton.database import schema
from sexton.database.engine import Database
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.registry.store import Registry
from sexton.operators.stores import operator_stores
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.sql.store import RoundStore
from tests.e2e.conftest import Run
from tests.support.rig import GRACE, INTERVAL, RETENTION, Rig, listing, put


@pytest.mark.slow
def test_first_day_from_init_to_a_deleted_mark(
    sexton: Run, online: Run, environment: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    initialised = sexton("init")
    request.getfixturevalue("worker")
    assert online("instance", "add", "shop").returncode == 0
    put(tmp_path / "v", "data/a.dat")
    assert online("vault", "add", "shop", "disk", "--local", str(tmp_path / "v")).returncode == 0
    db = Database.open(environment["SEXTON_DATABASE_URL"])
    with db.write() as c:
        contract.mark(c, "shop", "dropped", [NewMark(id="t1", vault="disk", keys=("data/a.dat",), bytes=10)])
    schema.move_clock(db, 10_801)
    planned = sexton("plan", "shop", "--json")
    plan = str(json.loads(planned.stdout)["plan"]["plan"])
    refused = online("apply", plan, "--yes")
    enabled = online("enable", "shop")
    applied = sexton("apply", plan, "--yes", "--json")

    assert (initialised.returncode, "sexton schedules apply" in initialised.stdout) == (0, True)
    assert planned.returncode == 2
    assert (refused.returncode, "sexton enable shop" in refused.stderr) == (1, True)
    assert enabled.returncode == 0
    assert (applied.returncode, applied.stderr) == (0, "")
    assert json.loads(applied.stdout)["deleted"] == 1
    assert listing(tmp_path / "v") == {}
    assert online("plan", "shop").returncode == 0
    again = online("apply", plan, "--yes")
    assert (again.returncode, again.stdout, "of shop is APPLIED and cannot be applied" in again.stderr) == (1, "", True)
    story = online("why", "data/a.dat").stdout
    assert "marked dropped in vault disk" in story
    assert "gone: 1 object, 10 bytes" in story


def test_the_version_is_that_of_the_package(offline: Run) -> None:
    shown = offline("--version")

    assert (shown.returncode, shown.stdout) == (0, f"sexton {importlib.metadata.version('sexton')}\n")


def test_status_and_why_need_no_temporal(offline: Run, shop: Database) -> None:
    status = offline("status")
    story = offline("why", "t1")
    apply = offline("round", "run", "shop")

    assert status.returncode == 0
    assert "shop: observe" in status.stdout
    assert offline("status", "shop").stdout == status.stdout
    assert "unknown instance nosuch" in offline("status", "nosuch").stderr
    assert (story.returncode, "due" in story.stdout) == (0, True)
    assert (apply.returncode, "cannot reach Temporal at 127.0.0.1:1" in apply.stderr) == (1, True)


def test_status_distinguishes_running_and_interrupted_rounds(offline: Run, shop: Database) -> None:
    Registry(shop).enable("shop")
    waits = json.loads(offline("status", "--json").stdout)
    rounds = RoundStore(shop, LeaseStore(shop), operator_stores(shop), INTERVAL)
    rounds.open("shop", "run-1", None, policy(RETENTION, GRACE))

    runs = offline("status")
    schema.move_clock(shop, 61)
    cut_off = offline("status")

    [instance] = waits["instances"]
    assert (waits["slots_used"], waits["slots"]) == (0, 16)
    assert (instance["running"], instance["next_round_at"] <= instance["now_at"], instance["failures"]) == (
        None,
        True,
        0,
    )
    assert "1 of 16 slots" in runs.stdout
    assert "shop: enabled, round 1 is running since" in runs.stdout
    assert "UTC" in runs.stdout
    assert "0 of 16 slots" in cut_off.stdout
    assert "round 1 lost its lease: no worker has it" in cut_off.stdout


def test_apply_asks_for_confirmation(online: Run, shop: Database, tmp_path: Path) -> None:
    online("enable", "shop")
    plan = json.loads(online("plan", "shop", "--json").stdout)["plan"]["plan"]

    unanswered = online("apply", str(plan))

    assert unanswered.returncode == 1
    assert listing(tmp_path / "v") == {"data/a.dat": 10}


def test_wrong_input_is_one_sentence_and_no_traceback(offline: Run, shop: Database) -> None:
    for words, says in [
        (("plan", "nobody"), "unknown instance nobody"),
        (("enable", "nobody"), "unknown instance nobody"),
        (("apply", "99", "--yes"), "there is no plan 99"),
        (("instance", "add", "Shop!"), "instance 'Shop!' was refused"),
        (("vault", "list", "nobody"), "unknown instance nobody"),
        (("vault", "add", "nobody", "x", "--local", "."), "unknown instance nobody"),
        (("vault", "add", "shop", "x", "--local", "/no/such/place"), "NO_BUCKET"),
        (("vault", "add", "shop", "x", "--local", "v"), "overlaps vault disk"),
        (("contract", "test", "--dsn", "mysql://x/y"), "Sexton needs PostgreSQL"),
    ]:
        refused = offline(*words)

        assert refused.returncode == 1
        assert says in refused.stderr
        assert "Traceback" not in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_missing_schema_or_deployment_error_names_sexton_init(offline: Run) -> None:
    no_schema = offline("status")
    no_deployment = offline("status", SEXTON_DEPLOYMENT="")

    assert (no_schema.returncode, "run: sexton init" in no_schema.stderr) == (1, True)
    assert (no_deployment.returncode, "sexton init" in no_deployment.stderr) == (1, True)


def test_init_prints_a_deployment_once_and_adopts_no_copy(offline: Run) -> None:
    first = offline("init", SEXTON_DEPLOYMENT="")
    second = offline("init", SEXTON_DEPLOYMENT="")
    other = offline("init")

    assert first.returncode == 0
    assert "SEXTON_DEPLOYMENT=sexton-" in first.stdout
    assert (second.returncode, "belongs to deployment sexton-" in second.stderr) == (1, True)
    assert (other.returncode, "belongs to deployment sexton-" in other.stderr) == (1, True)


def test_vault_ahead_of_its_database_is_trusted_on_command(offline: Run, shop: Database, tmp_path: Path) -> None:
    marker = tmp_path / "v" / "_sexton" / "vault.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"round": 99, "run": "of a newer copy"}))

    behind = offline("vault", "list", "shop", "--json")
    unanswered = offline("vault", "trust", "shop", "disk", "--reason", "a restore")
    still = offline("vault", "list", "shop", "--json")
    trusted = offline("vault", "trust", "shop", "disk", "--reason", "a restore", "--yes")
    after = offline("vault", "list", "shop", "--json")

    assert (behind.returncode, json.loads(behind.stdout)["items"][0]["proof"][:6]) == (1, "BEHIND")
    assert unanswered.returncode == 1
    assert json.loads(still.stdout)["items"][0]["proof"].startswith("BEHIND")
    assert trusted.returncode == 0
    assert (after.returncode, json.loads(after.stdout)["items"][0]["proof"]) == (0, "ours")


@pytest.mark.slow
def test_contract_test_races_and_leaves_nothing_behind(offline: Run, shop: Database) -> None:
    raced = offline("contract", "test", "--marks", "400")

    assert raced.returncode == 0, raced.stdout + raced.stderr
    assert "committed and claimed: 0" in raced.stdout
    left = Rig.__new__(Rig)
    left.db = shop
    assert [left.count(t) for t in ("instance", "mark", "mark_history", "round", "batch")] == [1, 1, 0, 0, 0]


def test_the_printed_schema_is_sql(offline: Run) -> None:
    printed = offline("init", "--print-sql")

    assert printed.returncode == 0
    assert "CREATE TABLE sexton.mark" in printed.stdout


LIVE_PREFIX = (
    "CREATE VIEW public.sexton_live AS SELECT 'rowset' AS kind, 'r1' AS id, 'disk' AS vault, 'live/' AS \"key\", "
    "'shop' AS instance"
)


@pytest.mark.slow
def test_n3_confirmed_loss_ends_the_command_with_code_4(
    online: Run, shop: Database, tmp_path: Path, worker: None
) -> None:
    with shop.write() as c:
        c.exec_driver_sql(LIVE_PREFIX)
    Registry(shop).set_live_view("shop", "public.sexton_live")
    put(tmp_path / "v", "live/0.dat")

    young = online("check", "run", "shop")
    (tmp_path / "v" / "live/0.dat").unlink()
    lost = online("check", "run", "shop")
    told = online("why", "live/")
    with shop.write() as c:
        c.exec_driver_sql("DROP VIEW public.sexton_live")
    partial = online("check", "run", "shop")

    assert (young.returncode, lost.returncode, partial.returncode) == (0, 4, 3)
    assert "nothing open: no object was old enough to be judged" in young.stdout
    assert "inside a prefix cannot be detected" in young.stdout
    assert "a record names the object, and it does not exist" in lost.stdout
    assert "LOST, confirmed: live/ in vault disk did not exist" in told.stdout


def now(db: Database) -> int:
    with db.read() as c:
        return db.now(c)


def test_trial_advances_the_clock_by_four_days(offline: Run, shop: Database) -> None:
    before = now(shop)

    advanced = offline("trial", "advance", "4d")

    assert advanced.returncode == 0
    assert "sexton plan" in advanced.stdout
    assert now(shop) - before >= 4 * 86_400_000


def test_wrong_duration_is_refused_and_the_clock_stays(offline: Run, shop: Database) -> None:
    before = now(shop)

    refused = offline("trial", "advance", "-4d"), offline("trial", "advance", "4 days")

    assert all(answer.returncode == 64 for answer in refused)
    assert now(shop) - before < 3_600_000
