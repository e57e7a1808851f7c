"""The commands `sexton stop`, `start`, `lists`, `pace`, `vault cap` and `vault uncap` work without Temporal."""

import json

import pytest
from sqlalchemy import text

from sexton.database.engine import Database
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.model import ALL, ControlKind, Halted
from sexton.operators.controls.store import ControlStore
from sexton.operators.registry.store import Registry
from sexton.operators.stores import operator_stores
from sexton.recycle.pacing.model import PaceReport, Rate
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.model import CloseOrder
from sexton.recycle.rounds.sql.store import RoundStore
from tests.e2e.conftest import Run
from tests.support.rig import GRACE, INTERVAL, RETENTION


def test_a_stop_halts_the_instance_and_a_start_ends_it(offline: Run, shop: Database) -> None:
    stopped = offline("stop", "shop", "--reason", "restoring a backup")
    with pytest.raises(Halted, match="restoring a backup"):
        ControlStore(shop).admit("shop")
    status = offline("status")
    started = offline("start", "shop")

    assert (stopped.returncode, "within 5 s" in stopped.stdout, "sexton start shop" in stopped.stdout) == (
        0,
        True,
        True,
    )
    assert "shop is stopped by" in status.stdout
    assert (started.returncode, started.stdout) == (0, "shop is started again, effective after the current page, "
                                                       "within 5 s\n")  # fmt: skip
    assert ControlStore(shop).admit("shop") == frozenset()


def test_start_names_the_controls_that_still_halt_the_instance(offline: Run, shop: Database) -> None:
    ControlStore(shop).put(ControlKind.STOP, ALL, "drill")

    started = offline("start", "shop")
    everything = offline("start", "--all", SEXTON_RECYCLE__RECYCLE_BLACKLIST="shop")

    assert started.returncode == 0
    assert "shop was not stopped" in started.stdout
    assert "shop is still stopped: everything is stopped" in started.stdout
    assert "sexton start --all" in started.stdout
    assert everything.returncode == 0
    assert "everything is started again" in everything.stdout
    assert "shop is still stopped: shop is on the blacklist" in everything.stdout
    assert ControlStore(shop).all() == ()


def test_lists_show_entries_of_database_and_settings(offline: Run, shop: Database) -> None:
    window = "mon-fri 22:00-06:00 Europe/Berlin"
    added = [
        offline("lists", "add", "windows", window),
        offline("lists", "add", "vaults", "shop/disk", "--reason", "only these"),
    ]
    by_settings = {"SEXTON_RECYCLE__RECYCLE_BLACKLIST": "other"}

    shown = json.loads(offline("lists", "show", "--json", **by_settings).stdout)["items"]
    people = offline("lists", "show", "blacklist", **by_settings)
    refused = offline("lists", "remove", "blacklist", "other", **by_settings)
    removed = offline("lists", "remove", "windows", window)

    assert [a.returncode for a in added] == [0, 0]
    entries = [(c["list"], c["name"], c["reason"], c["removable"]) for c in shown]
    variable = "SEXTON_RECYCLE__RECYCLE_BLACKLIST"
    assert entries == [
        ("vaults", "shop/disk", "only these", True),
        ("windows", window, "", True),
        ("blacklist", "other", f"set in recycle.recycle_blacklist (environment {variable})", False),
    ]
    assert f"environment {variable}" in people.stdout
    assert (refused.returncode, f"environment {variable}" in refused.stderr) == (1, True)
    assert (removed.returncode, "the list windows is empty now" in removed.stdout) == (0, True)
    assert [c.name for c in ControlStore(shop).all()] == ["shop/disk"]


def test_the_doctor_warns_of_a_halt_and_fails_without_temporal(offline: Run, shop: Database) -> None:
    ControlStore(shop).put(ControlKind.STOP, "shop", "drill")

    examined = offline("doctor", "--json", SEXTON_METRICS__LISTEN="127.0.0.1:9464")

    findings = {f["about"]: f for f in json.loads(examined.stdout)["items"]}
    assert examined.returncode == 1
    assert (findings["temporal"]["state"], findings["halted"]["state"], findings["vaults"]["state"]) == (
        "FAIL",
        "WARN",
        "OK",
    )
    assert "drill" in findings["halted"]["detail"]
    assert (findings["metrics"]["state"], "127.0.0.1:9464" in findings["metrics"]["detail"]) == ("OK", True)
    assert "worker" not in findings


def test_the_doctor_names_missing_checks_and_limits(offline: Run, shop: Database) -> None:
    observing = offline("doctor", "--json")
    offline("enable", "shop")

    enabled = offline("doctor", "--json", SEXTON_RECYCLE__MAX_DELETE_FRACTION="1")

    quiet = {f["about"]: f for f in json.loads(observing.stdout)["items"]}
    findings = {f["about"]: f for f in json.loads(enabled.stdout)["items"]}
    assert (quiet["checks"]["state"], "limits" in quiet) == ("OK", False)
    assert (findings["checks"]["state"], findings["limits"]["state"]) == ("WARN", "WARN")
    assert findings["checks"]["detail"] == "shop: no check was complete ever"
    assert "max_delete_fraction = 1" in findings["limits"]["detail"]


def test_wrong_argument_is_refused_and_changes_nothing(offline: Run, shop: Database) -> None:
    for words, code, says in [
        (("stop", "--reason", "x"), 64, "exactly one"),
        (("stop", "shop", "--all", "--reason", "x"), 64, "exactly one"),
        (("stop", "shop"), 64, "--reason"),
        (("stop", "shop", "--reason", " "), 64, "--reason is empty"),
        (("stop", "nobody", "--reason", "x"), 1, "unknown instance nobody"),
        (("start",), 64, "exactly one"),
        (("start", "nobody"), 1, "unknown instance nobody"),
        (("lists", "show", "greylist"), 64, "greylist"),
        (("lists", "add", "blacklist", "nobody"), 1, "unknown instance nobody"),
        (("lists", "add", "vaults", "shop/none"), 1, "there is no vault shop/none"),
        (("lists", "add", "windows", "at night"), 1, "is no window"),
        (("lists", "remove", "whitelist", "nobody"), 1, "unknown instance nobody"),
        (("lists", "remove", "windows", "daily 01:00-02:00"), 1, "there is no window"),
    ]:
        refused = offline(*words)

        assert refused.returncode == code
        assert says in refused.stderr
        assert "Traceback" not in refused.stderr
        assert ControlStore(shop).all() == ()


def test_an_instance_can_go_back_to_observing(offline: Run, shop: Database) -> None:
    offline("enable", "shop")

    observed = offline("instance", "observe", "shop")
    holds = offline("blockers", "shop", "--json")

    assert observed.returncode == 0
    assert "only observes" in observed.stdout
    assert json.loads(offline("instance", "list", "--json").stdout)["items"][0]["mode"] == "observe"
    assert "sexton enable shop" in holds.stdout
    assert offline("instance", "observe", "nobody").returncode == 1


def test_refused_apply_and_round_are_in_the_log(offline: Run, shop: Database) -> None:
    plan = json.loads(offline("plan", "shop", "--json").stdout)["plan"]["plan"]
    observed = offline("apply", str(plan), "--yes")
    offline("enable", "shop")
    offline("stop", "shop", "--reason", "drill")
    stopped = [offline("apply", str(plan), "--yes"), offline("round", "run", "shop")]
    unknown = [offline("apply", "999", "--yes"), offline("round", "run", "nobody")]

    logged = json.loads(offline("log", "--json").stdout)["items"]

    assert {run.returncode for run in (observed, *stopped, *unknown)} == {1}
    refused = [(call["action"], call["instance"], call["subject"], call["outcome"]) for call in logged]
    assert sorted(call for call in refused if call[0] in ("apply", "round run")) == [
        ("apply", "", "999", "UNKNOWN_PLAN"),
        ("apply", "shop", str(plan), "HALTED"),
        ("apply", "shop", str(plan), "NOT_ENABLED"),
        ("round run", "nobody", "", "UNKNOWN_INSTANCE"),
        ("round run", "shop", "", "HALTED"),
    ]


def test_a_cap_is_put_shown_and_cleared(offline: Run, shop: Database) -> None:
    put = offline("vault", "cap", "shop", "disk", "500", "--reason", "the disk is shared")
    shown, listed = offline("pace"), json.loads(offline("pace", "--json").stdout)
    cleared = [offline("vault", "uncap", "shop", "disk") for _ in "12"]

    assert put.returncode == 0
    assert "within 5 s; until: sexton vault uncap shop disk" in put.stdout
    assert "500" in shown.stdout
    assert [(c["vault"], c["keys_per_second"], c["reason"]) for c in listed["caps"]] == [
        ("disk", 500, "the disk is shared")
    ]
    assert ["the cap of" in cleared[0].stdout, "had no cap" in cleared[1].stdout] == [True, True]
    assert PaceStore(shop).caps() == []


def test_pace_shows_the_refusals_of_each_place(offline: Run, shop: Database) -> None:
    row = shop.t.vault
    with shop.read() as c:
        root = c.execute(row.select()).one().location
    place = f"file:{root}/data/"
    PaceStore(shop).exchange("a", [PaceReport(place, None, Rate(3_150, 3_500), True, True, 200, 3, 90_000)])

    people = offline("pace")
    as_json = json.loads(offline("pace", "--json").stdout)
    [figures] = as_json["places"]

    assert (figures["vault"], figures["place"], figures["keys_per_second"], figures["ceiling"]) == (
        "shop/disk",
        place,
        3150,
        3500,
    )
    assert (figures["requests"], figures["throttled"], figures["workers"], as_json["caps"]) == (200, 3, 1, [])
    assert all(word in people.stdout for word in ("shop/disk", "3150", "3500", "1.5 %"))


def test_wrong_argument_is_refused_and_caps_nothing(offline: Run, shop: Database) -> None:
    for words, code, says in [
        (("cap", "shop", "disk", "0"), 64, "RATE"),
        (("cap", "shop", "disk", "500/s"), 64, "RATE"),
        (("cap", "shop", "disk"), 64, "RATE"),
        (("cap", "shop", "nowhere", "500"), 1, "has no vault nowhere"),
        (("uncap", "shop", "nowhere"), 1, "has no vault nowhere"),
        (("uncap", "shop"), 64, "VAULT"),
    ]:
        refused = offline("vault", *words)

        assert (refused.returncode, says in refused.stderr, "Traceback" in refused.stderr) == (code, True, False), (
            refused
        )
        assert PaceStore(shop).caps() == []


def test_pace_reports_that_nothing_was_deleted_yet(offline: Run, shop: Database) -> None:
    assert "nothing was deleted yet" in offline("pace").stdout


def test_blockers_name_the_vault_whose_store_throttles(offline: Run, shop: Database) -> None:
    with shop.read() as c:
        root = c.execute(shop.t.vault.select()).one().location
    refused = [PaceReport(f"file:{root}/{folder}/", None, Rate(10, 3_500), True) for folder in ("a", "b")]
    PaceStore(shop).exchange("w", [*refused, PaceReport(f"file:{root}/c/", None, Rate(3_500, 0), False)])

    rows = json.loads(offline("blockers", "shop", "--json").stdout)["items"]
    with shop.write() as c:
        c.execute(text("UPDATE sexton.pace SET throttled_at = throttled_at - interval '61 seconds'"))
    a_minute_later = offline("blockers", "shop")

    assert [(r["what"], r["way_out"]) for r in rows if r["held_by"] == "throttling"] == [
        ("vault disk: 2 places", "sexton pace")
    ]
    assert "throttling" not in a_minute_later.stdout


def test_a_round_without_a_throttled_vault_points_to_pace(offline: Run, shop: Database) -> None:
    Registry(shop).enable("shop")
    rounds = RoundStore(shop, LeaseStore(shop), operator_stores(shop), INTERVAL)
    opened = rounds.open("shop", "run", None, policy(RETENTION, GRACE))
    rounds.close(CloseOrder(opened=opened, plan=None, outcome="SUCCEEDED", faults={"disk": "THROTTLED"}))

    listed, status, why = offline("round", "list"), offline("status"), offline("why", "t1")
    [row] = [b for b in json.loads(offline("blockers", "--json").stdout)["items"] if "THROTTLED" in b["held_by"]]

    assert "disk THROTTLED" in listed.stdout
    assert "vaults it excluded: disk THROTTLED; see: sexton pace" in status.stdout
    assert "excluded vault disk: THROTTLED; see: sexton pace" in why.stdout
    assert row["way_out"] == "sexton pace"
