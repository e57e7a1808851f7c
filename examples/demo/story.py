"""The beats of the story. What must be true after each is computed from a listing and minidb's own metadata."""

import time
from collections.abc import Mapping
from pathlib import Path

import boto3
from botocore.config import Config

from examples.demo import evidence
from examples.demo.console import Console
from examples.demo.listing import Key, listing, told, without
from examples.minidb import MiniDB, Size, Vault, open_engine
from examples.minidb.vault import THREADS
from sexton.db.engine import Database
from sexton.db.schema import move_clock

FILES_PER_ROWSET = 50
SHARES = {"events": (20, "hot"), "users": (15, "hot"), "orders": (15, "cold"), "clicks": (45, "cold")}
"""Percent of the files, and the vault; what remains is table ``sessions``, in ``cold``."""
COMPACTED_PERCENT = 60
ABANDONED_ROWSETS = 6
FOUR_DAYS = 4 * 86_400
PAST_UPLOAD_GRACE = 3_660
SOMETHING_TO_DO = 2
"""Exit code of ``sexton plan``."""
LATE = b"late"
LATE_UPLOAD = "uploaded late by the crashed load"


class Story:
    """One telling; a second one over the same home has a new instance and new prefixes."""

    def __init__(self, console: Console, home: Path, environment: Mapping[str, str], files: int) -> None:
        self.console, self.environment, self.files = console, environment, files
        self.run = _next_run(home)
        self.instance = f"demo-{self.run}"
        self.s3 = boto3.client(
            "s3",
            endpoint_url=environment["SEXTON_S3__ENDPOINT_URL"],
            region_name=environment["AWS_DEFAULT_REGION"],
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            # Checksums only where S3 demands them: this client shares two cores with the server.
            config=Config(max_pool_connections=THREADS, request_checksum_calculation="when_required"),
        )
        self.vaults = [Vault(name, f"demo-{name}", f"run-{self.run}/", self.s3) for name in ("hot", "cold")]
        self.db = MiniDB(open_engine(environment["SEXTON_DATABASE_URL"]), self.instance, self.vaults)
        self.garbage: dict[str, set[Key]] = {}
        """What must go, by reason; filled from minidb's metadata and from its crashed load."""
        self.loaded: dict[str, Size] = {}
        self.rate = ""

    def tell(self) -> None:
        """Every beat, in order."""
        self.register()
        self.load()
        self.make_garbage()
        self.undrop()
        before = self.wait_four_days()
        after = self.collect(before)
        self.read_back()
        last = self.look_once_more(after)
        self.last_screen(before, last)

    def register(self) -> None:
        """Instance and vaults, through the real command line."""
        self.console.beat(f"A database and its two vaults: instance {self.instance}")
        present = {b["Name"] for b in self.s3.list_buckets()["Buckets"]}
        self.console.sexton("instance", "add", self.instance)
        for vault in self.vaults:
            if vault.bucket not in present:
                self.s3.create_bucket(Bucket=vault.bucket)
            place = f"{vault.bucket}/{vault.prefix.rstrip('/')}"
            self.console.sexton("vault", "add", self.instance, vault.name, "--s3", place)
        # Until now its rounds would only have reported what they would do.
        self.console.sexton("enable", self.instance)

    def load(self) -> None:
        """Five tables, by plain S3 PUTs; each load is prepared before its first PUT."""
        self.console.beat(f"minidb loads {self.files:,} files")
        self.db.create_schema()
        began, empty, left = time.monotonic(), listing(self.vaults), self.files
        for name, (percent, vault) in SHARES.items():
            rowsets = max(2, self.files * percent // 100 // FILES_PER_ROWSET)
            self._load(name, rowsets, vault)
            left -= rowsets * FILES_PER_ROWSET
        self._load("sessions", max(1, left // FILES_PER_ROWSET), "cold")
        seconds = time.monotonic() - began
        files, size = (sum(s[n] for s in self.loaded.values()) for n in (0, 1))
        self.console.say(f"  {files:,} files in {seconds:.1f} s, {files / seconds:,.0f} PUT/s")
        written = without(listing(self.vaults), empty)
        self.console.same(
            "files and bytes loaded, in the listing", (files, size), (len(written), sum(written.values()))
        )

    def _load(self, name: str, rowsets: int, vault: str) -> None:
        self.db.create_table(name)
        size = self.loaded[name] = self.db.load(name, rowsets, FILES_PER_ROWSET, vault, seed=self.instance)
        self.console.say(f"  {name:<9} {size.files:>6,} files, {size.bytes:>10,} bytes in vault {vault}")

    def make_garbage(self) -> None:
        """A compaction, a load that crashes, two dropped tables."""
        self.console.beat("minidb makes garbage; each operation marks it in its own commit")
        inputs = self.db.keys("events")
        merged = self.db.compact("events", max(2, len(inputs) // FILES_PER_ROWSET * COMPACTED_PERCENT // 100))
        outputs = self.db.keys("events") - inputs
        self.garbage["compacted: their rows live on in the outputs"] = inputs - self.db.keys("events")
        self.console.say(f"  compacted {merged.files:,} files of events into {len(outputs)}")
        lost = self.db.abandon_load("events", ABANDONED_ROWSETS, FILES_PER_ROWSET, "hot", seed="crash")
        self.garbage["prepared by a load that crashed"] = {("hot", key) for key in lost}
        self.console.say(f"  a load into events crashed after {len(lost)} files; minidb has forgotten them")
        for name in ("orders", "clicks"):
            self.db.drop_table(name)
        self.garbage["dropped with table clicks"] = self.db.keys("clicks")
        self.console.say("  dropped tables orders and clicks")

    def undrop(self) -> None:
        """The first half of safety: what is not yet claimed comes back whole."""
        self.console.beat("Dropping orders was a mistake: undrop it, and read it back")
        self.db.undrop_table("orders")
        size = self.db.read_table("orders")
        self.console.same("orders after undrop", self.loaded["orders"], size)
        self.console.say(f"  orders is back: {size.files:,} files, {size.bytes:,} bytes, every checksum verified")

    def wait_four_days(self) -> dict[Key, int]:
        """Retentions pass; then something young, which must stay. Return the listing before the round."""
        self.console.beat("Four days pass: the demo's clock moves forward (only a demo- or test- deployment allows it)")
        self._move_clock(FOUR_DAYS)
        self.db.drop_table("sessions")
        self.console.say("  today somebody drops table sessions: marked, but its retention of 3 h has just begun")
        before = listing(self.vaults)
        self.console.say(f"  listed now: {told(before)}")
        metadata = {key for name in ("events", "users", "orders", "sessions") for key in self.db.keys(name)}
        markers = {(vault.name, "_sexton/vault.json") for vault in self.vaults}
        unreferenced = without(before, metadata | markers)
        self.console.same("garbage by listing and metadata", set().union(*self.garbage.values()), set(unreferenced))
        return before

    def collect(self, before: dict[Key, int]) -> dict[Key, int]:
        """Plan and apply, and hold the report against the listing. Return the listing afterwards."""
        self.console.beat("What would go? A plan deletes nothing")
        plan = self.console.sexton_json("plan", self.instance, codes=(SOMETHING_TO_DO,))
        for kind in plan["kinds"]:
            what = f"{kind['keys']:>6,} keys" if kind["keys"] else f"{kind['prefixes']:>6,} prefixes"
            self.console.say(
                f"  {kind['kind']:<10} {kind['marks']:>4,} marks, {what}, {kind['bytes']:>10,} bytes known"
            )
        self.console.same("objects after the plan", before, listing(self.vaults))
        self.console.beat("Apply exactly that plan")
        began = time.monotonic()
        report = self.console.sexton_json("apply", str(plan["id"]), "--yes")
        seconds = time.monotonic() - began
        after = listing(self.vaults)
        gone = without(before, after)
        self.rate = f"{len(gone) / seconds:,.0f} objects/s, the command's start and the workflow included"
        self.console.say(f"  {told(gone)} gone in {seconds:.1f} s: {self.rate}")
        self.console.same("what is left, key by key", without(before, set().union(*self.garbage.values())), after)
        evidence.same_report(self.console, self.vaults, "apply", report, gone)
        return after

    def read_back(self) -> None:
        """The other half of safety: what lives is whole."""
        self.console.beat("Read every remaining table back")
        for name in ("events", "users", "orders"):
            size = self.db.read_table(name)
            self.console.same(f"bytes of {name}, read back", self.loaded[name].bytes, size.bytes)
            self.console.say(f"  {name:<9} {size.files:>6,} files, {size.bytes:>10,} bytes, every checksum verified")

    def look_once_more(self, after: dict[Key, int]) -> dict[Key, int]:
        """A late upload of the crashed load: its prefixes are listed once more when the upload grace has passed."""
        self.console.beat("One of the crashed load's uploads was still under way: it arrives now, after the deletion")
        vault = self.vaults[0]
        key = min(k for v, k in self.garbage["prepared by a load that crashed"] if v == vault.name)
        late = (vault.name, key.replace("_0000", "_9999"))
        vault.write([(late[1], LATE)])
        before = listing(self.vaults)
        self.console.same("objects after the late upload", set(after) | {late}, set(before))
        self._move_clock(PAST_UPLOAD_GRACE)
        self.console.say("  the clock moves past the upload grace of 1 h: swept prefixes are looked at a last time")
        plan = self.console.sexton_json("plan", self.instance, codes=(SOMETHING_TO_DO,))
        report = self.console.sexton_json("apply", str(plan["id"]), "--yes")
        last = listing(self.vaults)
        self.console.same("what is left after the second round", after, last)
        evidence.same_report(self.console, self.vaults, "second apply", report, without(before, last))
        self.console.same("prefix marks that went for good", ABANDONED_ROWSETS, report["removed"])
        self.garbage[LATE_UPLOAD] = {late}
        self.console.say(f"  the late file is gone, and so are the {report['removed']} marks of the crashed load")
        return last

    def last_screen(self, before: dict[Key, int], last: dict[Key, int]) -> None:
        """Deleted, kept, why; expected against listed; where to look next."""
        self.console.beat("Deleted and kept, and why (objects and bytes by listings that are not Sexton's)")
        ever = before | {key: len(LATE) for key in self.garbage[LATE_UPLOAD]}
        kept = {f"table {name}: live": self.db.keys(name) for name in ("events", "users")}
        kept["table orders: live again, undropped in time"] = self.db.keys("orders")
        kept["table sessions: dropped today, its retention has not passed"] = young = self.db.keys("sessions")
        evidence.balance(self.console, self.vaults, ever, self.garbage, last, kept)
        self.console.say(f"  deleted at {self.rate}")
        self.console.say(f"  Temporal UI: {self.environment['SEXTON_TEMPORAL__UI_URL']}")
        self.console.say("  three commands to try:")
        for command in (f"why {min(young)[1]}", "status", f"plan {self.instance}"):
            self.console.say(f"    .venv/bin/sexton {command}")
        evidence.verdict(self.console)

    def _move_clock(self, seconds: int) -> None:
        database = Database.open(self.environment["SEXTON_DATABASE_URL"])
        move_clock(database, seconds)
        database.close()


def _next_run(home: Path) -> int:
    """Count the runs over a home: names and prefixes are never used twice."""
    counter = home / "demo-runs"
    run = int(counter.read_text()) + 1 if counter.is_file() else 1
    counter.write_text(f"{run}\n")
    return run
