"""Compare objects with records in this process: for instances that one process can list in minutes, or without Spark.

Objects and entries are stored in a scratch database on disk, so memory does not grow with their number.
"""

import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from sexton.check.model import CheckOrder, Discrepancy, Evidence, FindingType, Heartbeat, Listing
from sexton.check.policy import is_stored, latest_judged_write, old_enough, unknown_object, with_live_counts
from sexton.check.sql.live_side import LiveSide
from sexton.check.sql.store import CheckStore
from sexton.kernel.errors import TooManyObjects
from sexton.marks.live import LiveEntry
from sexton.marks.policy import covering_prefixes
from sexton.owners.port import NoLiveSide, OwnerSilent
from sexton.storage.model import ListedObject, VaultSpec
from sexton.storage.policy import canonical
from sexton.storage.port import Throttled, UnknownVault, VaultFault, Vaults

PAGE_FINDINGS = 1_000
"""Findings that are stored in one page."""
LIVE_SECONDS = 14_400
"""How long the live side may take to be read: an owner's view may show rows without an end."""
UNDIVIDED_OBJECTS = 10_000_000
"""Up to so many listed objects, the live side is read as one part. Dividing it reads all of it once more, but each part
may take an hour."""
STORE_SECONDS = 3.0
"""How often a comparison stores how far it is."""
MAX_ATTEMPTS = 6
"""Attempts to list a vault whose busy store cuts listings short, with waits of 1, 2, 4 … s between them."""

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
CREATE TABLE object (
    vault TEXT, name TEXT, key TEXT, bytes INT, etag TEXT, written TEXT, young INT, PRIMARY KEY (vault, name, key)
) WITHOUT ROWID;
CREATE TABLE known (
    vault TEXT, name TEXT, key TEXT, live INT, bytes INT, record TEXT, PRIMARY KEY (vault, name, key)
) WITHOUT ROWID;
CREATE TABLE cover (
    vault TEXT, name TEXT, key TEXT, live INT, record TEXT, PRIMARY KEY (vault, name)
) WITHOUT ROWID;
"""
_ADD_ENTRY = """
INSERT INTO known VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    record = CASE WHEN excluded.live > live THEN excluded.record ELSE record END,
    live = max(live, excluded.live), bytes = coalesce(bytes, excluded.bytes)
"""
_ADD_PREFIX = """
INSERT INTO cover VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    key = CASE WHEN excluded.live > live THEN excluded.key ELSE key END,
    record = CASE WHEN excluded.live > live THEN excluded.record ELSE record END,
    live = max(live, excluded.live)
"""
_EMPTY_PREFIXES = """
SELECT c.vault, c.key, c.record FROM cover c
WHERE c.live AND c.vault = ? AND NOT EXISTS (
    SELECT 1 FROM object o WHERE o.vault = c.vault AND o.name >= c.name AND o.name < c.name || char(1114111)
)
"""
_DISAGREEING_ENTRIES = """
SELECT k.vault, k.key, k.bytes, o.bytes, coalesce(o.etag, ''), coalesce(o.written, ''), k.record
FROM known k LEFT JOIN object o USING (vault, name)
WHERE k.live AND k.vault = ? AND (o.key IS NULL OR (o.key = k.key AND o.bytes <> k.bytes))
"""
_UNKNOWN_OBJECTS = """
SELECT o.vault, o.name, o.key, o.bytes, o.etag, o.written FROM object o
WHERE NOT o.young AND NOT EXISTS (SELECT 1 FROM known k WHERE k.vault = o.vault AND k.name = o.name)
"""


class InProcessComparison:
    """Implements ``check.model.Compare`` in this process."""

    def __init__(self, vaults: Vaults, live: LiveSide, runs: CheckStore) -> None:
        self._vaults, self._live, self._runs = vaults, live, runs

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List every vault, then read the live side, and store each disagreement as a finding."""
        with (
            tempfile.TemporaryDirectory(prefix="sexton-check-") as folder,
            closing(sqlite3.connect(Path(folder) / "check.db", isolation_level=None, check_same_thread=False)) as db,
        ):
            db.executescript(_SCHEMA)
            db.execute("BEGIN")
            until = latest_judged_write(order.run.cutoff, order.grace_seconds)
            pages = _PageCounter(heartbeat, self._runs, order)
            listings = tuple(self._list(db, spec, until, pages) for spec in vaults)
            evidence = Evidence(cutoff=order.run.cutoff, listings=listings, listed_at=self._runs.now())
            try:
                evidence = self._read_live_side(db, order, evidence, pages, divided=pages.listed > UNDIVIDED_OBJECTS)
            except (OwnerSilent, NoLiveSide) as e:
                return evidence.model_copy(update={"errors": (str(e),)})
            counts, page = Counter[str](), list[Discrepancy]()
            for finding in self._findings(db, order, listings):
                counts[finding.type] += 1
                if is_stored(finding.type, counts[finding.type]):
                    page.append(finding)
                if len(page) == PAGE_FINDINGS:
                    heartbeat()
                    self._runs.store_findings(order.run, page)
                    page = []
            self._runs.store_findings(order.run, page)
            return evidence.model_copy(update={"found": dict(counts)})

    def _list(self, db: sqlite3.Connection, spec: VaultSpec, until: str, pages: "_PageCounter") -> Listing:
        """List one vault, again where the store was busy; a fault of the vault is an error of the listing."""
        attempts, listed_before = 0, pages.listed
        while True:
            counts, pages.listed = Counter[str](), listed_before
            try:
                self._list_once(db, spec, until, counts, pages)
            except (VaultFault, UnknownVault) as e:
                attempts += 1
                if isinstance(e, Throttled) and attempts < MAX_ATTEMPTS:
                    until_again = time.monotonic() + (e.retry_after or 2.0 ** (attempts - 1))
                    while (remaining := until_again - time.monotonic()) > 0:
                        pages.heartbeat()
                        time.sleep(min(remaining, 0.5))
                    continue
                return Listing(vault=spec.name, parts=1, ended=0, **counts, errors=(str(e)[:500],))
            return Listing(vault=spec.name, parts=1, ended=1, **counts)

    def _list_once(
        self, db: sqlite3.Connection, spec: VaultSpec, until: str, counts: Counter[str], pages: "_PageCounter"
    ) -> None:
        """Store what one vault lists, and add its ``objects`` and ``young`` ones to the counts.

        The vault is verified before and after: an unmounted disk shows no listing.
        """
        db.execute("DELETE FROM object WHERE vault = ?", (spec.name,))
        vault = self._vaults.get(spec.instance, spec.name)
        for part in vault.parts(1):
            for page in vault.list_part(part):
                pages.add(len(page))
                is_old = [old_enough(listed.written, until) for listed in page]
                db.executemany(
                    "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        (spec.name, canonical(listed.key), *listed, not old)
                        for listed, old in zip(page, is_old, strict=True)
                    ),
                )
                counts.update(objects=sum(is_old), young=len(page) - sum(is_old))
        self._vaults.confirm(spec.instance, spec.name)

    def _read_live_side(
        self, db: sqlite3.Connection, order: CheckOrder, evidence: Evidence, pages: "_PageCounter", *, divided: bool
    ) -> Evidence:
        """Store the live side; return the evidence with its counts."""
        live_prefixes = Counter[str]()
        until = time.monotonic() + LIVE_SECONDS
        self._live.wait_for_refresh(order.instance, evidence.listed_at or 0, pages.heartbeat)
        with self._live.snapshot(order.instance, divided=divided) as moment:
            for part in moment.parts:
                for page in _read_ahead(self._live.read(order.instance, moment.name, part)):
                    pages.records += len(page)
                    pages.heartbeat()
                    if time.monotonic() > until:
                        raise OwnerSilent(f"the owner's records were read for {LIVE_SECONDS:,} s without an end")
                    exact = [entry for entry in page if not entry.prefix]
                    prefixes = [entry for entry in page if entry.prefix]
                    db.executemany(_ADD_ENTRY, ((e.vault, e.name, e.key, e.live, e.bytes, e.record) for e in exact))
                    db.executemany(_ADD_PREFIX, ((e.vault, e.name, e.key, e.live, e.record) for e in prefixes))
                    live_prefixes.update(entry.vault for entry in prefixes if entry.live)
        self._runs.count(order.run, pages.listed, pages.records, 0)  # 0: what follows takes a time that is not known
        live_files = dict(db.execute("SELECT vault, count(DISTINCT name) FROM known WHERE live GROUP BY vault"))
        return with_live_counts(evidence, moment.at, live_files, live_prefixes)

    def _findings(
        self, db: sqlite3.Connection, order: CheckOrder, listings: Sequence[Listing]
    ) -> Iterator[Discrepancy]:
        for listing in listings:
            if not listing.whole:  # after the end of a listing that was cut short, every object would look lost
                continue
            # Live entries without an object or with one of another size, and live prefixes without an object.
            for vault, key, expected, size, etag, written, record in db.execute(_DISAGREEING_ENTRIES, (listing.vault,)):
                yield Discrepancy(
                    type=FindingType.LOST if size is None else FindingType.SIZE_MISMATCH,
                    vault=vault,
                    key=key,
                    expected=expected,
                    size=size,
                    etag=etag,
                    written=written,
                    record=record,
                )
            for vault, key, record in db.execute(_EMPTY_PREFIXES, (listing.vault,)):
                yield Discrepancy(type=FindingType.LOST, vault=vault, key=key, record=record)
        if order.inverted:
            pattern = self._live.pattern(order.instance)
            for vault, name, *listed in db.execute(_UNKNOWN_OBJECTS):
                prefixes = covering_prefixes(name)
                places = ", ".join("?" * len(prefixes))
                covering = f"SELECT 1 FROM cover WHERE vault = ? AND name IN ({places}) LIMIT 1"
                if db.execute(covering, (vault, *prefixes)).fetchone() is None:
                    yield unknown_object(pattern, vault, ListedObject(*listed))


@dataclass
class _PageCounter:
    """Counts what a comparison has listed and read, and stores that every ``STORE_SECONDS``."""

    beat: Heartbeat
    runs: CheckStore
    order: CheckOrder
    listed: int = 0
    records: int = 0
    began: float = field(default_factory=time.monotonic)
    stored_at: float = float("-inf")

    def heartbeat(self) -> None:
        """Send a heartbeat; store the counts if that was done so many seconds ago."""
        self.beat()
        if (now := time.monotonic()) - self.stored_at >= STORE_SECONDS:
            self.stored_at = now
            self.runs.count(self.order.run, self.listed, self.records, round(1000 * (now - self.began)))

    def add(self, objects: int) -> None:
        """Count a page; raise ``TooManyObjects`` if one process should not compare so many."""
        self.listed += objects
        self.heartbeat()
        most = self.order.most_objects
        if most is not None and self.listed > most:
            raise TooManyObjects(f"the vaults have more than {most:,} objects")


def _read_ahead(pages: Iterator[Sequence[LiveEntry]]) -> Iterator[Sequence[LiveEntry]]:
    """Yield the pages; a thread reads each of them while the one before it is stored."""
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(next, pages, None)
        while (page := following.result()) is not None:
            following = reader.submit(next, pages, None)
            yield page
