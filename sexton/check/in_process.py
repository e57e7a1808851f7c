"""Compare objects with records in this process: for instances that one process can list in minutes, or without Spark.

Both sides are written to scratch, and DuckDB compares them within limits, so memory does not grow with their number.
They are compared by 64-bit hashes of names. Equal names have equal hashes, so nothing is reported wrongly. A finding is
missed if the other side has another name with its hash: among 10 million, with a chance of 2^-40.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sexton.check.model import CheckOrder, Evidence, Heartbeat, Listing
from sexton.check.object_lookup import parts_to_check
from sexton.check.policy import (
    findings_of,
    inventory_at,
    latest_in_inventory,
    latest_judged_write,
    with_live_counts,
)
from sexton.check.sql.live_side import LiveSide
from sexton.check.sql.store import CheckStore
from sexton.kernel.errors import TooManyObjects
from sexton.kernel.process import beside
from sexton.owners.port import NoLiveSide, OwnerSilent
from sexton.storage.model import VaultPart, VaultSpec
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
    "memory_limit": "192MB",
    "max_temp_directory_size": "64GB",
    "preserve_insertion_order": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}
"""Of DuckDB, which writes to scratch what exceeds its memory. It reads no other file, and loads no extension."""
_OBJECTS = """
SET enable_external_access = false;
SET lock_configuration = true;
CREATE VIEW object AS SELECT *, written <> '' AND written <= getvariable('until') AS old, hash(vault, name) AS h
FROM read_parquet(getvariable('objects'), hive_partitioning = false)
"""
_COUNTS = "SELECT vault, {'objects': count_if(old), 'young': count_if(NOT old)} FROM object GROUP BY vault"
_LIVE_COUNTS = """
CREATE VIEW known AS SELECT * RENAME (file_row_number AS n), hash(vault, name) AS h,
    live AND list_contains(getvariable('whole'), vault) AS due
FROM read_parquet(getvariable('records'), hive_partitioning = false, file_row_number = true);
SELECT vault, count(DISTINCT h) FILTER (NOT prefix), count_if(prefix) FROM known WHERE live GROUP BY vault
"""
_FAULTY = """
CREATE TABLE different AS SELECT DISTINCT coalesce(k.h, o.h) AS h, CASE
    WHEN k.h IS NULL AND o.old AND getvariable('inverted') THEN 'UNKNOWN'
    WHEN k.due AND o.h IS NULL THEN 'LOST'
    WHEN k.due AND o.bytes <> k.bytes THEN 'SIZE_MISMATCH'
END AS type
FROM (SELECT h, bytes, due FROM known WHERE NOT prefix) k FULL JOIN (SELECT h, bytes, old FROM object) o ON k.h = o.h
WHERE type IS NOT NULL;
CREATE TABLE cover AS SELECT h, vault, length(name) AS length, bool_or(live) AS live
FROM known WHERE prefix GROUP BY ALL;
CREATE TABLE faulty AS
SELECT n, hash(h, key, CASE type WHEN 'SIZE_MISMATCH' THEN bytes END) AS same, type = 'LOST' AS lost
FROM known JOIN different USING (h) WHERE due AND NOT prefix;
CREATE TABLE first AS SELECT min(n) AS n, lost FROM faulty GROUP BY same, lost;
INSERT INTO first SELECT min(n), true FROM known ANTI JOIN (
    SELECT hash(vault, left(name, length)) AS h
    FROM object JOIN (SELECT DISTINCT vault, length FROM cover WHERE live) USING (vault) WHERE length(name) >= length
) USING (h) WHERE due AND prefix GROUP BY h;

SELECT if(lost, 'LOST', 'SIZE_MISMATCH') AS type, vault, key, k.bytes AS expected, o.bytes AS size, etag, written,
    record
FROM (FROM known JOIN first USING (n)) k
LEFT JOIN (FROM object SEMI JOIN (FROM different WHERE type = 'SIZE_MISMATCH') USING (h)) o USING (vault, key)
WHERE lost OR o.bytes <> k.bytes
"""
_UNKNOWN = """
SELECT vault, key, bytes AS size, etag, written
FROM object SEMI JOIN (FROM different WHERE type = 'UNKNOWN') USING (h) ANTI JOIN (
    SELECT u.h FROM (
        SELECT h, hash(vault, left(name, length)) AS prefix FROM object SEMI JOIN different USING (h)
        JOIN (SELECT DISTINCT vault, length FROM cover) USING (vault) WHERE length(name) >= length
    ) u SEMI JOIN cover ON u.prefix = cover.h
) USING (h)
"""
"""``cover``: the prefixes; those of an object are the beginnings of its name that are as long as one of them.
``faulty``: the records of findings, ``first``: the first one of each. Names may be long, so hashes are grouped and
joined. Each statement has one step that needs much memory: where two share it, DuckDB may fail."""


class InProcessComparison:
    """Implements ``check.model.Compare`` in this process."""

    def __init__(self, vaults: Vaults, live: LiveSide, runs: CheckStore) -> None:
        self._vaults, self._live, self._runs = vaults, live, runs

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List every vault, then read the live side, and store each disagreement as a finding."""
        import duckdb

        if not vaults:
            return Evidence(cutoff=order.run.cutoff, listings=(), listed_at=self._runs.now())
        with tempfile.TemporaryDirectory(prefix="sexton-check-") as folder, duckdb.connect(config=LIMITS) as db:
            counter = _PageCounter(heartbeat, self._runs, order)
            files = [f"{folder}/objects-{n}" for n in range(len(vaults))]
            listings = [self._list(file, spec, counter) for file, spec in zip(files, vaults, strict=True)]
            listed_at = self._runs.now()
            # After the end of a listing that was cut short, every object would look lost.
            whole = [listing.vault for listing in listings if listing.whole]
            until = latest_judged_write(order.run.cutoff, order.grace_seconds)
            variables = {"objects": files, "records": f"{folder}/records", "whole": whole, "until": until}
            for name, value in (variables | {"inverted": order.inverted}).items():
                db.execute(f"SET VARIABLE {name} = ?", [value])
            db.execute("SET temp_directory = ?", [folder])
            db.execute("SET allowed_directories = ?", [[folder]])
            db.execute(_OBJECTS)
            ask = partial(beside, heartbeat=heartbeat, interrupt=lambda _: db.interrupt())
            numbers = dict(ask(lambda: db.execute(_COUNTS).fetchall()))
            counted = tuple(listing.model_copy(update=numbers.get(listing.vault)) for listing in listings)
            evidence = Evidence(cutoff=order.run.cutoff, listings=counted, listed_at=listed_at)
            try:
                at = self._read_live_side(f"{folder}/records", order, evidence, counter)
            except (OwnerSilent, NoLiveSide) as e:
                return evidence.model_copy(update={"errors": (str(e),)})
            # No time: the rest takes one that is not known.
            self._runs.count(order.run, counter.listed, counter.records, 0)
            live = ask(lambda: db.execute(_LIVE_COUNTS).fetchall())
            live_files, prefixes = ({row[0]: row[n] for row in live if row[n]} for n in (1, 2))
            counts = self._store_findings(order, ask, db)
            return with_live_counts(evidence, at, live_files, prefixes).model_copy(update={"found": dict(counts)})

    def _store_findings(self, order: CheckOrder, ask: Callable[..., Any], db: Any) -> Counter[str]:
        """Compare both sides and store the findings; return how many of each type there are."""
        pattern, counts = self._live.pattern(order.instance), Counter[str]()
        for query in (_FAULTY, _UNKNOWN):
            rows = ask(partial(db.execute, query))
            columns = [column[0] for column in rows.description]
            while page := ask(partial(rows.fetchmany, PAGE_FINDINGS)):
                found = findings_of((dict(zip(columns, row, strict=True)) for row in page), pattern, counts)
                self._runs.store_findings(order.run, found)
        return counts

    def _list(self, file: str, spec: VaultSpec, counter: "_PageCounter") -> Listing:
        """Write what one vault lists, again where the store was busy; a fault of the vault is an error of the listing.

        The vault is verified before and after: an unmounted disk shows no listing.
        """
        from sexton.check import columns

        parts: Sequence[VaultPart] = ()

        def pages() -> Iterator[Any]:
            nonlocal parts
            vault = self._vaults.get(spec.instance, spec.name)
            parts = parts_to_check(vault, 1, counter.order.run.cutoff)
            for part in parts:
                until = latest_in_inventory(part, counter.order.grace_seconds)
                for page in filter(len, vault.list_part(part)):
                    counter.add(len(page))
                    yield columns.objects(spec.name, page, until)

        attempts, listed_before = 0, counter.listed
        while True:
            counter.listed = listed_before
            try:
                columns.write_pages(file, columns.OBJECTS, pages())
                self._vaults.confirm(spec.instance, spec.name)
            except (VaultFault, UnknownVault) as e:
                attempts += 1
                if isinstance(e, Throttled) and attempts < MAX_ATTEMPTS:
                    until_again = time.monotonic() + (e.retry_after or 2.0 ** (attempts - 1))
                    while (remaining := until_again - time.monotonic()) > 0:
                        counter.heartbeat()
                        time.sleep(min(remaining, 0.5))
                    continue
                return Listing(vault=spec.name, parts=1, ended=0, errors=(str(e)[:500],))
            return Listing(vault=spec.name, parts=1, ended=1, inventory_at=inventory_at(parts))

    def _read_live_side(self, file: str, order: CheckOrder, evidence: Evidence, counter: "_PageCounter") -> int:
        """Write the entries of the live side; return as of when it is true."""
        from sexton.check import columns

        until = time.monotonic() + LIVE_SECONDS
        self._live.wait_for_refresh(order.instance, evidence.listed_at or 0, counter.heartbeat)
        with self._live.snapshot(order.instance, divided=counter.listed > UNDIVIDED_OBJECTS) as moment:

            def pages() -> Iterator[Any]:
                for part in moment.parts:
                    for page in filter(len, self._live.read(order.instance, moment.name, part)):
                        counter.records += len(page)
                        counter.heartbeat()
                        if time.monotonic() > until:
                            raise OwnerSilent(f"the owner's records were read for {LIVE_SECONDS:,} s without an end")
                        yield columns.records(page)

            columns.write_pages(file, columns.RECORDS, pages())
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
