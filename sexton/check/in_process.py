"""Compare objects with records in this process: for what a process can list in minutes, and where no Spark is.

Both sides go into a scratch database on disk, so memory does not grow with their number.
"""

import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sexton.check.model import CheckOrder, Discrepancy, Evidence, Listing, Type
from sexton.check.policy import Kinds, judged_until, live_read, old_enough
from sexton.check.port import CheckRuns, Heartbeat, Live, NoLiveSide
from sexton.marks.policy import covering_prefixes
from sexton.owners.port import OwnerSilent
from sexton.storage.identity import canonical
from sexton.storage.model import VaultSpec
from sexton.storage.port import Throttled, UnknownVault, VaultFault, Vaults

TELL = 1_000
"""Findings told at once."""
TRIES = 6
"""Listings of a vault that a busy store cuts short, until it is given up: waits of 1, 2, 4 … s lie between."""

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
CREATE TABLE object (
    vault TEXT, name TEXT, key TEXT, bytes INT, etag TEXT, young INT, PRIMARY KEY (vault, name, key)
) WITHOUT ROWID;
CREATE TABLE known (
    vault TEXT, name TEXT, key TEXT, live INT, bytes INT, record TEXT, PRIMARY KEY (vault, name, key)
) WITHOUT ROWID;
CREATE TABLE cover (vault TEXT, name TEXT, PRIMARY KEY (vault, name)) WITHOUT ROWID;
"""
_KNOW = """
INSERT INTO known VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    record = CASE WHEN excluded.live > live THEN excluded.record ELSE record END,
    live = max(live, excluded.live), bytes = coalesce(bytes, excluded.bytes)
"""
_FORWARD = """
SELECT k.vault, k.key, k.bytes, o.bytes, coalesce(o.etag, ''), k.record
FROM known k LEFT JOIN object o USING (vault, name)
WHERE k.live AND k.vault = ? AND (o.key IS NULL OR (o.key = k.key AND o.bytes <> k.bytes))
"""
_INVERTED = """
SELECT o.vault, o.name, o.key, o.bytes, o.etag FROM object o
WHERE NOT o.young AND NOT EXISTS (SELECT 1 FROM known k WHERE k.vault = o.vault AND k.name = o.name)
"""


class Direct:
    """Implements ``check.port.Compare``."""

    def __init__(self, vaults: Vaults, live: Live, runs: CheckRuns) -> None:
        self._vaults, self._live, self._runs = vaults, live, runs

    def compare(self, order: CheckOrder, vaults: Sequence[VaultSpec], heartbeat: Heartbeat) -> Evidence:
        """List every vault, then read the live side, and tell what does not agree."""
        with _scratch() as db:
            until = judged_until(order.run.cutoff, order.grace_seconds)
            listings = tuple(self._list(db, spec, until, heartbeat) for spec in vaults)
            seen = Evidence(cutoff=order.run.cutoff, listings=listings, listed_at=self._runs.now())
            try:
                seen = self._read(db, order, seen, heartbeat)
            except (OwnerSilent, NoLiveSide) as e:
                return seen.model_copy(update={"errors": (str(e),)})
            found = self._tell(order, self._findings(db, order, listings), heartbeat)
            return seen.model_copy(update={"found": found})

    def _list(self, db: sqlite3.Connection, spec: VaultSpec, until: str, heartbeat: Heartbeat) -> Listing:
        """List one vault; it is proved before and after: what an unmounted disk shows is no listing."""
        name, tried = spec.name, 0
        while True:
            objects = young = 0
            db.execute("DELETE FROM object WHERE vault = ?", (name,))
            try:
                for shard in (vault := self._vaults.get(spec.instance, name)).shards(1):
                    for page in vault.list_shard(shard):
                        heartbeat()
                        judged = [old_enough(o.written, until) for o in page]
                        rows = zip(page, judged, strict=True)
                        db.executemany(
                            "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?, ?)",
                            ((name, canonical(o.key), o.key, o.bytes, o.etag, not old) for o, old in rows),
                        )
                        objects += sum(judged)
                        young += len(page) - sum(judged)
                self._vaults.confirm(spec.instance, name)
            except (VaultFault, UnknownVault) as e:
                tried += 1
                if isinstance(e, Throttled) and tried < TRIES:
                    _wait(e.retry_after or 2.0 ** (tried - 1), heartbeat)
                    continue
                return Listing(vault=name, parts=1, ended=0, objects=objects, young=young, errors=(str(e)[:500],))
            return Listing(vault=name, parts=1, ended=1, objects=objects, young=young)

    def _read(self, db: sqlite3.Connection, order: CheckOrder, seen: Evidence, heartbeat: Heartbeat) -> Evidence:
        """Read the live side; return the evidence with what was seen of it."""
        prefixes = Counter[str]()
        with self._live.moment(order.instance) as moment:
            for part in moment.parts:
                for page in self._live.read(order.instance, moment.name, part):
                    heartbeat()
                    exact = (k for k in page if not k.prefix)
                    db.executemany(_KNOW, ((k.vault, k.name, k.key, k.live, k.bytes, k.record) for k in exact))
                    covers = [k for k in page if k.prefix]
                    db.executemany("INSERT OR IGNORE INTO cover VALUES (?, ?)", ((k.vault, k.name) for k in covers))
                    for vault, live in Counter(k.vault for k in covers if k.live).items():
                        prefixes[vault] += live
        files = dict(db.execute("SELECT vault, count(DISTINCT name) FROM known WHERE live GROUP BY vault"))
        return live_read(seen, moment.at, files, prefixes)

    def _findings(
        self, db: sqlite3.Connection, order: CheckOrder, listings: Sequence[Listing]
    ) -> Iterator[Discrepancy]:
        for its in listings:
            if its.whole:  # of a listing that was cut short everything behind the cut would look lost
                for vault, key, expected, size, etag, record in db.execute(_FORWARD, (its.vault,)):
                    type_ = Type.LOST if size is None else Type.SIZE_MISMATCH
                    yield Discrepancy(
                        type=type_, vault=vault, key=key, expected=expected, size=size, etag=etag, record=record
                    )
        if order.inverted:
            kinds = Kinds(self._live.pattern(order.instance))
            for vault, name, key, size, etag in db.execute(_INVERTED):
                if not _covered(db, vault, name):
                    yield kinds.unknown(vault, key, size, etag)

    def _tell(self, order: CheckOrder, findings: Iterator[Discrepancy], heartbeat: Heartbeat) -> dict[str, int]:
        counts, page = Counter[str](), list[Discrepancy]()
        for found in findings:
            counts[found.type] += 1
            page.append(found)
            if len(page) == TELL:
                heartbeat()
                self._runs.saw(order.run, page)
                page = []
        self._runs.saw(order.run, page)
        return dict(counts)


def _covered(db: sqlite3.Connection, vault: str, name: str) -> bool:
    """Tell whether a known prefix covers the name."""
    prefixes = covering_prefixes(name)
    some = f"SELECT 1 FROM cover WHERE vault = ? AND name IN ({', '.join('?' * len(prefixes))}) LIMIT 1"
    return db.execute(some, (vault, *prefixes)).fetchone() is not None


def _wait(seconds: float, heartbeat: Heartbeat) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        heartbeat()
        time.sleep(min(left, 0.5))


@contextmanager
def _scratch() -> Iterator[sqlite3.Connection]:
    with (
        tempfile.TemporaryDirectory(prefix="sexton-check-") as folder,
        closing(sqlite3.connect(Path(folder) / "check.db", isolation_level=None, check_same_thread=False)) as db,
    ):
        db.executescript(_SCHEMA)
        db.execute("BEGIN")
        yield db
