"""The leader of minidb's front ends: it commits, has backends take versions, and tells Sexton of both.

What to look at is the order in which things happen; each comment says what would be lost in another one.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from examples.minidb.backends import Backend
from examples.minidb.edits import CREATE, DROP, UPSERT, Edits
from examples.minidb.follower import Follower
from sexton.client import LogConfig, NewRecord, PlacedCopy, PlacedTablet, Placements, Sexton, TooOld


def uid(tablet: str, backend: str) -> str:
    """Return the uid of the copy of a tablet on a backend."""
    return f"{tablet}.{backend}"


def now() -> int:
    """Return the time, in ms since 1970."""
    return time.time_ns() // 1_000_000


class Leader:
    """The front end that commits, for one database; its edits are in one file, and it is what they say."""

    def __init__(
        self,
        db: str,
        client: Sexton,
        backends: Mapping[str, Backend],
        directory: Path,
        instance: str | None = None,
        clock: Callable[[], int] = now,
    ) -> None:
        """Read what was committed; nothing is sent until ``recover``.

        Args:
            db: the name of the database.
            client: with a token of scope ``operate``.
            backends: by name.
            directory: in which the edits are kept.
            instance: as which Sexton knows the database.
            clock: the time by which records expire, in ms: that of the database Sexton is in, more or less.
        """
        self.db, self._edits = db, Edits(directory)
        self.tables, self.committed = self._edits.tables, self._edits.committed
        self._client, self._backends, self._instance, self._clock = client, backends, instance, clock
        self._followers: list[Follower] = []
        self._waiting = list(self.committed)  # a real one remembers what was taken; here all of it is sent again

    def keep(self, ttl_seconds: int) -> None:
        """Say for how long records are of use: before the first commit. What comes before that nobody keeps."""
        config = LogConfig(ttl_seconds=ttl_seconds, from_seq=self._edits.last)
        self._client.keep_log(self.db, config, instance=self._instance)

    def create_table(self, name: str, tablets: int = 2, backends: Collection[str] = ()) -> None:
        """Create a table of one partition, with a copy of each tablet on each of some backends; by default on all."""
        its = {f"{name}.p": [f"{name}.{n}" for n in range(tablets)]}
        self._commit(CREATE, [name], {"tablets": its, "backends": sorted(backends or self._backends)})
        self._place(name)
        self.send()

    def upsert(self, *tables: str, rows: str = "", but: Collection[str] = ()) -> int:
        """Commit rows: each partition of the tables has a new version, which all backends take ``but`` some.

        Returns its commit_seq.
        """
        records = {name: {"partitionRecords": self.tables[name].next_versions()} for name in tables}
        # First of all, durably: a version that backends had and the edits had not would be made once more, with other
        # rows, by the commit after a crash.
        record = self._commit(UPSERT, tables, {"tableRecords": records, "rows": rows})
        # Then on the backends, and only then to Sexton: who reads the record there finds its version on some copy. Who
        # has not got it yet needs it by its own report, so its binlogs stay, however soon the record expires.
        self._publish(record, but)
        self.send()
        return record.commit_seq

    def drop_table(self, name: str) -> None:
        """Drop a table for good."""
        # After a crash between the two it is dropped here, and ``recover`` says so. The other way round its binlogs
        # would be gone while its readers still had the table.
        self._commit(DROP, [name], {})
        self.send()
        self._drop(name)

    def send(self) -> None:
        """Send records that Sexton has not got: in their order, from here alone. One that is known is no harm."""
        self._client.add_records(self.db, self._waiting, self._instance)
        self._waiting = []

    def recover(self) -> None:
        """Do after a crash what may have been left undone: all of it can be done twice."""
        for name, its in self.tables.items():
            if its.dropped:
                self._drop(name)
            else:
                self._place(name)
        last = next((r for r in reversed(self.committed) if r.type == UPSERT), None)
        if last is not None:  # those before it were answered
            self._publish(last, ())
        self.send()

    def lead(self, follower: Follower) -> None:
        """Have a follower from now on: it is told of every copy before Sexton is."""
        for its in self.tables.values():
            for copy in its.copies() if not its.dropped else ():
                follower.place(*copy)
        self._followers.append(follower)

    def forget(self) -> int:
        """Remove copies of dropped tables whose binlogs are gone; return how many are left. Time and again."""
        gone = [copy for its in self.tables.values() if its.dropped for copy in its.copies()]
        return sum(not self._backends[backend].forget(uid(tablet, backend)) for tablet, backend in gone)

    def logs(self) -> dict[str, list[int]]:
        """Return table (empty: the database) → the records in its log, as readers find them."""
        standing = [name for name, its in self.tables.items() if not its.dropped]
        return {name: seqs for name in ["", *standing] if (seqs := self._read(name or None))}

    def unwell(self) -> dict[tuple[str, str], tuple[bool, int]]:
        """Return (tablet, backend) → (bad, a version that it lacks for good or -1), of copies to be repaired."""
        found = self._client.unwell(1_000, self._instance)
        return {(r.tablet, r.backend): (r.bad, r.failed) for r in found if r.bad or r.failed >= 0}

    def _commit(self, kind: str, tables: Collection[str], data: Mapping[str, object]) -> NewRecord:
        record = self._edits.commit(kind, self._clock(), tables, data)
        self._waiting.append(record)
        return record

    def _place(self, name: str) -> None:
        its = self.tables[name]
        # Followers first: of a copy that they do not know the journal's words are passed over.
        for follower in self._followers:
            for copy in its.copies():
                follower.place(*copy)
        tablets = tuple(
            PlacedTablet(
                tablet=tablet,
                partition=part,
                copies=tuple(PlacedCopy(backend=b, uid=uid(tablet, b)) for b in its.backends),
            )
            for part, some in its.tablets.items()
            for tablet in some
        )
        # Then Sexton, and then the backends: from now on a copy that has not reported keeps everything for itself. A
        # copy that Sexton did not know would need nothing, and what it missed would be purged.
        self._client.place_replicas(self.db, name, Placements(tablets=tablets), self._instance)
        for tablet, backend in its.copies():
            self._backends[backend].create(uid(tablet, backend), tablet)

    def _publish(self, record: NewRecord, but: Collection[str]) -> None:
        data = json.loads(record.data)
        for name, told in data["tableRecords"].items():
            its = self.tables[name]
            for part in () if its.dropped else told["partitionRecords"]:
                for tablet in its.tablets[part["partitionId"]]:
                    segments = [f"{tablet} {data['rows']}\n", f"of commit {record.commit_seq}\n"]
                    rowset = f"{tablet}.{part['version']}"
                    for backend in set(its.backends) - set(but):
                        self._backends[backend].publish(uid(tablet, backend), part["version"], rowset, segments)

    def _drop(self, name: str) -> None:
        self._client.drop_table(self.db, name, self._instance)
        for follower in self._followers:
            for copy in self.tables[name].copies():
                follower.displace(*copy)

    def _read(self, table: str | None) -> list[int]:
        found, after = list[int](), 0
        while True:
            try:
                page = self._client.read_records(self.db, table, after, instance=self._instance)
            except TooOld as e:
                after = e.first - 1
                continue
            if not page.records:
                return found
            found += [r.commit_seq for r in page.records]
            after = found[-1]
