"""Assemble the stores, the log and the purger for one database, as workers, the API and the commands use them."""

import importlib.util
import logging
from functools import cached_property

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput, SextonError
from sexton.kernel.live import Live
from sexton.kernel.trust import STRICT, Trust
from sexton.operators.controls.store import ControlStore
from sexton.wal import policy
from sexton.wal.flushing import Flusher
from sexton.wal.messages import NodeAddresses
from sexton.wal.model import Facts, Mode, RegionLag, Topic, TopicExplanation, TopicStanding, WalSettings
from sexton.wal.port import LogFault, TopicLog, UnknownTopic
from sexton.wal.purger import Purger, PurgeRounds
from sexton.wal.sql.embedded_log import EmbeddedLog
from sexton.wal.sql.floors import FloorStore
from sexton.wal.sql.leaders import HeartbeatStore, ReplayStore
from sexton.wal.sql.maps import MapStore, ResetStore
from sexton.wal.sql.store import WalSchedule, WalStore, read_pins, read_topic

log = logging.getLogger(__name__)
MAX_LINES = 1_000


class WalService:
    """The WAL capability over one database. It connects to the log at its first use."""

    def __init__(
        self,
        db: Database,
        settings: WalSettings,
        controls: ControlStore,
        trust: Trust = STRICT,
        live: Live[WalSettings] | None = None,
    ) -> None:
        """``trust``: of requests to flush. ``live``: triggers and intervals in force now; None: of ``settings``."""
        self._db, self._settings, self._trust = db, settings, trust
        in_force = live or Live.of(settings)
        self.store, self.maps, self.heartbeats = WalStore(db), MapStore(db, settings), HeartbeatStore(db)
        self.replays, self.resets = ReplayStore(db, settings), ResetStore(db)
        self.floors, self.schedule = FloorStore(db, in_force, controls), WalSchedule(db, in_force)

    def enable(self, name: str, mode: Mode, instance: str, facts: Facts | LogFault) -> Topic:
        """Purge a topic of an instance from now on, if the log has it; repeatable. ``facts``: what ``log`` says of it.

        Raises:
            BadInput: it has several partitions.
            LogFault: the log does not have it, or does not answer: otherwise a mistyped name would stay on the list.
            TopicOfAnotherInstance: another instance has it.
        """
        if isinstance(facts, LogFault):
            raise facts
        if facts.partitions != 1:
            raise BadInput(f"topic {name} has {facts.partitions:,} partitions; entry ids need exactly one")
        return self.store.enable(name, mode, instance)

    @cached_property
    def log(self) -> TopicLog:
        """The log: Kafka if the settings name a broker, else the embedded log.

        Raises:
            SextonError: confluent-kafka is not installed.
        """
        if not self._settings.kafka:
            return EmbeddedLog(self._db)
        if importlib.util.find_spec("confluent_kafka") is None:
            raise SextonError("wal.kafka is set, and confluent-kafka is not installed: pip install 'sexton[kafka]'")
        from sexton.wal.kafka import KafkaLog

        return KafkaLog(self._settings.kafka)

    @cached_property
    def purger(self) -> Purger:
        """The purger of single topics and pages."""
        return Purger(self.log, self.floors)

    def standing(self, name: str) -> TopicStanding:
        """Return what is stored of a topic, without a look at its log. Raises ``UnknownTopic``."""
        with self._db.read() as c:
            now, topic = self._db.now(c), read_topic(self._db, c, name)
            pins = read_pins(self._db, c, [name])[name]
        regions, lines = self.store.regions(name), list[RegionLag]()
        for region in regions[:MAX_LINES]:
            entries: int | None = None
            if region.keep_from is not None and topic.log_end is not None:
                entries = max(0, topic.log_end - region.keep_from)
            size = None if entries is None or not topic.entry_bytes else int(entries * topic.entry_bytes)
            lines.append(RegionLag(region=region, holds=policy.holds(region, now), entries=entries, bytes=size))
        return TopicStanding(
            topic=topic,
            lines=tuple(lines),
            regions=len(regions),
            pins=tuple(pins),
            now=now,
        )

    def explain(self, name: str) -> TopicExplanation:
        """Read the log, decide as a purge would, and return why; no floor is raised. Raises ``UnknownTopic``."""
        verdict = self.purger.preview([name]).get(name)
        if verdict is None:
            raise UnknownTopic(name)
        seen = self.standing(name)
        topic, frees = seen.topic, 0
        if verdict.keep_from is not None and topic.mode is Mode.DELETE:
            frees = max(0, max(verdict.keep_from, topic.floor or 0) - policy.SLACK - (topic.log_start or 0))
        return TopicExplanation(
            **dict(seen),
            verdict=verdict,
            frees=frees,
            bytes=int(frees * topic.entry_bytes),
            behind=0 if verdict.blocked else len(self.floors.regions_to_flush([name])),
        )

    @cached_property
    def rounds(self) -> PurgeRounds:
        """The steps that activities run."""
        at_once = self._settings.auto_purge_parallelism
        return PurgeRounds(self.schedule, self.floors, self.purger, self._flusher(), at_once)

    def _flusher(self) -> Flusher | None:
        if not self._settings.flushes:
            return None
        if importlib.util.find_spec("httpx") is None:
            log.warning("regions are not asked to flush: httpx is not installed (pip install 'sexton[kafka]')")
            return None
        from sexton.wal.nodes import HttpFlushClient

        settings = self._settings
        addresses = NodeAddresses(settings.flush_nodes, loopback=settings.flushes_loopback)
        client = HttpFlushClient(addresses, trust=self._trust, secret=settings.flush_secret)
        return Flusher(self.floors, client, settings.flush_timeout_seconds, self.purger.preview)
