"""Tell the story of files: garbage in an object store. Each act answers a fear, and a listing checks its numbers."""

from collections.abc import Mapping
from typing import Any

from examples.demo.checking import find_damage
from examples.demo.console import Console
from examples.demo.ending import Sight
from examples.demo.evidence import compare_report, print_balance
from examples.demo.killing import KILL_SHARE, KilledRound
from examples.demo.listing import Key, listing, without
from examples.demo.world import World
from sexton.runtime.embedded.stack import Stack

FILES_PER_ROWSET = 20
TABLES = {
    "events": (15, "hot"),
    "users": (5, "hot"),
    "orders": (10, "cold"),
    "clicks": (40, "cold"),
    "invoices": (5, "cold"),
    "sessions": (2, "cold"),
    "logs": (100, "hot"),
}
"""Rowsets and vault of each table."""
COMPACTED_ROWSETS = 10
CRASHED_ROWSETS = 3
CAP = "100"
"""A cap on deletions per second in vault cold: the kill comes in the middle of the round, also on a busy machine."""
FOUR_DAYS = 4 * 86_400
PAST_UPLOAD_GRACE = 3_660
PAST_RETENTION = 3 * 3_600
SOMETHING_TO_DO = 2
"""Exit code of ``sexton plan``."""
CRASHED = "written by a load that crashed"
LATE = "uploaded late by the crashed load"
LATE_CONTENT = b"late"


class FilesStory:
    """One telling."""

    def __init__(self, console: Console, stack: Stack, world: World, worker_settings: Mapping[str, str]) -> None:
        """``worker_settings``: variables of every worker."""
        self._console, self._stack, self._world, self._worker_settings = console, stack, world, worker_settings
        self._db, self._vaults, self._instance = world.db, world.vaults, world.instance
        self._capped = (self._instance, "cold")
        self._hold = ""
        """The number of the hold on table invoices."""

    def tell(self) -> list[Sight]:
        """Show every act in order; return the rows of the table at the end."""
        self._load()
        self._stack.launch_spark_worker(self._worker_settings)  # it starts while the story goes on
        self._drop_and_undrop()
        before = self._skip_four_days()
        key = min(key for _, key in self._db.keys("clicks"))
        plan = self._explain_and_plan(before, key)
        report = self._apply(before, plan, key)
        self._list_blockers()
        undamaged = self._delete_late_upload()
        check = find_damage(self._console, self._stack, self._world, undamaged)
        large, last = self._delete_large_drop()
        self._account_for_all(before, last)
        self._console.say(f"KEY in the table below: {key}")
        return [
            Sight("object's history", "sexton why KEY", "concepts.md"),
            Sight("stored plans", "sexton plan list", "first-day.md"),
            Sight("round with kill", f"sexton round show {report['round']}", "architecture.md"),
            Sight("deleted objects", f"sexton deletions {report['round']}", "commands.md"),
            Sight("what is kept", "sexton blockers", "incidents.md"),
            check,
            Sight("round on Spark", f"sexton round show {large}", "spark.md"),
        ]

    def _load(self) -> None:
        with self._console.started("vault", "cap", *self._capped, CAP, "--reason", "demo") as command:
            for name, (rowsets, vault) in TABLES.items():
                self._db.create_table(name)
                size = self._db.load(name, rowsets, FILES_PER_ROWSET, vault, seed=self._instance)
                self._world.loaded[name] = size
            self._console.output(command)
        files, size_bytes = (sum(size[n] for size in self._world.loaded.values()) for n in (0, 1))
        loaded = without(listing(self._vaults), self._world.markers)
        self._console.same("files and bytes loaded", (files, size_bytes), (len(loaded), sum(loaded.values())))
        self._console.say(f"minidb, a small database, has loaded {files:,} files of {len(TABLES)} tables.")

    def _drop_and_undrop(self) -> None:
        self._console.act("Fear: Sexton deletes something that was needed")
        db, garbage = self._db, self._world.garbage
        inputs = db.keys("events")
        db.compact("events", COMPACTED_ROWSETS)
        garbage["merged into larger files"] = inputs - db.keys("events")
        garbage[CRASHED] = {
            ("hot", key) for key in db.abandon_load("events", CRASHED_ROWSETS, FILES_PER_ROWSET, "hot", seed="crash")
        }
        for name in ("orders", "clicks", "invoices"):
            db.drop_table(name)
        garbage["of dropped table clicks"] = db.keys("clicks")
        self._console.say("minidb merges files, a load crashes, three tables are dropped.")
        db.undrop_table("orders")
        size = db.read_table("orders")
        self._console.same("orders after undrop", self._world.loaded["orders"], size)
        self._console.say(f"Dropping orders was a mistake. Undropped: all {size.files} checksums are right.")
        options = ("--table", db.table_id("invoices"), "--for", "7d", "--reason", "audit")
        self._hold = str(self._console.sexton_json("hold", "add", self._instance, *options)["hold"]["hold"])
        self._console.say("An auditor still needs dropped table invoices: a hold for 7 days.")

    def _skip_four_days(self) -> dict[Key, int]:
        """Let the retentions pass; return the listing before the round."""
        self._world.move_clock(FOUR_DAYS)
        self._console.say("Four days of demo time pass: the database's clock gets an offset.")
        self._db.drop_table("logs")
        size = self._world.loaded["logs"]
        self._console.say(f"Table logs, {size.files:,} files, is dropped only now; its retention is 3 h.")
        before = listing(self._vaults)
        live = {key for name in TABLES if name != "clicks" for key in self._db.keys(name)}
        unreferenced = without(before, live | self._world.markers)
        self._console.same("garbage by listing and metadata", self._world.all_garbage, set(unreferenced))
        return before

    def _explain_and_plan(self, before: dict[Key, int], key: str) -> int:
        """Show the history of one object, and a plan; return the plan's number."""
        self._console.act("Fear: an operator cannot know in advance what will be deleted")
        self._console.show(self._console.sexton("why", key))
        plan = self._console.sexton_json("plan", self._instance, codes=(SOMETHING_TO_DO,))["plan"]
        for kind in plan["kinds"]:
            size = f"{kind['keys']:,} keys" if kind["keys"] else f"{kind['prefixes']:,} prefixes"
            self._console.say(f"| {kind['kind']:<10} {kind['marks']:>3,} marks, {size}")
        self._console.same("objects after the plan", before, listing(self._vaults))
        self._console.say("Seen: counts in advance. The listing is unchanged by the plan.")
        return int(plan["plan"])

    def _apply(self, before: dict[Key, int], plan: int, key: str) -> Any:
        """Apply the plan through a kill; return the round's report."""
        self._console.act("Fear: a crash in the middle leaves garbage, or deletes too much")
        self._console.say(f"A worker applies exactly that plan, and is killed at about {KILL_SHARE:.0%}.")
        self._stack.await_worker()
        garbage = self._world.all_garbage
        killed_round = KilledRound(self._console, self._stack, self._vaults, self._capped, len(garbage))
        report = killed_round.apply(plan, self._worker_settings)
        after = listing(self._vaults)
        self._console.same("what is left, key by key", without(before, garbage), after)
        compare_report(self._console, self._vaults, "first round", report, without(before, after))
        self._compare_kept("first round", report)
        self._console.say(f"Seen: by an S3 listing, exactly the {len(garbage):,} objects are deleted.")
        self._console.show(self._console.sexton("why", key))
        return report

    def _list_blockers(self) -> None:
        self._console.act("Fear: Sexton silently stops deleting")
        self._console.say("Table invoices was due too. What stays has a reason, and a way out:")
        for blocker in self._console.sexton_json("blockers", self._instance)["items"]:
            details = (blocker[name] for name in ("what", "why", "way_out") if blocker[name])
            self._console.say(f"| {blocker['held_by']}: {'; '.join(details)}")

    def _delete_late_upload(self) -> dict[Key, int]:
        """Delete an upload of the crashed load that arrives after the round; return the last listing."""
        self._console.act("Fear: a file that arrives late stays permanently")
        key = min(key for _, key in self._world.garbage[CRASHED]).replace("_0000", "_9999")
        self._db.vault("hot").write([(key, LATE_CONTENT)])
        before = listing(self._vaults)
        self._console.say("An upload of the crashed load arrives now. 1 h of demo time passes.")
        self._world.move_clock(PAST_UPLOAD_GRACE)
        report = self._console.sexton_json("round", "run", self._instance)
        last = listing(self._vaults)
        self._console.same("what is left after the second round", without(before, [("hot", key)]), last)
        compare_report(self._console, self._vaults, "second round", report, without(before, last))
        self._compare_kept("second round", report)
        self._world.garbage[LATE] = {("hot", key)}
        self._console.say("Seen: the second pass over the load's prefixes deleted only that file.")
        return last

    def _delete_large_drop(self) -> tuple[int, dict[Key, int]]:
        """Delete a table of many files on Spark; return the round and the last listing."""
        self._console.act("Fear: a large drop is too much for one process")
        self._db.drop_table("sessions")
        before = listing(self._vaults)
        self._world.move_clock(PAST_RETENTION - PAST_UPLOAD_GRACE)
        self._console.say("Table sessions is dropped, and 2 h pass: logs is due, sessions is not.")
        self._console.say("It is too large to be deleted without approval, so an operator applies a plan.")
        plan = self._console.sexton_json("plan", self._instance, codes=(SOMETHING_TO_DO,))["plan"]
        report = self._console.sexton_json("apply", str(plan["plan"]), "--yes")
        last = listing(self._vaults)
        garbage = self._db.keys("logs")
        self._console.same("what is left after the large drop", without(before, garbage), last)
        compare_report(self._console, self._vaults, "third round", report, without(before, last))
        self._compare_kept("third round", report)
        notes = {kind["kind"]: kind["note"] for kind in report["kinds"] if kind["deleted"]}
        self._console.same("where the large drop was deleted", {"dropped": "deleted on Spark"}, notes)
        self._world.garbage["of dropped table logs, on Spark"] = garbage
        self._console.say(f"Seen: Spark's executors deleted exactly the {len(garbage):,} objects of logs.")
        return int(report["round"]), last

    def _account_for_all(self, before: dict[Key, int], last: dict[Key, int]) -> None:
        """Read every live table back, and give a reason for each object that was deleted or kept."""
        self._console.act("Fear: what is left is damaged, or the numbers are wishful")
        for name in ("events", "users", "orders"):
            size = self._db.read_table(name)
            self._console.same(f"bytes of {name}, read back", self._world.loaded[name].bytes, size.bytes)
        self._console.say("Tables events, users and orders are read back: every checksum is right.")
        kept = {
            "of live tables events and users": self._db.keys("events") | self._db.keys("users"),
            "of table orders, undropped in time": self._db.keys("orders"),
            "of table sessions, dropped too recently": self._db.keys("sessions"),
            f"of dropped table invoices, by hold {self._hold}": self._db.keys("invoices"),
            "Sexton's own markers of the vaults": self._world.markers,
        }
        late = {key: len(LATE_CONTENT) for key in self._world.garbage[LATE]}
        print_balance(self._console, before | late, self._world.garbage, last, kept)

    def _compare_kept(self, label: str, report: Any) -> None:
        """Compare what the report says was kept with the one hold."""
        kept = [(entry["reason"], entry["subject"], entry["marks"]) for entry in report["kept"]]
        self._console.same(f"{label}: marks kept", [("hold", self._hold, TABLES["invoices"][0])], kept)
