"""Operators change settings of the database: checked, previewed, confirmed, recorded, and shown with their source."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sexton.contract import NewMark
from tests.e2e.conftest import Run, findings, items
from tests.support.planned import limited_policy
from tests.support.rig import Rig

RETENTION = "recycle.dropped_partition_retention_seconds"


@pytest.fixture
def waits(shop: Rig) -> None:
    """An enabled instance with a mark that a retention of an hour makes due."""
    shop.registry.enable("shop")
    shop.mark("dropped", NewMark(id="young", vault="disk", keys=("y/a.dat",), bytes=2_048))
    shop.later(4_000)


def shown(offline: Run, *words: str, **extra: str) -> dict[str, dict[str, str]]:
    return {row["key"]: row for row in items(offline("settings", "show", "--json", *words, **extra))}


def test_doctor_judges_the_limits_in_force(offline: Run, shop: Rig) -> None:
    offline("settings", "set", "recycle.max_delete_fraction", "1", "--instance", "shop", "--yes")
    raised = findings(offline)
    offline("settings", "set", "recycle.max_delete_fraction", "0.2", "--yes")

    lowered = findings(offline, SEXTON_RECYCLE__MAX_DELETE_FRACTION="1")

    assert raised["limits"]["detail"].startswith("shop: max_delete_fraction = 1")
    assert raised["database settings"]["state"] == "OK"
    assert lowered["limits"]["detail"].startswith("shop: ")
    offline("settings", "unset", "recycle.max_delete_fraction", "--instance", "shop")
    assert "limits" not in findings(offline)


def test_settings_are_utf8_in_every_locale(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[prices]\ncurrency = "€"\n', "utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "SEXTON_CONFIG": str(file)}
    shown_ = subprocess.run(
        [sys.executable, "-m", "sexton", "settings", "show"], env=os.environ | locale, cwd=tmp_path, capture_output=True
    )

    assert shown_.returncode == 0
    assert b"\\u20ac" in shown_.stdout  # the euro sign, which ASCII lacks


def test_shorter_retention_is_previewed_and_confirmed(offline: Run, shop: Rig, waits: None) -> None:
    longer = offline("settings", "set", RETENTION, "1d")
    values = [row.value for row in shop.all_stores.setting_rows.all()]
    offline("settings", "unset", RETENTION, "--yes")
    shop.rounds.plans.plan_for_round("shop", limited_policy(), "scheduled")
    previewed = offline("settings", "preview", RETENTION, "3600", "--instance", "shop")
    asked = offline("settings", "set", RETENTION, "3600", "--instance", "shop")
    before = shop.all_stores.setting_rows.all()
    confirmed = offline("settings", "set", RETENTION, "1h", "--instance", "shop", "--reason", "full disk", "--yes")

    assert (longer.returncode, values) == (0, ["86400"])
    assert previewed.returncode == 0
    assert "2.0 KiB" in previewed.stdout
    assert "shop: marks that become due only by this change wait in the first plan after it" in previewed.stdout
    assert (asked.returncode, before) == (1, [])
    for shown_ in (previewed, asked):
        assert "dropped 3h 1h 1 yes" in " ".join(shown_.stdout.split())
    assert confirmed.returncode == 0
    assert f"{RETENTION} is 1h for shop\nworkers use it within 5 s" in confirmed.stdout
    [row] = shop.all_stores.setting_rows.all()
    assert (row.instance, row.value, row.reason) == ("shop", "3600", "full disk")
    calls = items(offline("log", "--json"))
    assert any(c["action"] == "settings set" and c["subject"] == f"{RETENTION}=1h" for c in calls)
    planned = json.loads(offline("plan", "shop", "--json").stdout)["plan"]
    assert [(k["kind"], k["marks"]) for k in planned["kinds"]] == [("dropped", 2)]


def test_looser_safeguard_is_confirmed(offline: Run, shop: Rig) -> None:
    more, looser = "more may be deleted in 24 hours without approval", "this loosens a safeguard"
    for key, loose, strict, sentence in [
        ("recycle.max_delete_objects", "2000000", "5", more),
        ("binlog.max_cut_fraction", "1", "0.1", looser),
        ("binlog.gc_binlog_interval_seconds", "86400", "100", looser),
        ("binlog.hold_limit_seconds", "600", "172800", looser),
        ("check.check_grace_seconds", "3600", "172800", looser),
    ]:
        asked, taken = offline("settings", "set", key, loose), offline("settings", "set", key, strict)
        values = [row.value for row in shop.all_stores.setting_rows.all()]
        undone, confirmed = offline("settings", "unset", key), offline("settings", "unset", key, "--yes")

        assert (asked.returncode, taken.returncode, values) == (1, 0, [strict])
        assert (sentence in asked.stdout, sentence in undone.stdout) == (True, True)
        assert (undone.returncode, confirmed.returncode, shop.all_stores.setting_rows.all()) == (1, 0, [])


def test_show_names_the_source_and_what_it_replaces(offline: Run, shop: Rig, waits: None) -> None:
    key = "recycle.recycle_interval_seconds"
    own = {"SEXTON_RECYCLE__DROPPED_PARTITION_RETENTION_SECONDS": "20000"}
    offline("settings", "set", RETENTION, "86400")
    offline("settings", "set", RETENTION, "90000", "--instance", "shop", "--yes")
    offline("settings", "set", key, "600", "--instance", "shop")
    shop.all_stores.setting_rows.put("recycle.retention_seconds", "5", by="another program")

    of_all, of_shop = shown(offline, **own)[RETENTION], shown(offline, "--instance", "shop", **own)[RETENTION]
    people = offline("settings", "show", **own)
    status = offline("status").stdout.splitlines()[0]
    elsewhere = offline("settings", "show", "--instance", "nobody")
    without_database = offline("settings", "show", "--json", SEXTON_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    unset_all = offline("settings", "unset", key)
    unset_shop, again = (offline("settings", "unset", key, "--instance", "shop") for _ in "12")

    assert (of_all["value"], of_shop["value"]) == ("86400", "90000")
    assert "86400 (1d)" in people.stdout
    assert of_all["source"].startswith("database, set by ")
    assert of_shop["source"].startswith("database for shop, set by ")
    assert of_shop["overrides"].startswith("20000 (environment SEXTON_RECYCLE__")
    assert "ignored: recycle.retention_seconds = 5 (database, set by another program) is below" in people.stderr
    assert "(all): ignored setting: recycle.retention_seconds (recycle.retention_seconds = 5 (database, set" in status
    assert status.endswith("Way out: sexton settings unset recycle.retention_seconds")
    assert (elsewhere.returncode, "unknown instance nobody" in elsewhere.stderr) == (1, True)
    assert (without_database.returncode, items(without_database)[0]["key"]) == (0, "deployment")
    assert "without the settings in the database" in without_database.stderr
    assert f"{key} was not set for all instances; it is set for shop (--instance shop)" in unset_all.stdout
    assert f"{key} is no longer set for shop" in unset_shop.stdout
    assert again.stdout.splitlines()[-1] == f"{key} was not set for shop"
    assert [r.returncode for r in (unset_all, unset_shop, again)] == [0, 0, 0]


def test_refused_secret_is_not_in_the_log(offline: Run, shop: Rig) -> None:
    refused = offline("settings", "set", "wal.flush_secret", "hunter2hunter2")

    assert (refused.returncode, "hunter2" in refused.stderr) == (64, False)
    logged = offline("log", "--json").stdout
    assert ("wal.flush_secret" in logged, "hunter2" in logged) == (True, False)
