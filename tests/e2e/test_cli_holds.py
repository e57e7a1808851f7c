"""The commands `sexton hold`, `blockers` and `protection` work without Temporal; `status` and `why` show holds."""

import json
from pathlib import Path

import pytest

from sexton.contract import NewMark, mark
from sexton.database.engine import Database
from sexton.marks.keepers import KeepReason, Kept, by_hold, by_vault
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.model import ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.operators.holds.store import HoldStore
from sexton.operators.registry.store import Registry
from sexton.operators.stores import operator_stores
from sexton.recycle.model import RoundReport
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.model import CloseOrder
from sexton.recycle.rounds.sql.store import RoundStore
from tests.e2e.conftest import Run
from tests.support.kept import kept_texts
from tests.support.refusing import refuse_inserts
from tests.support.rig import GRACE, INTERVAL, RETENTION, listing

REASON = ("--for", "7d", "--reason", "ticket 4711")


def test_each_kind_of_hold_is_placed_shown_by_why_and_released(offline: Run, shop: Database) -> None:
    with shop.write() as c:
        mark(c, "shop", "dropped", [NewMark(id="p9", vault="disk", prefix="data/9/", parent=("table", "12"))])

    placed = [
        offline("hold", "add", "shop", *REASON, "--json"),
        offline("hold", "add", "--table", "12", *REASON, "--json"),
        offline("hold", "add", "shop", "--mark", "dropped/p9", *REASON, "--json"),
        offline("hold", "add", "--prefix", "disk/data/9/x", *REASON, "--json"),
    ]
    story = offline("why", "p9", "--json")
    released = offline("hold", "release", "1")

    assert [p.returncode for p in placed] == [0, 0, 0, 0]
    ends = [json.loads(p.stdout)["hold"] for p in placed]
    assert [e["expires_at"] - e["placed_at"] for e in ends] == [7 * 86_400_000] * 4
    assert (ends[1]["mark_kind"], ends[1]["mark_id"], ends[1]["instance"]) == ("table", "12", "shop")
    events = [e["text"] for e in json.loads(story.stdout)["items"][0]["events"] if e["event"] == "hold"]
    assert [e.split()[3] for e in events] == ["1", "2", "3", "4"]
    assert all("ticket 4711" in e for e in events)
    assert released.returncode == 0
    assert [h.id for h in HoldStore(shop).active("shop")] == [2, 3, 4]


def test_hold_reports_the_marks_it_is_too_late_for(offline: Run, shop: Database) -> None:
    t = shop.t.mark
    with shop.write() as c:
        c.execute(t.update().values(state="CLAIMED", claimed_at=shop.now(c), batch=1, lease_epoch=1))

    late = offline("hold", "add", "shop", *REASON)
    refused = offline("hold", "add", "--mark", "dropped/t1", *REASON)

    assert (late.returncode, "too late for 1 mark" in late.stderr) == (0, True)
    assert (refused.returncode, "its files are being deleted" in refused.stderr) == (1, True)


def test_blockers_lists_everything_that_blocks(offline: Run, shop: Database) -> None:
    registry, controls = Registry(shop), ControlStore(shop)
    registry.enable("shop")
    registry.add_instance("two")
    rounds = RoundStore(shop, LeaseStore(shop), operator_stores(shop), INTERVAL)
    opened = rounds.open("shop", "run-1", None, policy(RETENTION, GRACE))
    rounds.release(opened, "backing off for 20 s: dropped: the disk is full")
    controls.put(ControlKind.STOP, "*", "drill")
    controls.put(ControlKind.BLACKLIST, "two")
    controls.put(ControlKind.WHITELIST, "shop")
    controls.put(ControlKind.VAULT_WHITELIST, "disk")
    offline("hold", "add", "two", *REASON)

    everything = offline("blockers", "--json")
    of_two = offline("blockers", "two")
    status = offline("status")

    blockers = [(k["instance"], k["held_by"]) for k in json.loads(everything.stdout)["items"]]
    assert blockers == [
        ("(all)", "stop"),
        ("shop", "backing off"),
        ("two", "observe"),
        ("two", "hold 1"),
        ("two", "blacklist"),
        ("two", "whitelist"),
    ]
    [backing_off] = [k for k in json.loads(everything.stdout)["items"] if k["held_by"] == "backing off"]
    assert (backing_off["why"], backing_off["way_out"]) == (
        "backing off for 20 s: dropped: the disk is full",
        "sexton round retry shop",
    )
    assert of_two.returncode == 0
    assert "backing off" not in of_two.stdout
    assert "sexton hold release 1" in of_two.stdout
    assert "round 1 has had no lease since" in status.stdout
    assert "backing off for 20 s: dropped: the disk is full" in status.stdout
    assert "holds: 1" in status.stdout


def test_why_shows_the_controls_and_the_next_round(offline: Run, shop: Database) -> None:
    free = offline("why", "t1", "--json")
    ControlStore(shop).put(ControlKind.STOP, "shop", "drill")
    away = {"SEXTON_RECYCLE__RECYCLER_STORAGE_VAULT_WHITE_LIST": "elsewhere"}
    blocked = offline("why", "data/a.dat", "--json", **away)

    assert [e["event"] for e in json.loads(free.stdout)["items"][0]["events"]] == [
        "marked",
        "due",
        "observe",
        "next_round",
    ]
    events = {e["event"]: e["text"] for e in json.loads(blocked.stdout)["items"][0]["events"]}
    assert events.keys() == {"marked", "due", "observe", "halted_stop", "vault_whitelist"}
    assert "drill" in events["halted_stop"]


def test_wrong_hold_is_refused_and_blocks_nothing(offline: Run, shop: Database) -> None:
    for words, code, says in [
        (("hold", "add", "nobody", *REASON), 1, "unknown instance nobody"),
        (("hold", "add", "shop", "--for", "soon", "--reason", "x"), 64, "'soon' is not a duration"),
        (("hold", "add", "shop", "--for", "0d", "--reason", "x"), 1, "a hold lasts"),
        (("hold", "add", "shop", "--for", "7d"), 64, "--reason"),
        (("hold", "add", "shop", "--reason", "x"), 64, "--for"),
        (("hold", "add", "--mark", "t1", *REASON), 64, "write KIND/ID"),
        (("hold", "add", "--prefix", "disk", *REASON), 64, "write VAULT/PREFIX"),
        (("hold", "add", "--prefix", "none/x", *REASON), 1, "has no vault none"),
        (("hold", "release", "99"), 1, "there is no hold 99"),
        (("hold", "release", "first"), 64, "'HOLD'"),
        (("blockers", "nobody"), 1, "unknown instance nobody"),
    ]:
        refused = offline(*words)

        assert refused.returncode == code
        assert says in refused.stderr
        assert "Traceback" not in refused.stderr
        assert HoldStore(shop).active() == []


def test_hold_reports_how_many_marks_it_covers(offline: Run, shop: Database) -> None:
    some = offline("hold", "add", "--mark", "dropped/t1", "--for", "1d", "--reason", "why not")
    none = offline("hold", "add", "--table", "no-such-table", "--for", "1d", "--reason", "a typing error")

    assert (some.returncode, none.returncode) == (0, 0)
    assert "it covers 1 mark now" in some.stdout
    assert some.stderr == ""
    assert "check its spelling; it may still cover descendants that only the owner's records know" in none.stderr


def test_plan_names_active_holds_and_stops(offline: Run, shop: Database) -> None:
    offline("enable", "shop")
    offline("hold", "add", "--mark", "dropped/t1", "--for", "1d", "--reason", "why not")
    offline("stop", "shop", "--reason", "a drill")

    planned = offline("plan", "shop")

    assert planned.returncode == 2
    assert "hold 1 blocks dropped t1 and its descendants" in planned.stdout
    assert "nothing can be deleted now: shop is stopped by" in planned.stdout


def test_why_and_status_show_the_excluded_vault(offline: Run, shop: Database) -> None:
    Registry(shop).enable("shop")
    leases = LeaseStore(shop)
    rounds = RoundStore(shop, leases, operator_stores(shop), INTERVAL)
    opened = rounds.open("shop", "run", None, policy(RETENTION, GRACE))
    fault = {"disk": "NO_MARKER"}
    kept = {by_vault("disk", "NO_MARKER"): 1}
    rounds.close(CloseOrder(opened=opened, plan=None, outcome="SUCCEEDED", kept=kept, faults=fault))

    why, status = offline("why", "t1"), offline("status")

    assert "excluded vault disk: NO_MARKER" in why.stdout
    assert "vaults it excluded: disk NO_MARKER; it counts as failed" in status.stdout


def test_an_excluded_vault_blocks_before_it_has_due_marks(offline: Run, shop: Database) -> None:
    Registry(shop).enable("shop")
    rounds = RoundStore(shop, LeaseStore(shop), operator_stores(shop), INTERVAL)
    opened = rounds.open("shop", "run", None, policy(RETENTION, GRACE))
    opened = opened.model_copy(update={"excluded_vaults": {"disk": "NO_MARKER"}})
    rounds.close(CloseOrder(opened=opened, plan=None, outcome="SUCCEEDED"))

    blockers, status = json.loads(offline("blockers", "--json").stdout)["items"], offline("status")

    excluded = [(b["held_by"], b["what"], b["way_out"]) for b in blockers if "excluded" in b["why"]]
    assert excluded == [("vault disk: NO_MARKER", "vault disk", "sexton vault list shop")]
    assert "vaults it excluded: disk NO_MARKER; see: sexton vault list shop" in status.stdout


def test_blockers_name_past_holds_and_silent_owners(offline: Run, shop: Database) -> None:
    Registry(shop).enable("shop")
    rounds = RoundStore(shop, LeaseStore(shop), operator_stores(shop), INTERVAL)
    opened = rounds.open("shop", "run", None, policy(RETENTION, GRACE))
    offline("hold", "add", "shop", *REASON)
    offline("hold", "add", "--mark", "dropped/t1", *REASON)
    silent = Kept(KeepReason.OWNER_SILENT, detail="the live view cannot be read")
    kept = {by_hold(1): 1, by_hold(2): 1, silent: 1, Kept(KeepReason.PROTECTION, "copy"): 1}
    rounds.close(CloseOrder(opened=opened, plan=None, outcome="SUCCEEDED", kept=kept))
    offline("hold", "release", "1")

    counted = [b for b in json.loads(offline("blockers", "--json").stdout)["items"] if "counted by" in b["why"]]
    status = offline("status")

    ended = "it has ended since, and blocks nothing in the next round"
    ways_out = {b["held_by"]: b["way_out"] for b in counted}
    assert (ways_out["hold 1"], ways_out["hold 2"], ways_out["protection copy"]) == (ended, "", ended)
    assert "its owner did not answer; it counts as failed; see: sexton blockers shop" in status.stdout
    assert "last success: never, 1 round without success since" in status.stdout


def test_holds_are_listed_active_or_all(offline: Run, shop: Database) -> None:
    for number in range(3):
        offline("hold", "add", "--mark", "dropped/t1", "--for", "1d", "--reason", f"reason {number}")
    offline("hold", "release", "2")

    active, everything = offline("hold", "list", "shop"), offline("hold", "list", "--all")
    newest = json.loads(offline("hold", "list", "--all", "--last", "1", "--json").stdout)
    unknown, wrong = offline("hold", "list", "nobody"), offline("hold", "table", "12")

    assert ("reason 1" in active.stdout, "reason 0" in active.stdout) == (False, True)
    assert ("released" in everything.stdout, "reason 1" in everything.stdout) == (True, True)
    assert ([h["reason"] for h in newest["items"]], newest["more"]) == (["reason 2"], True)
    assert (unknown.returncode, "unknown instance nobody" in unknown.stderr) == (1, True)
    assert (wrong.returncode, "sexton hold add INSTANCE --table" in wrong.stderr) == (64, True)


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
