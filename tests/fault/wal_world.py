"""Regions that share topics, and the invariants that must hold, for random histories.

The model knows which entries were acknowledged and which are in files; everything else is read from Sexton and the log.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from sexton.database import schema
from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.operators.controls.store import ControlStore
from sexton.wal.model import Facts, Mode, Pin, WalSettings
from sexton.wal.policy import LeaderReport, MapOrder, OpenRegionOrder, RegionDrop, RegionMapping, RegionMove, Stream
from sexton.wal.port import (
    LogFault,
    OldEpoch,
    PinEnded,
    RegionOfAnotherNode,
    ReplayRefused,
    TopicLog,
    UnknownRegion,
)
from sexton.wal.purger import Purger
from sexton.wal.sql.embedded_log import EmbeddedLog, OutOfRange
from sexton.wal.sql.floors import FloorStore
from sexton.wal.sql.leaders import HeartbeatStore, ReplayStore
from sexton.wal.sql.maps import MapStore
from sexton.wal.sql.store import WalStore
from tests.support.crashes import Crash, crash_at

TOPICS = ("wal-a", "wal-b")
NODES = ("n", "m")
UNDROP_SECONDS, PIN_SECONDS = 3_600, 300
TERMS = WalSettings(
    topic_idle_grace_seconds=10,
    map_stale_seconds=10**6,
    replay_pin_ttl_seconds=PIN_SECONDS,
    replay_pin_max_seconds=3_000,
)


@dataclass
class Region:
    """One region: the entries in its node's memory, and those that its manifest names."""

    name: str
    home: str
    node: str = NODES[0]
    epoch: int = 0
    open: bool = True
    dropped_at: float | None = None
    restored: bool = False
    memory: set[tuple[str, int]] = field(default_factory=set)
    under_way: set[tuple[str, int]] = field(default_factory=set)
    files: frozenset[tuple[str, int]] = frozenset()
    flushed: dict[str, int] = field(default_factory=dict)
    manifests: list[tuple[frozenset[tuple[str, int]], dict[str, int], set[str]]] = field(default_factory=list)
    acknowledged: set[tuple[str, int]] = field(default_factory=set)
    ever_flushed: set[tuple[str, int]] = field(default_factory=set)
    pins: list[Pin] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    late: list[tuple[str, LeaderReport]] = field(default_factory=list)
    """Reports under way, with the node that sent each."""


class Entries(TopicLog, Protocol):
    """A log, with what nodes do with it."""

    def create(self, topic: str) -> None: ...
    def append(self, topic: str, payloads: Sequence[bytes]) -> int: ...
    def read(self, topic: str, at: int, limit: int) -> Sequence[tuple[int, bytes]]: ...


class Meanwhile:
    """A log with a hook that runs once, right after its first answer."""

    def __init__(self, log: Entries, do: Callable[[], None] | None) -> None:
        self._log, self._do = log, do
        self.delete_before, self.check = log.delete_before, log.check

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        answers = self._log.facts(topics)
        do, self._do = self._do, None
        if do is not None:
            do()
        return answers


class World:
    """Two topics and their regions, which two nodes lead; ``names_nodes``: the owner's map names the leaders."""

    def __init__(
        self,
        url: str,
        log: Entries | None = None,
        names: tuple[str, ...] = ("r1", "r2", "r3"),
        *,
        names_nodes: bool = False,
    ) -> None:
        self.names_nodes = names_nodes
        self.db = Database.open(url)
        self.log: Entries = log or EmbeddedLog(self.db)
        self.floors, self.maps = FloorStore(self.db, TERMS, ControlStore(self.db)), MapStore(self.db, TERMS)
        self.heartbeats, self.replays = HeartbeatStore(self.db), ReplayStore(self.db, TERMS)
        self.store = WalStore(self.db)
        self.generation, self.clock = 0, 0
        self.regions = {n: Region(n, TOPICS[i % 2], topics={TOPICS[i % 2]}) for i, n in enumerate(names)}
        for topic in TOPICS:
            self.log.create(topic)
            self.store.enable(topic, Mode.DELETE, "shop")
            self.send_map(topic)

    def end(self, topic: str) -> int:
        facts = self.log.facts([topic])[topic]
        assert isinstance(facts, Facts)
        return facts.end

    def start(self, topic: str) -> int:
        facts = self.log.facts([topic])[topic]
        assert isinstance(facts, Facts)
        return facts.start

    def send_map(self, topic: str) -> None:
        """Send the owner's complete map."""
        self.generation += 1
        mapped, moved, dropped = [], [], []
        for region in self.regions.values():
            if topic not in region.topics:
                continue
            node = region.node if self.names_nodes else ""
            if region.dropped_at is not None:
                undrop_seconds = max(0, int(region.dropped_at + UNDROP_SECONDS - self.clock))
                dropped.append(RegionDrop(region=region.name, undrop_seconds=undrop_seconds))
            elif region.home == topic:
                first = self.end(topic)
                mapped.append(RegionMapping(region=region.name, epoch=region.epoch, first=first, node=node))
            else:
                moved.append(RegionMove(region=region.name, epoch=region.epoch, node=node))
        self.maps.put(
            MapOrder(
                instance="shop",
                topic=topic,
                generation=self.generation,
                regions=tuple(mapped),
                moved=tuple(moved),
                dropped=tuple(dropped),
            )
        )

    def append(self, region: Region) -> None:
        """Append an entry; the node does not know yet that the log has it."""
        region.under_way.add((region.home, self.log.append(region.home, [region.name.encode()])))

    def acknowledge(self, region: Region) -> None:
        region.memory |= region.under_way
        region.acknowledged |= region.under_way
        region.under_way = set()

    def flush(self, region: Region) -> None:
        region.manifests.append((region.files, dict(region.flushed), set(region.topics)))
        region.files |= region.memory
        region.ever_flushed |= region.memory
        for topic in region.topics:
            ids = [id_ for t, id_ in region.memory if t == topic]
            region.flushed[topic] = max([region.flushed.get(topic, -1), *ids])
            if region.flushed[topic] < 0:
                del region.flushed[topic]
        region.memory = set()

    def reports(self, region: Region) -> list[LeaderReport]:
        """Return the node's reports for each topic: the idle mark is the end, read before the memory is checked."""
        reports = []
        for topic in sorted(region.topics):
            end = self.end(topic)
            busy = any(t == topic for t, _ in region.memory | region.under_way)
            idle = end - 1 if not busy and end else None
            stream = Stream(flushed=region.flushed.get(topic), idle=idle)
            reports.append(LeaderReport(topic=topic, region=region.name, epoch=region.epoch, streams=(stream,)))
        return reports

    def crash(self, region: Region) -> None:
        region.open = False
        region.memory, region.under_way, region.pins = set(), set(), []

    def restore(self, region: Region) -> None:
        """Restore the manifest from a backup: it no longer names files that were written since."""
        self.crash(region)
        if region.manifests:
            region.files, region.flushed, topics = region.manifests.pop(0)
            region.topics |= topics  # the manifest names the topics that it needs
            region.manifests, region.restored = [], True

    def begin(self, region: Region) -> None:
        """Open a region in all its topics; it stays closed if one of them is refused."""
        region.epoch += 1
        region.pins = []
        for topic in sorted(region.topics):
            flushed = (region.flushed.get(topic),)
            try:
                region.pins.append(self._open(region, topic, region.node, region.epoch, flushed))
            except UnknownRegion:
                # It moved away, and all its entries in this topic were flushed: otherwise they would still be retained.
                assert topic != region.home, f"{region.name} is not mapped to its own topic"
                if region.restored:
                    region.pins = []
                    return
                unflushed = {e for e in region.acknowledged - region.files if e[0] == topic}
                assert not unflushed, f"{region.name} was released with {sorted(unflushed)}"
                region.topics.discard(topic)
            except (ReplayRefused, OldEpoch):
                assert region.restored, f"{region.name} was refused, and its manifest was never restored"
                region.pins = []
                return

    def _open(self, region: Region, topic: str, node: str, epoch: int, flushed: tuple[int | None, ...]) -> Pin:
        return self.replays.open(
            OpenRegionOrder(topic=topic, region=region.name, epoch=epoch, flushed=flushed, node=node)
        )

    def fail_over(self, region: Region) -> None:
        """Let the other node lead the region; the owner maps it in a new epoch before the node opens it."""
        self.crash(region)
        region.epoch += 1
        [region.node] = {*NODES} - {region.node}
        for topic in sorted(region.topics):
            self.send_map(topic)

    def intrude(self, region: Region) -> None:
        """Let the other node say that the region needs nothing, and open it: both are refused, and nothing changes."""
        [intruder] = {*NODES} - {region.node}
        for topic in sorted(region.topics):
            stored, last = self.store.regions(topic), max(0, self.end(topic) - 1)
            stream = Stream(flushed=last, idle=last)
            report = LeaderReport(topic=topic, region=region.name, epoch=region.epoch, streams=(stream,))
            with suppress(RegionOfAnotherNode):
                receipt = self.heartbeats.record_reports("shop", intruder, [report])
                assert receipt.ignored == 1, f"a report of {intruder} on {region.name} counted"
            with suppress(RegionOfAnotherNode, UnknownRegion, ReplayRefused, OldEpoch):
                self._open(region, topic, intruder, region.epoch + 1, (last,))
                raise AssertionError(f"{intruder} opened {region.name} of {region.node}")
            assert self.store.regions(topic) == stored, f"{intruder} changed {region.name}"

    def read(self, region: Region) -> None:
        """Read the pinned entries, and open the region."""
        entries_read: set[tuple[str, int]] = set()
        for pin in region.pins:
            try:
                self.replays.renew(pin.id)
            except PinEnded:
                region.pins = []
                return
            try:
                entries = self.log.read(pin.topic, pin.start, 10**6)
            except OutOfRange as e:
                raise AssertionError(f"{region.name} may read from {pin.start} of {pin.topic}, and cannot") from e
            entries_read |= {(pin.topic, id_) for id_, payload in entries if payload.decode() == region.name}
        lost = region.acknowledged - region.files - entries_read
        assert not lost, f"{region.name} opened without {sorted(lost)}"
        region.memory = entries_read - region.files
        region.acknowledged |= region.memory  # it serves the entries that it has read
        region.open = True
        region.restored, region.ever_flushed = False, set(region.files)  # from now on every entry must be found
        for pin in region.pins:
            self.replays.release(pin.id)
        region.pins = []

    def move(self, region: Region, *, dies: bool) -> None:
        """Append to the other topic from now on: map the region to it before the first append, and keep its old row."""
        old = region.home
        region.home = next(t for t in TOPICS if t != old)
        region.topics.add(region.home)
        self.send_map(region.home)
        if not dies:
            self.send_map(old)

    def purge(self, topic: str, dies_at: str = "", meanwhile: Callable[[], None] | None = None) -> None:
        """Purge, or die on the way; ``meanwhile`` runs after the log was read and before the decision."""
        with suppress(Crash), installed(crash_at(dies_at)):
            Purger(Meanwhile(self.log, meanwhile), self.floors).purge([topic])

    def wait(self, seconds: int) -> None:
        self.clock += seconds
        schema.move_clock(self.db, seconds)

    def check(self) -> None:
        """Verify that every acknowledged entry is in a file, or that a plain reader finds it."""
        starts = {topic: self.start(topic) for topic in TOPICS}
        for region in self.regions.values():
            if region.dropped_at is not None:
                continue
            excused = region.ever_flushed if region.restored else set()
            deleted = {(t, id_) for t, id_ in region.acknowledged - region.files - excused if id_ < starts[t]}
            assert not deleted, f"{region.name} lost {sorted(deleted)}"

    def report_impossible(self, region: Region) -> None:
        """Report an impossible number."""
        stream = Stream(flushed=2**62)
        for topic in region.topics:
            report = LeaderReport(topic=topic, region=region.name, epoch=region.epoch, streams=(stream,))
            self.receive(region, region.node, report)

    def receive(self, region: Region, node: str, *reports: LeaderReport) -> None:
        """Receive reports of a node; only those of an earlier leader may be refused."""
        try:
            self.heartbeats.record_reports("shop", node, reports)
        except RegionOfAnotherNode:
            assert node != region.node, f"{region.name} is not led by its own node {node}"

    def drop(self, region: Region) -> None:
        self.crash(region)
        region.dropped_at = self.clock

    def undrop(self, region: Region) -> None:
        """Undo a drop: the region is closed, and mapped again before it is opened."""
        region.dropped_at = None
        for topic in sorted(region.topics):
            self.send_map(topic)

    def settle(self) -> None:
        """Bring everything to rest; verify that every floor reaches its minimum and no entry was lost."""
        for region in self.regions.values():
            if region.dropped_at is not None:
                continue
            if not region.open and not region.pins:
                self.begin(region)
            if region.pins:
                self.read(region)
            if region.open:
                self.acknowledge(region)
                self.flush(region)
                self.receive(region, region.node, *self.reports(region))
        self.wait(UNDROP_SECONDS + PIN_SECONDS + 1)
        for topic in TOPICS:
            self.send_map(topic)
        for _ in range(3):
            for topic in TOPICS:
                self.purge(topic)
            self.wait(11)
        for topic in TOPICS:
            regions = self.store.regions(topic)
            expected = min([r.keep_from for r in regions if r.keep_from is not None], default=self.end(topic))
            assert (self.store.topic(topic).floor or 0) == min(expected, self.end(topic)), self.store.topic(topic)
        self.check()
