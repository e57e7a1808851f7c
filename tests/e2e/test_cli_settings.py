"""Operators change settings of the database: checked, previewed, confirmed, recorded, and shown with their source."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sexton import contract
from sexton.contract import NewMark
from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.registry.store import Registry
from sexton.operators.settings.store import SettingStore
from tests.e2e.conftest import Run

RETENTION = "recycle.dropped_partition_retention_seconds"


@pytest.fixture
def waits(shop: Database) -> None:
    """An enabled instance with a mark that a retention of an hour makes due."""
    Registry(shop).enable("shop")
    with shop.write() as c:
        contract.mark(c, "shop", "dropped", [NewMark(id="young", vault="disk", keys=("y/a.dat",), bytes=2_048)])
    schema.move_clock(shop, 4_000)


def shown(offline: Run, *words: str, **extra: str) -> dict[str, dict[str, str]]:
    return {
        row["key"]: row for row in json.loads(offline("settings", "show", "--json", *words, **extra).stdout)["items"]
    }


def test_shorter_retention_is_previewed_and_confirmed(offline: Run, shop: Database, waits: None) -> None:
    asked = offline("settings", "set", RETENTION, "3600", "--instance", "shop")
    before = SettingStore(shop).all()
    confirmed = offline("settings", "set", RETENTION, "3600", "--instance", "shop", "--reason", "full disk", "--yes")

    assert (asked.returncode, before) == (1, [])
    assert "dropped 3h 1h 1 yes" in " ".join(asked.stdout.split())
    assert confirmed.returncode == 0
    assert f"{RETENTION} is 3600 for shop\nworkers use it within 5 s" in confirmed.stdout
    [row] = SettingStore(shop).all()
    assert (row.instance, row.value, row.reason) == ("shop", "3600", "full disk")
    call = json.loads(offline("log", "--json").stdout)["items"]
    assert any(c["action"] == "settings set" and c["subject"] == f"{RETENTION}=3600" for c in call)
    planned = json.loads(offline("plan", "shop", "--json").stdout)["plan"]
    assert [(k["kind"], k["marks"]) for k in planned["kinds"]] == [("dropped", 2)]


def test_longer_retention_is_set_without_a_question(offline: Run, shop: Database, waits: None) -> None:
    longer = offline("settings", "set", RETENTION, "86400")

    assert longer.returncode == 0
    assert [row.value for row in SettingStore(shop).all()] == ["86400"]


def test_raised_limit_is_confirmed(offline: Run, shop: Database, waits: None) -> None:
    raised = offline("settings", "set", "recycle.max_delete_objects", "2000000")
    lowered = offline("settings", "set", "recycle.max_delete_objects", "5")
    undone = offline("settings", "unset", "recycle.max_delete_objects")

    assert (raised.returncode, lowered.returncode, undone.returncode) == (1, 0, 1)
    assert "more may be deleted in 24 hours without approval" in raised.stdout
    assert "more may be deleted in 24 hours without approval" in undone.stdout
    assert offline("settings", "unset", "recycle.max_delete_objects", "--yes").returncode == 0
    assert SettingStore(shop).all() == []


@pytest.mark.parametrize(
    ("key", "looser", "stricter"),
    [
        ("binlog.max_cut_fraction", "1", "0.1"),
        ("binlog.gc_binlog_interval_seconds", "86400", "100"),
        ("binlog.hold_limit_seconds", "600", "172800"),
        ("check.check_grace_seconds", "3600", "172800"),
    ],
)
def test_looser_safeguard_is_confirmed(offline: Run, shop: Database, key: str, looser: str, stricter: str) -> None:
    asked, taken = offline("settings", "set", key, looser), offline("settings", "set", key, stricter)

    assert (asked.returncode, taken.returncode) == (1, 0)
    assert "this loosens a safeguard" in asked.stdout
    assert [row.value for row in SettingStore(shop).all()] == [stricter]


def test_unset_elsewhere_names_where_it_is_set(offline: Run, shop: Database) -> None:
    key = "recycle.recycle_interval_seconds"
    offline("settings", "set", key, "600", "--instance", "shop")

    of_all = offline("settings", "unset", key)
    of_shop, again = (offline("settings", "unset", key, "--instance", "shop") for _ in "12")

    assert f"{key} was not set for all instances; it is set for shop (--instance shop)" in of_all.stdout
    assert f"{key} is no longer set for shop" in of_shop.stdout
    assert again.stdout.splitlines()[-1] == f"{key} was not set for shop"
    assert [r.returncode for r in (of_all, of_shop, again)] == [0, 0, 0]


def test_show_names_the_source_and_what_it_replaces(offline: Run, shop: Database, waits: None) -> None:
    own = {"SEXTON_RECYCLE__DROPPED_PARTITION_RETENTION_SECONDS": "20000"}
    offline("settings", "set", RETENTION, "86400")
    offline("settings", "set", RETENTION, "90000", "--instance", "shop", "--yes")
    SettingStore(shop).put("recycle.retention_seconds", "5", by="another program")

    of_all, of_shop = shown(offline, **own)[RETENTION], shown(offline, "--instance", "shop", **own)[RETENTION]
    people = offline("settings", "show", **own)
    elsewhere = offline("settings", "show", "--instance", "nobody")

    assert (of_all["value"], of_shop["value"]) == ("86400", "90000")
    assert of_all["source"].startswith("database, set by ")
    assert of_shop["source"].startswith("database for shop, set by ")
    assert of_shop["overrides"].startswith("20000 (environment SEXTON_RECYCLE__")
    assert "ignored: recycle.retention_seconds = 5 (database, set by another program) is below" in people.stderr
    assert (elsewhere.returncode, "unknown instance nobody" in elsewhere.stderr) == (1, True)


def test_show_needs_no_database(offline: Run) -> None:
    shown_ = offline("settings", "show", "--json", SEXTON_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")

    assert shown_.returncode == 0
    assert "without the settings in the database" in shown_.stderr
    assert json.loads(shown_.stdout)["items"][0]["key"] == "deployment"


def test_wrong_setting_is_refused_in_a_sentence(offline: Run, shop: Database) -> None:
    for words, says in [
        (("set", RETENTION, "600"), "is below its floor of 3600"),
        (("set", "kinds.snapshot.retention_seconds", "5"), "is below its floor of 600"),
        (("set", "recycle.max_delete_fraction", "nan"), "finite number"),
        (("set", "deployment", "other"), "cannot be changed while workers run"),
        (("set", "recycle.retention_second", "6000"), "did you mean recycle.retention_seconds?"),
        (("set", "wal.flush", "off"), "cannot be changed while workers run"),
        (("unset", "recycle.retention_second"), "did you mean recycle.retention_seconds?"),
        (("set", "wal.purge_trigger_bytes", "6000", "--instance", "shop"), "is the same for all instances"),
        (("set", RETENTION, "86400", "--instance", "nobody"), "unknown instance nobody"),
        (("unset", RETENTION, "--instance", "nobody"), "unknown instance nobody"),
    ]:
        refused = offline("settings", *words)

        assert refused.returncode == 1
        assert says in refused.stderr
        assert SettingStore(shop).all() == []


def test_doctor_judges_the_limits_in_force(offline: Run, shop: Database) -> None:
    offline("settings", "set", "recycle.max_delete_fraction", "1", "--instance", "shop", "--yes")
    raised = {f["about"]: f for f in json.loads(offline("doctor", "--json").stdout)["items"]}
    offline("settings", "set", "recycle.max_delete_fraction", "0.2", "--yes")

    lowered = offline("doctor", "--json", SEXTON_RECYCLE__MAX_DELETE_FRACTION="1")

    assert raised["limits"]["detail"].startswith("shop: max_delete_fraction = 1")
    assert raised["database settings"]["state"] == "OK"
    findings = {f["about"]: f for f in json.loads(lowered.stdout)["items"]}
    assert findings["limits"]["detail"].startswith("shop: ")
    offline("settings", "unset", "recycle.max_delete_fraction", "--instance", "shop")
    assert "limits" not in {f["about"] for f in json.loads(offline("doctor", "--json").stdout)["items"]}


def test_refused_secret_is_not_in_the_log(offline: Run, shop: Database) -> None:
    refused = offline("settings", "set", "wal.flush_secret", "hunter2hunter2")

    assert (refused.returncode, "hunter2" in refused.stderr) == (1, False)
    logged = offline("log", "--json").stdout
    assert "wal.flush_secret" in logged
    assert "hunter2" not in logged


def test_settings_are_utf8_in_every_locale(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[prices]\ncurrency = "€"\n', "utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "SEXTON_CONFIG": str(file)}
    shown_ = subprocess.run(
        [sys.executable, "-m", "sexton", "settings", "show"], env=os.environ | locale, cwd=tmp_path, capture_output=True
    )

    assert shown_.returncode == 0
    assert b"\\u20ac" in shown_.stdout  # the euro sign, which ASCII lacks
