"""A region's node that a test kills: ``python -m tests.fault.wal_region HOME ADDRESS DATABASE TOPIC``.

It opens its region, reads the entries that no file has, and then writes, flushes and reports until it is killed. The
file ``HOME/ledger`` lists the acknowledged entries; an id is on disk there before the entry counts as acknowledged.
"""

import os
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sexton.database.engine import Database
from sexton.wal.kafka import KafkaLog
from sexton.wal.model import Facts, WalSettings
from sexton.wal.policy import LeaderReport, OpenRegionOrder, Stream
from sexton.wal.sql.leaders import HeartbeatStore, ReplayStore
from sexton.wal.sql.store import WalStore
from tests.support.eventually import PATIENCE_SECONDS, eventually

REGION = "r1"
FLUSH_AT, PAUSE_SECONDS = 20, 0.002


def on_disk(file: Path, text: str) -> None:
    """Append to a file, and return when it is on disk."""
    with file.open("a") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())


def ids(file: Path) -> set[int]:
    """Return the ids in a file; a line that its writer did not finish does not count."""
    lines = file.read_text().splitlines(keepends=True) if file.is_file() else []
    return {int(line) for line in lines if line.endswith("\n")}


def read(address: str, topic: str, at: int, end: int) -> dict[int, bytes]:
    """Read a topic from one entry to an end with a plain consumer; no entry may be missing."""
    settings = {"bootstrap.servers": address, "group.id": "nobody", "enable.auto.commit": False, "log_level": "2"}
    consumer = Consumer({**settings, "auto.offset.reset": "error", "fetch.wait.max.ms": 50})
    consumer.assign([TopicPartition(topic, 0, at)])
    entries: dict[int, bytes] = {}
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        while at + len(entries) < end:
            assert time.monotonic() < until, f"{topic} was not read from {at} to {end}: {len(entries)}"
            message = consumer.poll(0.5)
            if message is None:
                continue
            if (error := message.error()) is not None:
                raise KafkaException(error)
            entries[int(message.offset() or 0)] = bytes(message.value() or b"")
    finally:
        consumer.close()
    assert list(entries) == list(range(at, end))
    return entries


class Node:
    """One life of a region's node."""

    def __init__(self, home: Path, address: str, database: str, topic: str) -> None:
        self.home, self.address, self.topic = home, address, topic
        self.db = Database.open(database)
        self.log, self.heartbeats = KafkaLog({"bootstrap.servers": address}), HeartbeatStore(self.db)
        self.files = home / "flushed"
        self.memory: set[int] = set()
        self.failed: list[KafkaError] = []
        self.flushed = max(ids(self.files), default=None)
        settings = {"bootstrap.servers": address, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
        self.producer = Producer({**settings, "log_level": "2"})

    def open(self) -> None:
        """Read the entries from the pin on that no file has."""
        region = next(r for r in WalStore(self.db).regions(self.topic) if r.region == REGION)
        self.epoch = region.epoch + 1
        replays = ReplayStore(self.db, WalSettings())
        order = OpenRegionOrder(topic=self.topic, region=REGION, epoch=self.epoch, flushed=(self.flushed,), node="n")
        pin = replays.open(order)
        on_disk(self.home / "opened", f"{pin.start}\n")
        self.memory = set(read(self.address, self.topic, pin.start, self.end()))
        # Every entry that an earlier process acknowledged is in a file, or was just read.
        lost = ids(self.home / "ledger") - ids(self.files) - self.memory
        if lost:
            on_disk(self.home / "lost", "".join(f"{id_}\n" for id_ in sorted(lost)))
        replays.release(pin.id)

    def end(self) -> int:
        """Return the topic's end; repeat the request until it is answered."""
        facts = eventually(
            "Kafka answers", lambda: self.log.facts([self.topic])[self.topic], lambda f: isinstance(f, Facts)
        )
        assert isinstance(facts, Facts)
        return facts.end

    def write(self) -> None:
        """Append one entry; it is in memory and in the ledger once all replicas have it."""

        def delivered(error: KafkaError | None, message: object) -> None:
            if error is None:
                id_ = int(message.offset())  # type: ignore[attr-defined]
                self.memory.add(id_)
                on_disk(self.home / "ledger", f"{id_}\n")

        self.producer.produce(self.topic, b"entry", partition=0, on_delivery=delivered)
        self.producer.flush(PATIENCE_SECONDS)

    def flush(self) -> None:
        """Write the entries in memory to disk, then report them: a crash in between reports less than is on disk."""
        on_disk(self.files, "".join(f"{id_}\n" for id_ in sorted(self.memory)))
        self.flushed, self.memory = max(self.memory), set()
        streams = (Stream(flushed=self.flushed),)
        self.heartbeats.record_reports(
            "shop", "n", [LeaderReport(topic=self.topic, region=REGION, epoch=self.epoch, streams=streams)]
        )


def main(home: str, address: str, database: str, topic: str) -> None:
    node = Node(Path(home), address, database, topic)
    node.open()
    while True:
        node.write()
        if len(node.memory) >= FLUSH_AT:
            node.flush()
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
