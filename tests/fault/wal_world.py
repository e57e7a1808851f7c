"""Regions that share topics, as a database has them, and what must hold of them: for random histories.

The truth is what was acknowledged and what is in files; everything else is asked of Sexton and of the log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sexton.database import schema
from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.wal.model import Facts, Mode, Pin, WalSettings
from sexton.wal.orders import LeaderReport, MapOrder, OpenRegionOrder, RegionDrop, RegionMapping, Stream
from sexton.wal.port import LogFault, OldEpoch, PinEnded, ReplayRefused, TopicLog, UnknownRegion
from sexton.wal.purger import Purger
from sexton.wal.sql.embedded_log import EmbeddedLog, OutOfRange
from sexton.wal.sql.floors import FloorStore
from sexton.wal.sql.heartbeats import HeartbeatStore
from sexton.wal.sql.maps import MapStore
from sexton.wal.sql.replays import ReplayStore
from sexton.wal.sql.store import WalStore

TOPICS = ("wal-a", "wal-b")
UNDROP_SECONDS, PIN_SECONDS = 3_600, 300
TERMS = WalSettings(idle_grace_seconds=10, map_stale_seconds=10**6, pin_ttl_seconds=PIN_SECONDS, pin_max_seconds=3_000)


class Crash(Exception):
    """Whoever purges dies here."""


@dataclass
class Region:
    """One region: what its node has in memory, and what its manifest names."""

    name: str
    home: str
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
    late: list[LeaderReport] = field(default_factory=list)


class Entries(TopicLog, Protocol):
    """A log with its other side."""

    def create(self, topic: str) -> None: ...
    def append(self, topic: str, payloads: Sequence[bytes]) -> int: ...
    def read(self, topic: str, at: int, limit: int) -> Sequence[tuple[int, bytes]]: ...


class Meanwhile:
    """The log, and what happens right after it was asked for the first time."""

    def __init__(self, log: Entries, do: Callable[[], None] | None) -> None:
        self._log, self._do = log, do
        self.delete_before, self.check = log.delete_before, log.check

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        told = self._log.facts(topics)
        do, self._do = self._do, None
        if do is not None:
            do()
        return told


class World:
    """Two topics and their regions."""

    def __init__(self, url: str, log: Entries | None = None, names: tuple[str, ...] = ("r1", "r2", "r3")) -> None:
        self.db = Database.open(url)
        self.log: Entries = log or EmbeddedLog(self.db)
        self.floors, self.maps = FloorStore(self.db, TERMS), MapStore(self.db)
        self.heartbeats, self.replays = HeartbeatStore(self.db), ReplayStore(self.db, TERMS)
        self.store = WalStore(self.db)
        self.generation, self.clock = 0, 0
        self.regions = {n: Region(n, TOPICS[i % 2], topics={TOPICS[i % 2]}) for i, n in enumerate(names)}
        for topic in TOPICS:
            self.log.create(topic)
            self.store.enable(topic, Mode.DELETE)
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
        """Send what the owner knows, all of it."""
        self.generation += 1
        here, moved, dropped = [], [], []
        for its in self.regions.values():
            if topic not in its.topics:
                continue
            if its.dropped_at is not None:
                left = max(0, int(its.dropped_at + UNDROP_SECONDS - self.clock))
                dropped.append(RegionDrop(region=its.name, undrop_seconds=left))
            elif its.home == topic:
                here.append(RegionMapping(region=its.name, epoch=its.epoch, first=self.end(topic)))
            else:
                moved.append(its.name)
        self.maps.put(
            MapOrder(
                topic=topic,
                generation=self.generation,
                regions=tuple(here),
                moved=tuple(moved),
                dropped=tuple(dropped),
            )
        )

    def append(self, region: Region) -> None:
        """The log has it; the node does not know yet."""
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
        """Return what the node would say now, of each topic: its idle mark is the end, read before it looks."""
        told = []
        for topic in sorted(region.topics):
            end = self.end(topic)
            busy = any(t == topic for t, _ in region.memory | region.under_way)
            idle = end - 1 if not busy and end else None
            stream = Stream(flushed=region.flushed.get(topic), idle=idle)
            told.append(LeaderReport(topic=topic, region=region.name, epoch=region.epoch, streams=(stream,)))
        return told

    def crash(self, region: Region) -> None:
        region.open = False
        region.memory, region.under_way, region.pins = set(), set(), []

    def restore(self, region: Region) -> None:
        """Its manifest comes from a backup: files that were written since are not named any more."""
        self.crash(region)
        if region.manifests:
            region.files, region.flushed, topics = region.manifests.pop(0)
            region.topics |= topics  # it names those that it needs
            region.manifests, region.restored = [], True

    def begin(self, region: Region) -> None:
        """Open a region in all its topics; where one refuses it stays closed."""
        region.epoch += 1
        region.pins = []
        for topic in sorted(region.topics):
            order = OpenRegionOrder(
                topic=topic, region=region.name, epoch=region.epoch, flushed=(region.flushed.get(topic),), node="n"
            )
            try:
                region.pins.append(self.replays.open(order))
            except UnknownRegion:
                # It moved away, and all it had there was flushed, or it would still be held.
                assert topic != region.home, f"{region.name} is not mapped to its own topic"
                if region.restored:
                    region.pins = []
                    return
                left = {e for e in region.acknowledged - region.files if e[0] == topic}
                assert not left, f"{region.name} was let go with {sorted(left)}"
                region.topics.discard(topic)
            except (ReplayRefused, OldEpoch):
                assert region.restored, f"{region.name} was refused, and its manifest was never restored"
                region.pins = []
                return

    def read(self, region: Region) -> None:
        """Read what the pins keep; the region is open then."""
        found: set[tuple[str, int]] = set()
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
            found |= {(pin.topic, id_) for id_, payload in entries if payload.decode() == region.name}
        lost = region.acknowledged - region.files - found
        assert not lost, f"{region.name} opened without {sorted(lost)}"
        region.memory = found - region.files
        region.acknowledged |= region.memory  # what it has read it serves
        region.open = True
        region.restored, region.ever_flushed = False, set(region.files)  # from now on nothing is excused
        for pin in region.pins:
            self.replays.release(pin.id)
        region.pins = []

    def move(self, region: Region, *, dies: bool) -> None:
        """Let it append to the other topic: mapped there before the first append, the old row kept."""
        old = region.home
        region.home = next(t for t in TOPICS if t != old)
        region.topics.add(region.home)
        self.send_map(region.home)
        if not dies:
            self.send_map(old)

    def purge(self, topic: str, dies_at: str = "", meanwhile: Callable[[], None] | None = None) -> None:
        """Purge, or die on the way; ``meanwhile``: what happens after the log was asked, before it is decided."""

        def hook(point: str) -> None:
            if point == dies_at:
                raise Crash

        try:
            with installed(hook):
                Purger(Meanwhile(self.log, meanwhile), self.floors).purge([topic])
        except Crash:
            return

    def wait(self, seconds: int) -> None:
        self.clock += seconds
        schema.move_clock(self.db, seconds)

    def check(self) -> None:
        """Every acknowledged write is in a file, or a plain reader finds it."""
        starts = {topic: self.start(topic) for topic in TOPICS}
        for its in self.regions.values():
            if its.dropped_at is not None:
                continue
            excused = its.ever_flushed if its.restored else set()
            gone = {(t, id_) for t, id_ in its.acknowledged - its.files - excused if id_ < starts[t]}
            assert not gone, f"{its.name} lost {sorted(gone)}"

    def lie(self, region: Region) -> None:
        """Its node has gone mad."""
        stream = Stream(flushed=2**62)
        for topic in region.topics:
            self.hear(LeaderReport(topic=topic, region=region.name, epoch=region.epoch, streams=(stream,)))

    def hear(self, *reports: LeaderReport) -> None:
        self.heartbeats.hear("n", reports)

    def drop(self, region: Region) -> None:
        self.crash(region)
        region.dropped_at = self.clock

    def undrop(self, region: Region) -> None:
        """It comes back closed; the maps say so before it is opened."""
        region.dropped_at = None
        for topic in sorted(region.topics):
            self.send_map(topic)

    def settle(self) -> None:
        """Bring everything to rest, and see that every floor reaches its minimum and nothing was lost."""
        for its in self.regions.values():
            if its.dropped_at is not None:
                continue
            if not its.open and not its.pins:
                self.begin(its)
            if its.pins:
                self.read(its)
            if its.open:
                self.acknowledge(its)
                self.flush(its)
                self.hear(*self.reports(its))
        self.wait(UNDROP_SECONDS + PIN_SECONDS + 1)
        for topic in TOPICS:
            self.send_map(topic)
        for _ in range(3):
            for topic in TOPICS:
                self.purge(topic)
            self.wait(11)
        for topic in TOPICS:
            regions = self.store.regions(topic)
            wanted = min([r.keep_from for r in regions if r.keep_from is not None], default=self.end(topic))
            assert (self.store.topic(topic).floor or 0) == min(wanted, self.end(topic)), self.store.topic(topic)
        self.check()
