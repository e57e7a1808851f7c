"""The commands `sexton hold`, `blockers` and `protection` work without Temporal; `status` and `why` show holds."""

import json
from subprocess import CompletedProcess

from sexton.contract import NewMark
from sexton.marks.kept import KeepReason, Kept, by_hold
from sexton.operators.controls.model import ControlKind
from sexton.recycle.rounds.model import CloseOrder
from tests.e2e.conftest import Run, items
from tests.support.refusing import refuse_inserts
from tests.support.rig import Rig

REASON = ("--for", "7d", "--reason", "ticket 4711")


def test_each_kind_of_hold_is_placed_shown_by_why_and_released(offline: Run, shop: Rig) -> None:
    shop.mark("dropped", NewMark(id="p9", vault="disk", prefix="data/9/", parent=("table", "12")))

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
    assert [h.id for h in shop.holds.active("shop")] == [2, 3, 4]


def test_blockers_lists_everything_that_blocks(offline: Run, shop: Rig) -> None:
    shop.registry.enable("shop")
    shop.registry.add_instance("two")
    opened = shop.rounds.open("shop", "run-1", None, shop.policy)
    shop.rounds.release(opened, "backing off for 20 s: dropped: the disk is full", "BACKING_OFF")
    controls = shop.controls
    controls.put(ControlKind.STOP, "*", "drill")
    controls.put(ControlKind.BLACKLIST, "two")
    controls.put(ControlKind.WHITELIST, "shop")
    controls.put(ControlKind.VAULT_WHITELIST, "disk")
    offline("hold", "add", "two", *REASON)

    everything = offline("blockers", "--json")
    of_two = offline("blockers", "two")
    status = offline("status")

    blockers = items(everything)
    assert [(k["instance"], k["held_by"]) for k in blockers] == [
        ("shop", "backing off"),
        ("(all)", "no worker"),
        ("(all)", "stop"),
        ("two", "blacklist"),
        ("two", "whitelist"),
        ("two", "observe"),
        ("two", "hold 1"),
    ]
    assert blockers[0]["why"] == "backing off for 20 s: dropped: the disk is full"
    assert blockers[0]["way_out"] == "sexton round retry shop"
    assert of_two.returncode == 0
    assert "backing off" not in of_two.stdout
    assert "sexton hold release 1" in of_two.stdout
    assert "round 1 has had no lease since" in status.stdout
    assert "backing off for 20 s: dropped: the disk is full" in status.stdout
    assert "holds: 1" in status.stdout


def test_why_shows_the_controls_and_the_next_round(offline: Run, shop: Rig) -> None:
    observed = offline("why", "t1", "--json")
    shop.registry.enable("shop")
    free = offline("why", "t1", "--json")
    shop.controls.put(ControlKind.STOP, "shop", "drill")
    away = {"SEXTON_RECYCLE__RECYCLER_STORAGE_VAULT_WHITE_LIST": "elsewhere"}
    blocked = offline("why", "data/a.dat", "--json", **away)

    def seen(answer: CompletedProcess[str]) -> list[str]:
        return [e["event"] for e in json.loads(answer.stdout)["items"][0]["events"]]

    assert (seen(observed), seen(free)) == (["marked", "due", "observe"], ["marked", "due", "next_round"])
    events = {e["event"]: e["text"] for e in json.loads(blocked.stdout)["items"][0]["events"]}
    assert events.keys() == {"marked", "due", "halted_stop", "vault_whitelist"}
    assert "drill" in events["halted_stop"]


def test_blockers_name_past_holds_and_silent_owners(offline: Run, shop: Rig) -> None:
    shop.registry.enable("shop")
    opened = shop.rounds.open("shop", "run", None, shop.policy)
    offline("hold", "add", "shop", *REASON)
    offline("hold", "add", "--mark", "dropped/t1", *REASON)
    silent = Kept(KeepReason.OWNER_SILENT, detail="the live view cannot be read")
    kept = {by_hold(1): 1, by_hold(2): 1, silent: 1, Kept(KeepReason.PROTECTION, "copy"): 1}
    shop.rounds.close(CloseOrder(opened=opened, plan=None, outcome="SUCCEEDED", kept=kept))
    offline("hold", "release", "1")

    counted = [b for b in json.loads(offline("blockers", "--json").stdout)["items"] if "counted by" in b["why"]]
    status = offline("status")

    ended = "it has ended since, and blocks nothing in the next round"
    ways_out = {b["held_by"]: b["way_out"] for b in counted}
    assert (ways_out["hold 1"], ways_out["hold 2"], ways_out["protection copy"]) == (ended, "", ended)
    assert "its owner did not answer; it counts as failed; see: sexton blockers shop" in status.stdout
    assert "last success: never, 1 round without success since" in status.stdout


def test_stop_and_hold_succeed_without_a_call_log(offline: Run, shop: Rig) -> None:
    refuse_inserts(shop.db, "call")

    stopped = offline("stop", "shop", "--reason", "a restore")
    held = offline("hold", "add", "shop", "--for", "1h", "--reason", "audit")
    started = offline("start", "shop")

    assert (stopped.returncode, held.returncode) == (0, 0), stopped.stderr + held.stderr
    assert started.returncode == 1
    assert "shop is stopped" in offline("status").stdout


def test_command_succeeds_without_logging_its_outcome(offline: Run, shop: Rig) -> None:
    refuse_inserts(shop.db, "call", "NEW.begun_id IS NOT NULL")

    created = offline("token", "create", "--scope", "read")
    refused = offline("hold", "release", "77")
    calls = json.loads(offline("log", "--json").stdout)["items"]

    assert (created.returncode, created.stdout[:4]) == (0, "sxt_")
    assert (refused.returncode, "77" in refused.stderr) == (1, True)
    assert [c["outcome"] for c in calls] == ["asked", "asked"]


def test_holds_say_what_they_cover_and_are_listed(offline: Run, shop: Rig) -> None:
    covering = offline("hold", "add", "--mark", "dropped/t1", "--for", "1d", "--reason", "reason 0")
    typo = offline("hold", "add", "--table", "no-such-table", "--for", "1d", "--reason", "reason 1")
    with shop.db.write() as c:
        c.execute(shop.db.t.mark.update().values(state="CLAIMED", claimed_at=shop.db.now(c), batch=1, lease_epoch=1))
    late = offline("hold", "add", "shop", "--for", "1d", "--reason", "reason 2")
    refused = offline("hold", "add", "--mark", "dropped/t1", *REASON)
    offline("hold", "release", "2")
    active, everything = offline("hold", "list", "shop"), offline("hold", "list", "--all")
    newest = json.loads(offline("hold", "list", "--all", "--last", "1", "--json").stdout)

    assert (covering.returncode, "it covers 1 mark now" in covering.stdout, covering.stderr) == (0, True, "")
    assert typo.returncode == 0
    assert "check its spelling; it may still cover descendants that only the owner's records know" in typo.stderr
    assert (late.returncode, "too late for 1 mark" in late.stderr) == (0, True)
    assert (refused.returncode, "its files are being deleted" in refused.stderr) == (1, True)
    assert ("reason 1" in active.stdout, "reason 0" in active.stdout) == (False, True)
    assert ("released" in everything.stdout, "reason 1" in everything.stdout) == (True, True)
    assert ([h["reason"] for h in newest["items"]], newest["more"]) == (["reason 2"], True)
