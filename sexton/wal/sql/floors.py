"""Decide how far each topic may be purged, a transaction for each, and record later how far its log has deleted.

Deleting below a persisted floor is harmless, by any process, at any time and repeatedly: nothing else is locked.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, and_, bindparam, case, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.rows import in_list
from sexton.kernel.crash_points import reached
from sexton.kernel.live import Live
from sexton.operators.controls.store import ControlStore
from sexton.wal import policy, verdict_rows
from sexton.wal.model import Facts, FlushCandidate, LogStateBeforeRead, PurgeVerdict, RegionState, Topic, WalSettings
from sexton.wal.port import LogFault, Step
from sexton.wal.regions import CLEAR_PENDING, accept_pending
from sexton.wal.sql.rows import deciding, lock_regions, read_pins, read_regions, read_topics, retains
from sexton.wal.verdict_rows import Answers, OpenPurge, TopicState, completed_purges

log = logging.getLogger(__name__)
T = TypeVar("T")
ENTRY_SIZE_MS = 86_400_000
"""The average size of a topic's entries is estimated again after this time."""


class FloorStore:
    """Persists floors."""

    def __init__(self, db: Database, settings: WalSettings | Live[WalSettings], controls: ControlStore) -> None:
        self._db, self._settings, self._controls = db, Live.of(settings), controls

    def is_stopped(self, topic: Topic) -> bool:
        """Return whether an operator has stopped the topic's instance, or everything."""
        with self._db.read() as c:
            return self._controls.stops(c)(topic.instance) is not None

    def state_before_read(self, names: Sequence[str]) -> LogStateBeforeRead:
        """Return what must be read before the log; see ``LogStateBeforeRead``."""
        r = self._db.t.wal_region
        of_topics = in_list(r.c.topic, names)
        highest_need = select(r.c.topic, func.max(r.c.keep_from).label("keep_from"))
        needs = highest_need.where(of_topics, r.c.keep_from.is_not(None)).group_by(r.c.topic)
        moved_regions = select(r.c.topic, r.c.region).where(
            of_topics, r.c.state == RegionState.MOVED, r.c.until.is_(None)
        )
        moved: dict[str, list[str]] = {}
        with self._db.read() as c:
            topics = read_topics(self._db, c, names)
            safe = {name: max(topic.floor or 0, topic.log_end or 0) for name, topic in topics.items()}
            for row in c.execute(needs):
                safe[row.topic] = max(row.keep_from, safe.get(row.topic, 0))
            for row in c.execute(moved_regions):
                moved.setdefault(row.topic, []).append(row.region)
        generations = {name: topic.generation for name, topic in topics.items() if topic.generation is not None}
        return LogStateBeforeRead(
            safe=safe, generation=generations, moved={topic: tuple(regions) for topic, regions in moved.items()}
        )

    def topics(self, names: Sequence[str]) -> Mapping[str, Topic]:
        """Return the topics that are known."""
        with self._db.read() as c:
            return read_topics(self._db, c, names)

    def regions_to_flush(self, names: Sequence[str]) -> Sequence[FlushCandidate]:
        """Return the regions that should flush, by the ends last seen; those whose flushes free most come first."""
        node, settings = self._db.t.wal_node, self._settings()
        with self._db.read() as c:
            now = self._db.now(c)
            topics, regions = read_topics(self._db, c, names), read_regions(self._db, c, names, retains(self._db))
            rows = c.execute(select(node.c.instance, node.c.name, node.c.url))
            urls = {(row.instance, row.name): row.url for row in rows}
        candidates: list[FlushCandidate] = []
        for topic in topics.values():
            if topic.enabled and not topic.quarantined and topic.log_end is not None:
                candidates += policy.regions_to_flush(topic, topic.log_end, regions[topic.name], now, settings)
        addressed = [
            region.model_copy(update={"url": urls.get((topics[region.topic].instance, region.node), "")})
            for region in candidates
        ]
        return sorted(addressed, key=lambda region: (-region.bytes, -region.entries, region.topic, region.region))

    def judge(self, answers: Answers, before: LogStateBeforeRead, step: Step) -> Mapping[str, PurgeVerdict]:
        """Decide how far each topic may be purged, and store the log's state and what the step adds.

        With ``Step.RAISE`` this persists how far, where that rises: from then on entries below may be deleted.

        Args:
            answers: the log's answer about each topic, read after ``before``.
            before: as ``state_before_read`` returned it.
            step: what the verdicts are for.
        """
        settings = self._settings()

        def decide(c: Connection, topic: Topic) -> PurgeVerdict:
            now, name, answer, safe = self._db.now(c), topic.name, answers[topic.name], before.safe.get(topic.name, 0)
            facts = verdict_rows.trusted_facts(topic, answer, safe)
            if facts is not None:
                self._accept_pending_reports(c, name, facts.end)
                self._record_move_ends(c, topic, facts.end, before)
            # Reports that arrive meanwhile only raise needs, so these rows are not locked.
            regions, pins = read_regions(self._db, c, [name], retains(self._db)), read_pins(self._db, c, [name])
            state = TopicState(topic, answer, policy.TopicReaders(regions[name], pins[name]))
            if facts is not None:
                state = self._release_regions(c, state, now)
            halt = self._controls.stops(c)(topic.instance)
            verdict = verdict_rows.topic_verdict(state, halt, now, settings, safe)
            decision = verdict_rows.decide(state, verdict, now, step, settings)
            self._update_topic(c, name, decision.topic_row)
            if decision.purge_row is not None:  # a floor has one row, even if two processes raise it
                c.execute(upsert(self._db.t.wal_purge).values(decision.purge_row).on_conflict_do_nothing())
            return decision.verdict

        verdicts = self._with_each(answers, decide)
        reached("wal.floor")
        return verdicts

    def record_log_state(self, answers: Answers, faults: Mapping[str, LogFault] | None = None) -> None:
        """Store where topics begin after a deletion, and complete the purges that the log has carried out.

        ``faults``: of the deletion; a topic with a transient fault is due again at once.
        """

        def record(c: Connection, topic: Topic) -> None:
            now, facts, fault = self._db.now(c), answers[topic.name], (faults or {}).get(topic.name)
            columns: dict[str, Any] = {}
            if fault is not None:
                columns["fault"] = str(fault)[: verdict_rows.MAX_FAULT_CHARS]
                if fault.passes:
                    columns["checked_at"] = None
            # An answer about a replaced topic is not stored: the next decision quarantines it. Nor is one about a
            # topic in quarantine.
            if isinstance(facts, Facts) and facts.id == topic.kafka_id and not topic.quarantined:
                columns |= {"ok_at": topic.ok_at if fault else now, **verdict_rows.log_bounds(topic, facts)}
                columns["freed"] = topic.freed + self._complete_purges(c, topic, facts, now)
            self._update_topic(c, topic.name, columns)

        self._with_each(answers, record)
        reached("wal.seen")

    def without_entry_size(self, names: Sequence[str]) -> Sequence[str]:
        """Return those of some topics whose average entry size is unknown, or was estimated over a day ago."""
        t = self._db.t.wal_topic
        with self._db.read() as c:
            outdated = or_(t.c.entry_bytes_at.is_(None), t.c.entry_bytes_at <= self._db.now(c) - ENTRY_SIZE_MS)
            of_names = and_(in_list(t.c.name, names), t.c.enabled, t.c.quarantined == "")
            return list(c.execute(select(t.c.name).where(of_names, outdated)).scalars())

    def record_entry_sizes(self, names: Sequence[str], sizes: Mapping[str, float]) -> None:
        """Note that the entries of these topics were measured, and store the average bytes of an entry where known."""

        def record(c: Connection, topic: Topic) -> None:
            size = sizes.get(topic.name, topic.entry_bytes)
            self._update_topic(c, topic.name, {"entry_bytes": size, "entry_bytes_at": self._db.now(c)})

        self._with_each(names, record)

    def _with_each(self, names: Iterable[str], decide: Callable[[Connection, Topic], T]) -> dict[str, T]:
        """Call a function with each topic, in a transaction that decides about it; return its results by name.

        A topic that another transaction holds for seconds is left out: it is due again at once, and delays no others.
        If that is so for all topics, the error is raised. Unknown topics are left out, too.
        """
        results: dict[str, T] = {}
        locked: OperationalError | None = None
        for name in sorted(names):
            try:
                with deciding(self._db, name) as c:
                    decided = {n: decide(c, topic) for n, topic in read_topics(self._db, c, [name]).items()}
                results |= decided
            except OperationalError as e:
                if not is_locked(e):
                    raise
                locked = e
                log.warning("topic %s is locked by another transaction; left to the next purge", name)
        if locked is not None and not results:
            raise locked
        return results

    def _accept_pending_reports(self, c: Connection, topic: str, end: int) -> None:
        """Count pending reports that the topic's end, as known now, has reached."""
        r = self._db.t.wal_region
        is_pending = and_(retains(self._db), r.c.pending_keep_from.is_not(None))
        accepted_rows = []
        for region in read_regions(self._db, c, [topic], is_pending, lock=True)[topic]:
            columns = accept_pending(region, end)
            if columns is not None:
                accepted_rows.append({"region_name": region.region, **columns})
        if accepted_rows:
            columns = CLEAR_PENDING | {name: bindparam(name) for name in ("keep_from", "flushed", "source")}
            same_region = and_(r.c.topic == topic, r.c.region == bindparam("region_name"))
            c.execute(update(r).where(same_region).values(**columns), accepted_rows)

    def _record_move_ends(self, c: Connection, topic: Topic, end: int, before: LogStateBeforeRead) -> None:
        """Record the topic's end for regions that moved away: they need no entry at or above it.

        Only under the map that was known before the log was read: a region that has returned since, and left again, has
        newer entries.
        """
        r, moved = self._db.t.wal_region, before.moved.get(topic.name, ())
        if moved and topic.generation == before.generation.get(topic.name):
            unrecorded = and_(r.c.topic == topic.name, in_list(r.c.region, moved), r.c.until.is_(None))
            still_moved = and_(unrecorded, r.c.state == RegionState.MOVED)
            lock_regions(self._db, c, still_moved)
            c.execute(update(r).where(still_moved).values(until=end))

    def _release_regions(self, c: Connection, state: TopicState, now: int) -> TopicState:
        """Set regions to GONE that need no entry; when the last one is released, note the time."""
        topic, regions = state.topic, state.readers.regions
        holding = [region for region in regions if policy.holds(region, now)]
        if len(holding) == len(regions):
            return state
        released = (region.region for region in regions if not policy.holds(region, now))
        r, t = self._db.t.wal_region, self._db.t.wal_topic
        same_regions = and_(r.c.topic == topic.name, in_list(r.c.region, released))
        lock_regions(self._db, c, same_regions)
        c.execute(update(r).where(same_regions).values(state=RegionState.GONE, releases_at=None, until=None))
        if not holding:
            c.execute(update(t).where(t.c.name == topic.name).values(emptied_at=now))
            topic = topic.model_copy(update={"emptied_at": now})
        return state._replace(topic=topic, readers=state.readers._replace(regions=holding))

    def _complete_purges(self, c: Connection, topic: Topic, facts: Facts, now: int) -> int:
        """Store which purges of a topic the log has completed; return how many entries they freed."""
        purge = self._db.t.wal_purge
        is_open = and_(purge.c.topic == topic.name, purge.c.done_at.is_(None))
        columns = select(purge.c.id, purge.c.kafka_id, purge.c.floor, purge.c.log_start)
        open_purges = [OpenPurge(*row) for row in c.execute(columns.where(is_open).order_by(purge.c.floor))]
        freed_by = completed_purges(topic, facts, open_purges)
        if freed_by:
            # Purges that are still open must not count the same entries again.
            c.execute(update(purge).where(is_open).values(log_start=facts.start))
            freed = case(freed_by, value=purge.c.id)
            c.execute(update(purge).where(in_list(purge.c.id, list(freed_by))).values(done_at=now, freed=freed))
        return sum(freed_by.values())

    def _update_topic(self, c: Connection, name: str, columns: Mapping[str, Any]) -> None:
        if columns:
            t = self._db.t.wal_topic
            c.execute(update(t).where(t.c.name == name).values(**columns))
