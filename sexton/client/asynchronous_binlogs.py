"""What the asynchronous client asks about binlogs, replicas and the journal."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypeVar

from sexton.client import binlog_calls as calls
from sexton.client.calls import ApiCall
from sexton.protocol import binlog_bodies as bodies
from sexton.replication.binlog.model import Consumer, CutDone, CutPage, Log, Read, Stored, Taken
from sexton.replication.journal.model import JournalPage, Snapshot
from sexton.replication.replicas.model import Placed, Replica, ReportReceipt

T = TypeVar("T")


class AsyncBinlogMethods(ABC):
    """The part of ``AsyncSexton`` that is about binlogs; see ``BinlogMethods``, which also follows a journal."""

    @abstractmethod
    async def send(
        self, call: ApiCall[T], patience_seconds: float | None = None, timeout_seconds: float | None = None
    ) -> T:
        """Send one call, again and again where that may help, and return its answer."""
        ...

    async def logs(self, after: tuple[str, str] = ("", ""), instance: str | None = None) -> tuple[Log, ...]:
        """Return logs, a thousand at most, in the order of (database, table), behind the one that is named."""
        return (await self.send(calls.logs(after, instance))).logs

    async def keep_log(
        self, db: str, config: bodies.LogConfig, table: str | None = None, instance: str | None = None
    ) -> Log:
        """Say how the log of a database, or of one of its tables, is kept: before its first record."""
        return await self.send(calls.keep_log(db, config, table, instance))

    async def add_records(self, db: str, records: Iterable[bodies.NewRecord], instance: str | None = None) -> Stored:
        """Store what a database committed, in the order of its commits; sent again it is known.

        In as many requests as it takes: where one fails, those before it are stored. Send all of them again.
        """
        stored = Stored()
        for chunk in calls.chunks(records):
            stored = calls.both(stored, await self.send(calls.add_records(db, chunk, instance)))
        return stored

    async def read_records(
        self,
        db: str,
        table: str | None = None,
        after: int = 0,
        *,
        limit: int = 1_000,
        consumer: str | None = None,
        instance: str | None = None,
    ) -> Read:
        """Return the records of a log behind one, of status ``TOO_NEW`` where there is none yet."""
        return await self.send(calls.read_records(db, table, after, limit, consumer, instance))

    async def consumers(self, instance: str | None = None) -> tuple[Consumer, ...]:
        """Return who reads which log, and up to where each has it."""
        return (await self.send(calls.consumers(instance))).consumers

    async def register_consumer(
        self, name: str, db: str, table: str | None = None, after: int | None = None, instance: str | None = None
    ) -> Consumer:
        """Register a consumer that has everything up to ``after``; None: what is there is new to it."""
        return await self.send(calls.register_consumer(name, db, table, after, instance))

    async def acknowledge(
        self, name: str, db: str, seq: int, table: str | None = None, instance: str | None = None
    ) -> Consumer:
        """Say up to which record a consumer has everything."""
        return await self.send(calls.acknowledge(name, db, seq, table, instance))

    async def remove_consumer(self, name: str, db: str, table: str | None = None, instance: str | None = None) -> None:
        """Let a consumer hold nothing any more."""
        await self.send(calls.remove_consumer(name, db, table, instance))

    async def drop_table(self, db: str, table: str, instance: str | None = None) -> int:
        """Say that a table is dropped for good: all of its binlogs go. Return how many copies that concerns."""
        return (await self.send(calls.drop(db, table, instance))).replicas

    async def drop_database(self, db: str, instance: str | None = None) -> int:
        """Say that a database is dropped for good, as ``drop_table`` does."""
        return (await self.send(calls.drop(db, None, instance))).replicas

    async def place_replicas(
        self, db: str, table: str, placements: bodies.Placements, instance: str | None = None
    ) -> Placed:
        """Say where the copies of partitions are, all of each: before one of them takes its first version."""
        return await self.send(calls.place_replicas(db, table, placements, instance))

    async def report(self, backend: str, body: bodies.BackendReport, instance: str | None = None) -> ReportReceipt:
        """Say which versions a backend's copies have."""
        return await self.send(calls.report(backend, body, instance))

    async def decommission(self, backend: str, instance: str | None = None) -> int:
        """Forget a backend that never comes back; return how many copies it had."""
        return (await self.send(calls.decommission(backend, instance))).replicas

    async def unwell(self, limit: int = 100, instance: str | None = None) -> tuple[Replica, ...]:
        """Return copies with which something is wrong, by tablet."""
        return (await self.send(calls.unwell(limit, instance))).replicas

    async def replicas(self, tablet: str, instance: str | None = None) -> bodies.Replicas:
        """Return the copies of a tablet, and from which version on they need what there is."""
        return await self.send(calls.replicas(tablet, instance))

    async def full_copy(self, tablet: str, backend: str, reason: str, instance: str | None = None) -> Replica:
        """Say that only a full copy repairs a copy: what it lacks is not kept for it."""
        return await self.send(calls.full_copy(tablet, backend, reason, instance))

    async def cuts(self, node: str, after: str = "", limit: int = 1_000, instance: str | None = None) -> CutPage:
        """Return up to which versions the binlogs of a backend's copies may go, of uids behind one."""
        return await self.send(calls.cuts(node, after, limit, instance))

    async def acknowledge_cuts(self, node: str, done: Iterable[CutDone], instance: str | None = None) -> Taken:
        """Say what is gone from a backend."""
        return await self.send(calls.acknowledge_cuts(node, done, instance))

    async def journal(
        self, after: int, wait: float = 0, follower: str = "", instance: str | None = None
    ) -> JournalPage:
        """Return the entries behind one, a hundred at most."""
        return await self.send(
            calls.journal(after, wait, follower, instance), timeout_seconds=wait + calls.ANSWER_SECONDS
        )

    async def snapshot(self, follower: str = "", instance: str | None = None) -> Snapshot:
        """Return what all entries of the journal amount to."""
        return await self.send(calls.snapshot(follower, instance))
