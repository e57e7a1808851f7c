"""The command `sexton protection selftest` works, and `sexton log` has every call."""

import json
from pathlib import Path

import pytest

from sexton.database.engine import Database
from sexton.operators.registry.store import Registry
from sexton.recycle.model import RoundReport
from tests.e2e.conftest import Run
from tests.support.kept import kept_texts
from tests.support.refusing import refuse_inserts
from tests.support.rig import listing


@pytest.mark.slow
def test_selftest_deletes_an_object_only_after_its_release(
    shop: Database, worker: None, online: Run, tmp_path: Path
) -> None:
    Registry(shop).enable("shop")

    ran = online("protection", "selftest", "shop", "--yes", "--json")
    calls = json.loads(online("log", "--json").stdout)["items"]

    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert (result["passed"], result["objects"], result["lost"], result["stayed"]) == (
        True,
        ["disk/data/a.dat"],
        [],
        [],
    )
    assert "data/a.dat" not in listing(tmp_path / "v")
    first, second = (_report(shop, number) for number in result["rounds"])
    assert (kept_texts(first), first.deleted, second.deleted) == ({f"protection {result['job']}": 1}, 0, 1)
    assert json.loads(online("protection", "list", "--json").stdout)["items"] == []
    by_command = [c["action"] for c in calls if c["source"].startswith("cli@")]
    by_worker = [c["action"] for c in calls if c["source"].startswith("worker@")]
    assert (by_command, by_worker) == (
        ["round run", "round run", "protection selftest"],
        ["plan", "round", "plan", "round"],
    )


def test_selftest_reports_missing_requirements(offline: Run, shop: Database) -> None:
    observing = offline("protection", "selftest", "shop", "--yes")
    Registry(shop).enable("shop")
    unconfirmed = offline("protection", "selftest", "shop")
    silent = offline("protection", "selftest", "shop", "--json")

    assert (observing.returncode, "sexton enable shop" in observing.stderr) == (1, True)
    assert (unconfirmed.returncode, "1 object of it" in unconfirmed.stderr) == (1, True)
    assert (silent.returncode, "add --yes" in silent.stderr) == (64, True)


def test_call_log_has_every_command_with_its_outcome(offline: Run, shop: Database) -> None:
    offline("stop", "shop", "--reason", "a restore")
    offline("start", "shop")
    offline("enable", "shop")
    offline("hold", "add", "shop", "--for", "1h", "--reason", "audit")
    offline("hold", "release", "1")
    offline("hold", "release", "77")
    offline("protection", "watermark", "shop", "7")
    offline("lists", "add", "blacklist", "shop")
    offline("quarantine", "retry", "shop", "--all")

    shown = offline("log", "--last", "5")
    calls = json.loads(offline("log", "--instance", "shop", "--json").stdout)["items"]
    every = json.loads(offline("log", "--json").stdout)["items"]

    assert [(c["action"], c["subject"], c["outcome"], c["reason"]) for c in reversed(calls)] == [
        ("stop", "", "ok", "a restore"),
        ("start", "", "ok", ""),
        ("enable", "", "ok", ""),
        ("hold add", "the whole instance", "ok", "audit"),
        ("hold release", "1", "ok", ""),
        ("protection watermark", "7", "ok", ""),
        ("lists add", "blacklist shop", "ok", ""),
        ("quarantine retry", "all", "ok", ""),
    ]
    assert [(c["action"], c["subject"], c["outcome"]) for c in reversed(every) if not c["instance"]] == [
        ("hold release", "77", "UNKNOWN_HOLD"),
    ]
    assert all(c["source"].startswith("cli@") and c["who"] for c in every)
    assert "blacklist shop" in shown.stdout
    assert "a restore" not in shown.stdout


def test_stop_and_hold_succeed_without_a_call_log(offline: Run, shop: Database) -> None:
    refuse_inserts(shop, "call")

    stopped = offline("stop", "shop", "--reason", "a restore")
    held = offline("hold", "add", "shop", "--for", "1h", "--reason", "audit")
    started = offline("start", "shop")

    assert (stopped.returncode, held.returncode) == (0, 0), stopped.stderr + held.stderr
    assert started.returncode == 1
    assert "shop is stopped" in offline("status").stdout


def test_command_succeeds_without_logging_its_outcome(offline: Run, shop: Database) -> None:
    refuse_inserts(shop, "call", "NEW.begun_id IS NOT NULL")

    created = offline("token", "create", "--scope", "read")
    refused = offline("hold", "release", "77")
    calls = json.loads(offline("log", "--json").stdout)["items"]

    assert (created.returncode, created.stdout[:4]) == (0, "sxt_")
    assert (refused.returncode, "77" in refused.stderr) == (1, True)
    assert [c["outcome"] for c in calls] == ["asked", "asked"]


def _report(db: Database, number: int) -> RoundReport:
    t = db.t.round
    with db.read() as c:
        return RoundReport.model_validate(c.execute(t.select().where(t.c.id == number)).one().report)
