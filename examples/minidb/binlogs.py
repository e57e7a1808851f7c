"""The leader of minidb's front ends: it commits, sends versions to backends, and sends records to Sexton.

The order of steps is what matters; each comment says what another order would lose.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from examples.minidb.backends import Backend
from examples.minidb.edits import CREATE, DROP, UPSERT, Edits
from examples.minidb.follower import Follower
from sexton.client import Copy, NewRecord, Placements, Sexton, Tablet, TooOld


def uid(tablet: str, backend: str) -> str:
    """Return the uid of the copy of a tablet on a backend."""
    return f"{tablet}.{backend}"


def now() -> int:
    """Return the time, in ms since 1970."""
    return time.time_ns() // 1_000_000


class Leader:
    """The front end that commits, for one database; its whole state follows from its file of edits."""

    def __init__(
        self,
        db: str,
        client: Sexton,
        backends: Mapping[str, Backend],
        directory: Path,
        instance: str = "",
        clock: Callable[[], int] = now,
    ) -> None:
        """Read the committed edits; nothing is sent until ``recover``.

        Args:
            db: the name of the database.
            client: with a token of scope ``owner@INSTANCE``.
            backends: by name.
            directory: contains the edits.
            instance: the name of the database in Sexton.
            clock: the time by which records expire, in ms: close to that of Sexton's database.
        """
        self.db, self._edits = db, Edits(directory)
        self.tables, self.committed = self._edits.tables, self._edits.committed
        self._client, self._backends, self._instance, self._clock = client, backends, instance, clock
        self._followers: list[Follower] = []
        self._waiting = list(self.committed)  # a real leader remembers what was sent; this one sends all again

    def keep(self, ttl_seconds: int) -> None:
        """Set how long records are retained. Call it before the first commit: earlier records are not stored."""
        self._client.keep_log(self.db, ttl_seconds=ttl_seconds, from_seq=self._edits.last, instance=self._instance)

    def create_table(self, name: str, tablets: int = 2, backends: Collection[str] = ()) -> None:
        """Create a table of one partition, with a copy of each tablet on each of these backends; by default all."""
        partitions = {f"{name}.p": [f"{name}.{n}" for n in range(tablets)]}
        self._commit(CREATE, [name], {"tablets": partitions, "backends": sorted(backends or self._backends)})
        self._place(name)
        self.send()

    def upsert(self, *tables: str, rows: str = "", but: Collection[str] = ()) -> int:
        """Commit rows as a new version of each partition, sent to all backends except ``but``; return its seq."""
        records = {name: {"partitionRecords": self.tables[name].next_versions()} for name in tables}
        # First, durably: if backends had a version that the edits lacked, the next commit after a crash would create
        # the same version with other rows.
        record = self._commit(UPSERT, tables, {"tableRecords": records, "rows": rows})
        # Then the backends, and Sexton last: a reader of the record finds its version on some copy. A copy that lacks
        # the version needs it by its own report, so its binlogs stay, however soon the record expires.
        self._publish(record, but)
        self.send()
        return record.commit_seq

    def drop_table(self, name: str) -> None:
        """Drop a table permanently."""
        # After a crash between the two steps the table is dropped here, and ``recover`` tells Sexton. In the other
        # order its binlogs would be removed while readers still had the table.
        self._commit(DROP, [name], {})
        self.send()
        self._drop(name)

    def send(self) -> None:
        """Send the records that Sexton lacks, in their order. Sending a known record again is harmless."""
        self._client.add_records(self.db, self._waiting, self._instance)
        self._waiting = []

    def recover(self) -> None:
        """Repeat after a crash the steps that it may have interrupted; each may be repeated."""
        for name, table in self.tables.items():
            if table.dropped:
                self._drop(name)
            else:
                self._place(name)
        last = next((r for r in reversed(self.committed) if r.type == UPSERT), None)
        if last is not None:  # earlier commits were complete
            self._publish(last, ())
        self.send()

    def lead(self, follower: Follower) -> None:
        """Add a follower: from now on it learns of every copy before Sexton does."""
        for table in self.tables.values():
            for copy in table.copies() if not table.dropped else ():
                follower.place(*copy)
        self._followers.append(follower)

    def forget(self) -> int:
        """Remove copies of dropped tables after their binlogs; return how many are left. Call it repeatedly."""
        dropped_copies = [copy for table in self.tables.values() if table.dropped for copy in table.copies()]
        return sum(not self._backends[backend].forget(uid(tablet, backend)) for tablet, backend in dropped_copies)

    def logs(self) -> dict[str, list[int]]:
        """Return the records in the log of each table (empty name: of the database)."""
        existing = [name for name, table in self.tables.items() if not table.dropped]
        return {name: seqs for name in ["", *existing] if (seqs := self._read(name or None))}

    def unwell(self) -> dict[tuple[str, str], tuple[bool, int]]:
        """Return (tablet, backend) → (bad, a version that it lacks permanently or -1) for copies that need repair."""
        replicas = self._client.unwell(self._instance).items
        return {(r.tablet, r.backend): (r.bad, r.failed) for r in replicas if r.bad or r.failed >= 0}

    def _commit(self, kind: str, tables: Collection[str], data: Mapping[str, object]) -> NewRecord:
        record = self._edits.commit(kind, self._clock(), tables, data)
        self._waiting.append(record)
        return record

    def _place(self, name: str) -> None:
        table = self.tables[name]
        # Followers first: they skip journal entries about copies that they do not know.
        for follower in self._followers:
            for copy in table.copies():
                follower.place(*copy)
        placed_tablets = tuple(
            Tablet(
                tablet=tablet,
                partition=part,
                copies=tuple(Copy(backend=b, uid=uid(tablet, b)) for b in table.backends),
            )
            for part, tablets in table.tablets.items()
            for tablet in tablets
        )
        # Then Sexton, and the backends last: from now on a copy that has not reported blocks deletion of all versions.
        # A copy unknown to Sexton would need nothing, and versions that it missed would be purged.
        self._client.place_replicas(self.db, name, Placements(tablets=placed_tablets), instance=self._instance)
        for tablet, backend in table.copies():
            self._backends[backend].create(uid(tablet, backend), tablet)

    def _publish(self, record: NewRecord, but: Collection[str]) -> None:
        data = json.loads(record.data)
        for name, versions in data["tableRecords"].items():
            table = self.tables[name]
            for part in () if table.dropped else versions["partitionRecords"]:
                for tablet in table.tablets[part["partitionId"]]:
                    segments = [f"{tablet} {data['rows']}\n", f"of commit {record.commit_seq}\n"]
                    rowset = f"{tablet}.{part['version']}"
                    for backend in set(table.backends) - set(but):
                        self._backends[backend].publish(uid(tablet, backend), part["version"], rowset, segments)

    def _drop(self, name: str) -> None:
        self._client.drop_log(self.db, name, instance=self._instance)
        for follower in self._followers:
            for copy in self.tables[name].copies():
                follower.displace(*copy)

    def _read(self, table: str | None) -> list[int]:
        seqs, after = list[int](), 0
        while True:
            try:
                page = self._client.read_records(self.db, table, after=after, instance=self._instance)
            except TooOld as e:
                after = e.first - 1
                continue
            if not page.records:
                return seqs
            seqs += [r.commit_seq for r in page.records]
            after = seqs[-1]
