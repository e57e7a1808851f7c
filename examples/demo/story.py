"""The beats of the story. What must be true after each is computed from a listing and minidb's own metadata."""

import time
from contextlib import ExitStack

from examples.demo import FOR_WORKERS, evidence
from examples.demo.binlog import Expiring
from examples.demo.console import Console
from examples.demo.copying import Copying
from examples.demo.killing import SECOND, SHARE, Killing
from examples.demo.listing import Key, listing, only, told, without
from examples.demo.topic import Shrinking
from examples.demo.world import World
from sexton.runtime.embedded.stack import Stack

FILES_PER_ROWSET = 50
SHARES = {
    "events": (20, "hot"),
    "users": (15, "hot"),
    "orders": (15, "cold"),
    "clicks": (45, "cold"),
    "invoices": (2, "cold"),
    "exports": (3, "cold"),
}
"""Percent of the files, and the vault; what remains is table ``sessions``, in ``cold``."""
LIVE = ("events", "users", "orders")
COMPACTED_PERCENT = 60
ABANDONED_ROWSETS = 6
FOUR_DAYS = 4 * 86_400
PAST_UPLOAD_GRACE = 3_660
SOMETHING_TO_DO = 2
"""Exit code of ``sexton plan``."""
CRASHED = "prepared by a load that crashed"
LATE = b"late"
LATE_UPLOAD = "uploaded late by the crashed load"
AUDIT = "the auditors have not seen it yet"
COPIED = "dropped with table exports, after its copy was done"
VERSION = 1_000
"""minidb's own count of what it knows, which a finished protection waits for."""


class Story:
    """One telling."""

    def __init__(self, console: Console, stack: Stack, files: int) -> None:
        self.console, self.stack, self.files = console, stack, files
        self.world = World(stack)
        self.db, self.vaults, self.instance = self.world.db, self.world.vaults, self.world.instance
        self.held: dict[str, int] = {}
        """Marks that a report must count as held, by holder."""
        self.rate = ""

    def tell(self) -> None:
        """Every beat, in order."""
        self.register()
        self.load()
        self.make_garbage()
        self.undrop()
        # It starts while the story goes on; the round waits for it.
        self.stack.launch_worker(SECOND, FOR_WORKERS)
        before = self.wait_four_days()
        self.hold_invoices()
        copying = self.copy_exports()
        after = self.collect(before)
        self.look_at_held(after)
        self.read_back()
        self.end_copying(copying)
        last = self.look_once_more(after)
        self.shrink_topic()
        self.expire_binlogs()
        self.last_screen(before, last)

    def register(self) -> None:
        """Instance and vaults, through the real command line."""
        self.console.beat(f"A database and its two vaults: instance {self.instance}")
        present = {b["Name"] for b in self.world.s3.list_buckets()["Buckets"]}
        self.console.sexton("instance", "add", self.instance)
        with ExitStack() as both:
            adding = []
            for vault in self.vaults:
                if vault.bucket not in present:
                    self.world.s3.create_bucket(Bucket=vault.bucket)
                place = f"{vault.bucket}/{vault.prefix.rstrip('/')}"
                add = self.console.began("vault", "add", self.instance, vault.name, "--s3", place)
                adding.append(both.enter_context(add))
            for process in adding:
                self.console.ended(process)
        # Until now its rounds would only have reported what they would do.
        self.console.sexton("enable", self.instance)

    def load(self) -> None:
        """Six tables, by plain S3 PUTs; each load is prepared before its first PUT."""
        self.console.beat(f"minidb loads {self.files:,} files")
        self.db.create_schema()
        began, empty, left = time.monotonic(), listing(self.vaults), self.files
        for name, (percent, vault) in SHARES.items():
            rowsets = max(2, self.files * percent // 100 // FILES_PER_ROWSET)
            self._load(name, rowsets, vault)
            left -= rowsets * FILES_PER_ROWSET
        self._load("sessions", max(1, left // FILES_PER_ROWSET), "cold")
        seconds = time.monotonic() - began
        files, size = (sum(s[n] for s in self.world.loaded.values()) for n in (0, 1))
        self.console.say(f"  {files:,} files in {seconds:.1f} s, {files / seconds:,.0f} PUT/s")
        written = without(listing(self.vaults), empty)
        self.console.same(
            "files and bytes loaded, in the listing", (files, size), (len(written), sum(written.values()))
        )

    def _load(self, name: str, rowsets: int, vault: str) -> None:
        self.db.create_table(name)
        size = self.world.loaded[name] = self.db.load(name, rowsets, FILES_PER_ROWSET, vault, seed=self.instance)
        self.console.say(f"  {name:<9} {size.files:>6,} files, {size.bytes:>10,} bytes in vault {vault}")

    def make_garbage(self) -> None:
        """A compaction, a load that crashes, three dropped tables."""
        self.console.beat("minidb makes garbage; each operation marks it in its own commit")
        inputs, garbage = self.db.keys("events"), self.world.garbage
        merged = self.db.compact("events", max(2, len(inputs) // FILES_PER_ROWSET * COMPACTED_PERCENT // 100))
        outputs = self.db.keys("events") - inputs
        garbage["compacted: their rows live on in the outputs"] = inputs - self.db.keys("events")
        self.console.say(f"  compacted {merged.files:,} files of events into {len(outputs)}")
        lost = self.db.abandon_load("events", ABANDONED_ROWSETS, FILES_PER_ROWSET, "hot", seed="crash")
        garbage[CRASHED] = {("hot", key) for key in lost}
        self.console.say(f"  a load into events crashed after {len(lost)} files; minidb has forgotten them")
        for name in ("orders", "clicks", "invoices", "exports"):
            self.db.drop_table(name)
        garbage["dropped with table clicks"] = self.db.keys("clicks")
        self.console.say("  dropped tables orders, clicks, invoices and exports")

    def undrop(self) -> None:
        """The first half of safety: what is not yet claimed comes back whole."""
        self.console.beat("Dropping orders was a mistake: undrop it, and read it back")
        self.db.undrop_table("orders")
        size = self.db.read_table("orders")
        self.console.same("orders after undrop", self.world.loaded["orders"], size)
        self.console.say(f"  orders is back: {size.files:,} files, {size.bytes:,} bytes, every checksum verified")

    def wait_four_days(self) -> dict[Key, int]:
        """Retentions pass; then something young, which must stay. Return the listing before the round."""
        self.console.beat("Four days pass: the demo's clock moves forward (only a demo- or test- deployment allows it)")
        self.world.move_clock(FOUR_DAYS)
        self.db.drop_table("sessions")
        self.console.say("  today somebody drops table sessions: marked, but its retention of 3 h has just begun")
        before = listing(self.vaults)
        self.console.say(f"  listed now: {told(before)}")
        metadata = {key for name in (*LIVE, "sessions", "invoices", "exports") for key in self.db.keys(name)}
        unreferenced = without(before, metadata | self.world.markers)
        self.console.same("garbage by listing and metadata", self.world.must_go, set(unreferenced))
        return before

    def hold_invoices(self) -> None:
        """What an operator holds stays, whatever its mark says."""
        self.console.beat("Auditors ask for table invoices, dropped four days ago: somebody holds it, by its id")
        words = ("--instance", self.instance, "--for", "7d", "--reason", AUDIT)
        hold = self.console.sexton_json("hold", "table", self.db.table_id("invoices"), *words)
        self.held = {f"hold {hold['id']}": self.world.loaded["invoices"].files // FILES_PER_ROWSET}

    def copy_exports(self) -> Copying:
        """What a sync job copies stays, however dropped it is."""
        self.console.beat("A sync job copies table exports elsewhere; it protects what it reads, over the API")
        self.console.say(f"  api       ready in {self.stack.start_api():.1f} s")
        token = self.console.sexton_json("token", "create", "--scope", "sync:copy", "--days", "1")["token"]
        self.console.sexton("protection", "watermark", self.instance, str(VERSION))
        address = self.world.environment["SEXTON_API__LISTEN"]
        copying = Copying(self.world, f"http://{address}", token, "exports", VERSION)
        files = copying.begin()
        self.held[f"protection {copying.job}"] = self.world.loaded["exports"].files // FILES_PER_ROWSET
        self.console.say(f"  {files} files are copied, the others are still to come")
        return copying

    def end_copying(self, copying: Copying) -> None:
        """The copy is whole, and what was protected may go once minidb knows of it."""
        self.console.beat("The sync job copies the rest: the round between has taken nothing of it")
        files = copying.end()
        self.console.same("files of exports, copied", self.world.loaded["exports"].files, files)
        self.console.same("the copy, every checksum", True, copying.same())
        self.console.say(f"  {files} files are copied and read back, every checksum verified; the job is finished")
        self.console.sexton("protection", "watermark", self.instance, str(VERSION + 1))
        del self.held[f"protection {copying.job}"]
        self.world.garbage[COPIED] = self.db.keys("exports")

    def collect(self, before: dict[Key, int]) -> dict[Key, int]:
        """Plan and apply, and hold the report against the listing. Return the listing afterwards."""
        self.console.beat("What would go? A plan deletes nothing")
        plan = self.console.sexton_json("plan", self.instance, codes=(SOMETHING_TO_DO,))
        for kind in plan["kinds"]:
            what = f"{kind['keys']:>6,} keys" if kind["keys"] else f"{kind['prefixes']:>6,} prefixes"
            known = f"{kind['bytes']:>10,} bytes known"
            self.console.say(f"  {kind['kind']:<10} {kind['marks']:>4,} marks, {what}, {known}")
        self.console.same("objects after the plan", before, listing(self.vaults))
        self.console.beat(f"Apply exactly that plan, with two workers; at about {SHARE:.0%} one of them gets a kill -9")
        garbage = self.world.must_go
        killing = Killing(self.console, self.stack, self.vaults, self.instance, len(before), len(garbage))
        killed = killing.apply(plan["id"])
        after = listing(self.vaults)
        gone = without(before, after)
        self.rate = f"{killed.rate:,.0f} objects/s, page by page, the {killed.silence:.1f} s of silence left out"
        self.console.say(f"  {told(gone)} gone: {self.rate}")
        self.console.same("what is left, key by key", without(before, garbage), after)
        evidence.same_report(self.console, self.vaults, "apply", killed.report, gone)
        self.console.same("apply: marks held, by holder", self.held, killed.report["held"])
        return after

    def look_at_held(self, after: dict[Key, int]) -> None:
        """The held table is whole, and everybody can see who keeps it."""
        self.console.beat("Table invoices was due as well; the report says who kept it")
        keys = self.db.keys("invoices")
        self.console.same("files of invoices, held", keys, set(only(after, keys)))
        for who, marks in self.held.items():
            self.console.say(f"  held by {who}: {marks} marks")
        self.console.say(f"  all {len(keys)} files of invoices are still listed")
        for line in self.console.sexton("blockers", self.instance).splitlines():
            self.console.say(f"  {line}".rstrip(" ─"))

    def read_back(self) -> None:
        """The other half of safety: what lives is whole."""
        self.console.beat("Read every remaining table back")
        for name in LIVE:
            size = self.db.read_table(name)
            self.console.same(f"bytes of {name}, read back", self.world.loaded[name].bytes, size.bytes)
            self.console.say(f"  {name:<9} {size.files:>6,} files, {size.bytes:>10,} bytes, every checksum verified")

    def look_once_more(self, after: dict[Key, int]) -> dict[Key, int]:
        """A late upload of the crashed load: its prefixes are listed once more when the upload grace has passed."""
        self.console.beat("One of the crashed load's uploads was still under way: it arrives now, after the deletion")
        vault = self.vaults[0]
        key = min(k for v, k in self.world.garbage[CRASHED] if v == vault.name)
        late = (vault.name, key.replace("_0000", "_9999"))
        vault.write([(late[1], LATE)])
        before = listing(self.vaults)
        self.console.same("objects after the late upload", set(after) | {late}, set(before))
        self.world.move_clock(PAST_UPLOAD_GRACE)
        self.console.say("  the clock moves past the upload grace of 1 h: swept prefixes are looked at a last time")
        plan = self.console.sexton_json("plan", self.instance, codes=(SOMETHING_TO_DO,))
        report = self.console.sexton_json("apply", str(plan["id"]), "--yes")
        last = listing(self.vaults)
        self.console.same("what is left after the second round", without(after, self.world.garbage[COPIED]), last)
        evidence.same_report(self.console, self.vaults, "second apply", report, without(before, last))
        self.console.same("second apply: marks held, by holder", self.held, report["held"])
        copied = self.world.loaded["exports"].files // FILES_PER_ROWSET
        self.console.same("marks that went for good", ABANDONED_ROWSETS + copied, report["removed"])
        self.world.garbage[LATE_UPLOAD] = {late}
        self.console.say("  the late file is gone, and so are the marks of the crashed load, and table exports")
        return last

    def shrink_topic(self) -> None:
        """Regions on a write-ahead log: what all of them have flushed goes from the log, and nothing else."""
        self.console.beat("Four regions of minidb share one topic of a write-ahead log: one lags and holds it for all")
        with Shrinking(self.console, self.world, self.stack.home / "regions") as topic:
            topic.fill()
            topic.explain()
            topic.purge()
            self.console.beat("The node crashes: what its regions had only in memory they read from the topic again")
            topic.crash()

    def expire_binlogs(self) -> None:
        """Binlogs on storage backends: what expired goes, but for what a consumer or a copy of a tablet still lacks."""
        self.console.beat("Three storage backends keep binlogs for ten minutes; a worker beside each lets go of them")
        with Expiring(self.console, self.world, self.stack, self.stack.home / "backends") as binlogs:
            binlogs.fill()
            self.console.beat("Half an hour passes at once; what has expired a consumer has not read yet")
            binlogs.jump()
            binlogs.hold()
            binlogs.cut()
            self.console.beat("The two copies are repaired from the binlogs that were kept for them; then those go too")
            binlogs.repair()

    def last_screen(self, before: dict[Key, int], last: dict[Key, int]) -> None:
        """Deleted, kept, why; expected against listed; where to look next."""
        self.console.beat("Deleted and kept, and why (objects and bytes by listings that are not Sexton's)")
        ever = before | {key: len(LATE) for key in self.world.garbage[LATE_UPLOAD]}
        kept = {f"table {name}: live": self.db.keys(name) for name in ("events", "users")}
        kept["table orders: live again, undropped in time"] = self.db.keys("orders")
        kept["table sessions: dropped today, its retention has not passed"] = self.db.keys("sessions")
        kept[f"table invoices: {', '.join(self.held)}, {AUDIT}"] = held = self.db.keys("invoices")
        evidence.balance(self.console, self.vaults, ever, self.world.garbage, last, kept)
        self.console.say(f"  deleted at {self.rate}")
        evidence.where_next(self.console, self.stack.home, self.world.environment, self.instance, min(held)[1])
        evidence.verdict(self.console)
