"""Compare objects with records in this process: for instances that one process can list in minutes, or without Spark.

Both sides are written to scratch, and DuckDB compares them within limits, so memory does not grow with their number.
They are nearly equal: 64-bit hashes of all names are joined first, and then the rows that differ, by name. A finding is
missed if the other side has another name with the same hash: among 10 million, with a chance of 2^-40.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sexton.check.model import CheckOrder, Evidence, Heartbeat, Listing
from sexton.check.policy import findings_of, latest_judged_write, with_live_counts
from sexton.check.sql.live_side import LiveSide
from sexton.check.sql.store import CheckStore
from sexton.kernel.errors import TooManyObjects
from sexton.kernel.process import beside
from sexton.owners.port import NoLiveSide, OwnerSilent
from sexton.storage.model import VaultSpec
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
LIMITS: Any = {
    "threads": 2,
    "memory_limit": "128MB",
    "max_temp_directory_size": "64GB",
    "preserve_insertion_order": False,
}
"""Of DuckDB, which writes to scratch what exceeds its memory."""

_OBJECTS = """
CREATE VIEW object AS SELECT *, written <> '' AND written <= '{until}' AS old, hash(vault, name) AS h
FROM read_parquet('{folder}/objects*')
"""
_COUNTS = "SELECT vault, {'objects': count_if(old), 'young': count_if(NOT old)} FROM object GROUP BY vault"
_KNOWN = "CREATE VIEW known AS SELECT *, hash(vault, name) AS h FROM read_parquet('{folder}/records')"
_LIVE_COUNTS = """
SELECT vault, count(DISTINCT h) FILTER (NOT prefix), count_if(prefix) FROM known WHERE live GROUP BY vault
"""
_FINDINGS = """
CREATE TABLE different AS SELECT DISTINCT coalesce(k.h, o.h) AS h
FROM (SELECT h, bytes, live AND list_contains(getvariable('whole'), vault) AS live FROM known WHERE NOT prefix) k
FULL JOIN (SELECT h, bytes, old AND getvariable('inverted') AS old FROM object) o ON k.h = o.h
WHERE CASE WHEN k.h IS NULL THEN o.old ELSE k.live AND (o.h IS NULL OR o.bytes <> k.bytes) END;
CREATE TABLE o AS SELECT * FROM object SEMI JOIN different USING (h);
CREATE TABLE k AS SELECT * FROM known SEMI JOIN different USING (h) WHERE NOT prefix;
CREATE TABLE cover AS SELECT DISTINCT ON (vault, name, live) * FROM known WHERE prefix;
CREATE TABLE unknown AS SELECT * FROM o ANTI JOIN k USING (vault, name) WHERE old AND getvariable('inverted');

SELECT DISTINCT ON (k.vault, k.key) CASE WHEN o.key IS NULL THEN 'LOST' ELSE 'SIZE_MISMATCH' END AS type,
    k.vault, k.key, k.bytes AS expected, o.bytes AS size, o.etag, o.written, k.record
FROM k LEFT JOIN o ON k.vault = o.vault AND k.name = o.name
WHERE k.live AND list_contains(getvariable('whole'), k.vault)
    AND (o.key IS NULL OR (o.key = k.key AND o.bytes <> k.bytes))
UNION ALL BY NAME
SELECT 'LOST' AS type, c.vault, c.key, c.record
FROM (FROM cover WHERE live AND list_contains(getvariable('whole'), vault)) c
ASOF LEFT JOIN (FROM object WHERE EXISTS (FROM cover WHERE live)) o ON c.vault = o.vault AND c.name <= o.name
WHERE o.name IS NULL OR NOT starts_with(o.name, c.name)
UNION ALL BY NAME
SELECT vault, key, bytes AS size, etag, written FROM unknown ANTI JOIN (
    SELECT vault, key FROM (
        SELECT vault, key, unnest(list_transform(range(len(cut)), lambda i: array_to_string(cut[:i + 1], ''))) AS name
        FROM (
            SELECT vault, key, regexp_extract_all(name, '[A-Za-z0-9.-]*([^A-Za-z0-9.-]|$)') AS cut
            FROM unknown WHERE EXISTS (FROM cover)
        )
    ) SEMI JOIN cover USING (vault, name)
) USING (vault, key)
"""


class InProcessComparison:
    """Implements ``check.model.Compare`` in this process."""

    def __init__(self, vaults: Vaults, live: LiveSide, runs: CheckStore) -> None:
        self._vaults, self._live, self._runs = vaults, live, runs

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List every vault, then read the live side, and store each disagreement as a finding."""
        import duckdb

        with tempfile.TemporaryDirectory(prefix="sexton-check-") as folder, duckdb.connect(config=LIMITS) as db:
            db.execute("SET temp_directory = ?", [folder])
            quoted = folder.replace("'", "''")
            pages = _PageCounter(heartbeat, self._runs, order)
            listings = [self._list(f"{folder}/objects{n}", spec, pages) for n, spec in enumerate(vaults)]
            until = latest_judged_write(order.run.cutoff, order.grace_seconds)
            db.execute(_OBJECTS.format(folder=quoted, until=until))
            numbers = dict(db.execute(_COUNTS).fetchall())
            counted = tuple(listing.model_copy(update=numbers.get(listing.vault)) for listing in listings)
            evidence = Evidence(cutoff=order.run.cutoff, listings=counted, listed_at=self._runs.now())
            try:
                at = self._read_live_side(f"{folder}/records", order, evidence, pages)
            except (OwnerSilent, NoLiveSide) as e:
                return evidence.model_copy(update={"errors": (str(e),)})
            self._runs.count(order.run, pages.listed, pages.records, 0)  # 0: the rest takes a time that is not known
            db.execute(_KNOWN.format(folder=quoted))
            ask = partial(beside, heartbeat=heartbeat, interrupt=lambda _: db.interrupt())
            live = ask(lambda: db.execute(_LIVE_COUNTS).fetchall())
            files, prefixes = ({row[0]: row[n] for row in live if row[n]} for n in (1, 2))
            evidence = with_live_counts(evidence, at, files, prefixes)
            # After the end of a listing that was cut short, every object would look lost.
            db.execute("SET VARIABLE whole = ?", [[listing.vault for listing in listings if listing.whole]])
            db.execute("SET VARIABLE inverted = ?", [order.inverted])
            rows = ask(partial(db.execute, _FINDINGS))
            names = [column[0] for column in rows.description]
            pattern, counts = self._live.pattern(order.instance), Counter[str]()
            while page := ask(partial(rows.fetchmany, PAGE_FINDINGS)):
                found = findings_of((dict(zip(names, row, strict=True)) for row in page), pattern, counts)
                self._runs.store_findings(order.run, found)
            return evidence.model_copy(update={"found": dict(counts)})

    def _list(self, file: str, spec: VaultSpec, pages: "_PageCounter") -> Listing:
        """List one vault, again where the store was busy; a fault of the vault is an error of the listing."""
        attempts, listed_before = 0, pages.listed
        while True:
            pages.listed = listed_before
            try:
                self._list_once(file, spec, pages)
            except (VaultFault, UnknownVault) as e:
                attempts += 1
                if isinstance(e, Throttled) and attempts < MAX_ATTEMPTS:
                    until_again = time.monotonic() + (e.retry_after or 2.0 ** (attempts - 1))
                    while (remaining := until_again - time.monotonic()) > 0:
                        pages.heartbeat()
                        time.sleep(min(remaining, 0.5))
                    continue
                return Listing(vault=spec.name, parts=1, ended=0, errors=(str(e)[:500],))
            return Listing(vault=spec.name, parts=1, ended=1)

    def _list_once(self, file: str, spec: VaultSpec, pages: "_PageCounter") -> None:
        """Write what one vault lists.

        The vault is verified before and after: an unmounted disk shows no listing.
        """
        from sexton.check import columns

        with columns.writing(file, columns.OBJECTS) as add:
            vault = self._vaults.get(spec.instance, spec.name)
            for part in vault.parts(1):
                for page in filter(None, vault.list_part(part)):
                    pages.add(len(page))
                    add(columns.objects(spec.name, page))
        self._vaults.confirm(spec.instance, spec.name)

    def _read_live_side(self, file: str, order: CheckOrder, evidence: Evidence, pages: "_PageCounter") -> int:
        """Write the entries of the live side; return as of when it is true."""
        from sexton.check import columns

        until = time.monotonic() + LIVE_SECONDS
        self._live.wait_for_refresh(order.instance, evidence.listed_at or 0, pages.heartbeat)
        divided = pages.listed > UNDIVIDED_OBJECTS
        with (
            columns.writing(file, columns.RECORDS) as add,
            self._live.snapshot(order.instance, divided=divided) as moment,
        ):
            for part in moment.parts:
                for page in self._live.read(order.instance, moment.name, part):
                    pages.records += len(page)
                    pages.heartbeat()
                    if time.monotonic() > until:
                        raise OwnerSilent(f"the owner's records were read for {LIVE_SECONDS:,} s without an end")
                    add(page)
            return moment.at


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
