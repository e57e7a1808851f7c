"""The commands `sexton stop`, `start`, `lists`, `pace`, `vault cap` and `vault uncap` work without Temporal."""

import json
import socket

import pytest

from sexton.marks.kept import by_vault
from sexton.operators.controls.model import ControlKind, Halted
from sexton.recycle.pacing.model import PaceReport, Rate
from sexton.recycle.rounds.model import CloseOrder
from tests.e2e.conftest import Run, ended_round, findings, items
from tests.support.rig import Rig


def test_lists_show_entries_of_database_and_settings(offline: Run, shop: Rig) -> None:
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
    assert [c.name for c in shop.controls.all()] == ["shop/disk"]


def test_refused_apply_and_round_are_in_the_log(offline: Run, shop: Rig) -> None:
    plan = json.loads(offline("plan", "shop", "--json").stdout)["plan"]["plan"]
    observed = offline("apply", str(plan), "--yes")
    offline("enable", "shop")
    offline("stop", "shop", "--reason", "drill")
    stopped = [offline("apply", str(plan), "--yes"), offline("round", "run", "shop")]
    unknown = [offline("apply", "999", "--yes"), offline("round", "run", "nobody")]

    logged = json.loads(offline("log", "--json").stdout)["items"]

    assert {run.returncode for run in (observed, *stopped, *unknown)} == {1}
    assert ("sexton enable shop" in observed.stderr, "drill" in stopped[0].stderr) == (True, True)
    refused = [(call["action"], call["instance"], call["subject"], call["outcome"]) for call in logged]
    assert sorted(call for call in refused if call[0] in ("apply", "round run")) == [
        ("apply", "", "999", "UNKNOWN_PLAN"),
        ("apply", "shop", str(plan), "HALTED"),
        ("apply", "shop", str(plan), "NOT_ENABLED"),
        ("round run", "nobody", "", "UNKNOWN_INSTANCE"),
        ("round run", "shop", "", "HALTED"),
    ]


def test_a_stop_halts_the_instance_until_no_control_is_left(offline: Run, shop: Rig) -> None:
    stopped = offline("stop", "shop", "--reason", "restoring a backup")
    second = offline("stop", "shop", "--reason", "another drill")
    with pytest.raises(Halted, match="restoring a backup"):
        shop.controls.admit("shop")
    status, planned = offline("status"), offline("plan", "shop")
    [blocker] = [b for b in items(offline("blockers", "shop", "--json")) if b["held_by"] == "stop"]
    started = offline("start", "shop")
    admitted = shop.controls.admit("shop")
    all_stopped = offline("stop", "--all", "--reason", "drill")
    not_enough = offline("start", "shop")
    everything = offline("start", "--all", SEXTON_RECYCLE__RECYCLE_BLACKLIST="shop")

    assert stopped.returncode == 0
    assert "within 5 s" in stopped.stdout
    assert "sexton start shop" in stopped.stdout
    assert "already" not in stopped.stdout
    assert "it was stopped already, since" in second.stdout
    assert "restoring a backup" in second.stdout
    assert ("restoring a backup" in blocker["why"], "another drill" in blocker["why"]) == (True, True)
    assert "shop is stopped by" in status.stdout
    assert "nothing can be deleted now: shop is stopped by" in planned.stdout
    assert started.stdout == "shop is started again, effective after the current page, within 5 s\n"
    assert (started.returncode, admitted) == (0, frozenset())
    assert "topics are not purged either" in all_stopped.stdout
    assert not_enough.returncode == 0
    assert "shop was not stopped" in not_enough.stdout
    assert "shop is still stopped: everything is stopped" in not_enough.stdout
    assert "sexton start --all" in not_enough.stdout
    assert everything.returncode == 0
    assert "everything is started again" in everything.stdout
    assert "shop is still stopped: shop is on the blacklist" in everything.stdout
    assert shop.controls.all() == ()


def test_the_doctor_warns_of_halts_missing_checks_and_limits(offline: Run, shop: Rig) -> None:
    observing = findings(offline)
    enabled, observed = offline("enable", "shop"), offline("instance", "observe", "shop")
    modes, blockers = items(offline("instance", "list", "--json")), offline("blockers", "shop", "--json")
    offline("enable", "shop")
    shop.controls.put(ControlKind.STOP, "shop", "drill")
    with socket.create_server(("127.0.0.1", 0)) as other:  # no worker, or one of another deployment
        variables = {"SEXTON_METRICS__LISTEN": f"127.0.0.1:{other.getsockname()[1]}"}
        examined = offline("doctor", "--json", **variables, SEXTON_RECYCLE__MAX_DELETE_FRACTION="1")

    found = {f["about"]: f for f in items(examined)}
    states = {about: found[about]["state"] for about in ("temporal", "rounds", "halted", "vaults", "checks", "limits")}
    assert (observing["checks"]["state"], "limits" in observing) == ("OK", False)
    assert "no worker reports" not in observing["rounds"]["detail"]
    assert (enabled.returncode, observed.returncode, "only observes" in observed.stdout) == (0, 0, True)
    assert (modes[0]["mode"], "sexton enable shop" in blockers.stdout) == ("observe", True)
    assert examined.returncode == 1
    assert states == {
        "temporal": "FAIL",
        "rounds": "WARN",
        "halted": "WARN",
        "vaults": "OK",
        "checks": "WARN",
        "limits": "WARN",
    }
    assert "drill" in found["halted"]["detail"]
    assert "no worker reports to the database" in found["rounds"]["detail"]
    assert "metrics" not in found
    assert found["checks"]["detail"] == "shop: no check was complete ever"
    assert "max_delete_fraction = 1" in found["limits"]["detail"]
    assert "worker" not in found


def test_the_pace_of_a_vault_is_shown_and_capped(offline: Run, shop: Rig) -> None:
    nothing = offline("pace")
    root = shop.registry.vault("shop", "disk").location
    place = f"file:{root}/data/"
    shop.all_stores.paces.exchange("a", [PaceReport(place, None, Rate(3_150, 3_500), True, True, 200, 3, 90_000)])
    free, free_json = offline("pace"), json.loads(offline("pace", "--json").stdout)
    put = offline("vault", "cap", "shop", "disk", "500", "--reason", "the disk is shared")
    capped, capped_json = offline("pace"), json.loads(offline("pace", "--json").stdout)
    cleared = [offline("vault", "uncap", "shop", "disk") for _ in "12"]

    assert "nothing was deleted yet" in nothing.stdout
    [figures] = free_json["places"]
    assert (figures["vault"], figures["place"]) == ("shop/disk", place)
    assert (figures["keys_per_second"], figures["ceiling"]) == (3150, 3500)
    assert (figures["requests"], figures["throttled"], figures["workers"], free_json["caps"]) == (200, 3, 1, [])
    assert all(word in free.stdout for word in ("shop/disk", "3150", "3500", "1.5 %"))
    assert put.returncode == 0
    assert "within 5 s; until: sexton vault uncap shop disk" in put.stdout
    assert "500" in capped.stdout
    assert [(c["vault"], c["keys_per_second"], c["reason"]) for c in capped_json["caps"]] == [
        ("disk", 500, "the disk is shared")
    ]
    assert ["the cap of" in cleared[0].stdout, "had no cap" in cleared[1].stdout] == [True, True]
    assert shop.all_stores.paces.caps() == []


def test_blockers_name_the_vault_whose_store_throttles(offline: Run, shop: Rig) -> None:
    root = shop.registry.vault("shop", "disk").location
    refused = [PaceReport(f"file:{root}/{folder}/", None, Rate(10, 3_500), True) for folder in ("a", "b")]
    shop.all_stores.paces.exchange("w", [*refused, PaceReport(f"file:{root}/c/", None, Rate(3_500, 0), False)])

    rows = items(offline("blockers", "shop", "--json"))
    shop.sql("UPDATE {}pace SET throttled_at = throttled_at - interval '61 seconds'")
    a_minute_later = offline("blockers", "shop")

    assert [(r["what"], r["way_out"]) for r in rows if r["held_by"] == "throttling"] == [
        ("vault disk: 2 places", "sexton pace")
    ]
    assert "throttling" not in a_minute_later.stdout


def test_a_vault_that_a_round_excluded_is_shown_with_the_way_out(offline: Run, shop: Rig) -> None:
    shop.registry.enable("shop")
    for fault, way_out in (("THROTTLED", "sexton pace"), ("NO_MARKER", "sexton vault list shop")):
        faults, kept = {"faults": {"disk": fault}, "fault_details": {"disk": "its words"}}, {by_vault("disk", fault): 1}
        number = ended_round(shop, fault, kept=kept, **faults)
        listed, status, why = offline("round", "list"), offline("status"), offline("why", "t1")
        shown, proved = offline("round", "show", str(number)), items(offline("vault", "list", "--json"))
        excluded = [b for b in items(offline("blockers", "--json")) if b["held_by"] == f"vault disk: {fault}"]

        told = f"{fault}: its words"
        assert f"disk {told}" in listed.stdout
        assert f"vaults: disk {told}" in shown.stdout
        assert [(v["proof"], v["last_fault"]) for v in proved] == [("ours", told)]
        assert f"vaults with a fault: disk {told}; it counts as failed; see: {way_out}" in status.stdout
        assert f"had a fault in vault disk: {told}; see: {way_out}" in why.stdout
        assert [(b["way_out"], b["why"]) for b in excluded] == [(way_out, f"counted by round {number}: its words")]
    detail = findings(offline)["last rounds"]["detail"]
    assert detail == f"shop: vault disk: NO_MARKER: 1 mark (counted by round {number}: its words)"

    opened = shop.rounds.open("shop", "nothing due", None, shop.policy)
    found = {"excluded_vaults": {"disk": "NO_MARKER"}, "fault_details": {"disk": "no file"}}
    opened = opened.model_copy(update=found)
    shop.rounds.close(CloseOrder(opened=opened, plan=None, outcome="SUCCEEDED"))
    blockers, status = items(offline("blockers", "--json")), offline("status")

    assert [(b["held_by"], b["what"], b["way_out"]) for b in blockers if b["why"].endswith(": no file")] == [
        ("vault disk: NO_MARKER", "vault disk", "sexton vault list shop")
    ]
    assert "vaults with a fault: disk NO_MARKER: no file; see: sexton vault list shop" in status.stdout
