"""Decide in one transaction how far topics may be purged, and record later how far the log has deleted.

Deleting below a persisted floor is harmless, by any process, at any time and repeatedly: nothing else is locked.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import OperationalError

from sexton.database.engine import Database, is_locked
from sexton.database.rows import as_rows, in_list
from sexton.kernel.crash_points import reached
from sexton.kernel.live import Live
from sexton.operators.controls.store import ControlStore
from sexton.wal import policy, verdict_rows
from sexton.wal.model import Facts, FlushCandidate, LogStateBeforeRead, PurgeVerdict, RegionState, Topic, WalSettings
from sexton.wal.port import LogFault, Step
from sexton.wal.regions import CLEAR_PENDING, accept_pending
from sexton.wal.sql.store import deciding, lock_regions, read_pins, read_regions, read_topics, retains
from sexton.wal.verdict_rows import Answers, OpenPurge, TopicDecision, TopicState, completed_purges

log = logging.getLogger(__name__)
MAX_PART_REGIONS = 10_000
"""Regions of a part; a topic with more is a part of its own."""
ENTRY_SIZE_MS = 86_400_000
"""The average size of a topic's entries is estimated again after this time."""


class FloorStore:
    """Persists floors."""

    def __init__(self, db: Database, settings: WalSettings | Live[WalSettings], controls: ControlStore) -> None:
        self._db, self._settings, self._controls = db, Live.of(settings), controls

    def stopped(self, topics: Iterable[Topic]) -> Collection[str]:
        """Return those of some topics whose instance, or everything, an operator has stopped."""
        with self._db.read() as c:
            stop_of = self._controls.stops(c)
            return {topic.name for topic in topics if stop_of(topic.instance) is not None}

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
        ``answers``: the log's about each topic, read after ``before``, which ``state_before_read`` returned.
        """
        verdicts: dict[str, PurgeVerdict] = {}
        _in_parts(
            self._db,
            answers,
            lambda names: verdicts.update(self._judge_part({n: answers[n] for n in names}, before, step)),
            may_skip_all=step is Step.REVIEW,
        )
        reached("wal.floor")
        return verdicts

    def record_log_state(self, answers: Answers, faults: Mapping[str, LogFault] | None = None) -> None:
        """Store where topics begin after a deletion, and complete the purges that the log has carried out.

        ``faults``: of the deletion; a topic with a transient fault is due again at once.
        """
        _in_parts(self._db, answers, lambda names: self._record_part(names, answers, faults or {}))
        reached("wal.seen")

    def _record_part(self, names: Sequence[str], answers: Answers, faults: Mapping[str, LogFault]) -> None:
        facts = {name: answer for name in names if isinstance(answer := answers[name], Facts)}
        faults = {name: faults[name] for name in names if name in faults}
        t = self._db.t.wal_topic
        with deciding(self._db, *names) as c:
            now = self._db.now(c)
            # An answer about a replaced topic is not stored: the next decision quarantines it. Nor is one about a
            # topic in quarantine.
            topics = {
                name: topic
                for name, topic in read_topics(self._db, c, facts).items()
                if facts[name].id == topic.kafka_id and not topic.quarantined
            }
            freed = self._complete_purges(c, topics, facts, now)
            rows: list[dict[str, Any]] = []
            for name, topic in topics.items():
                ok_at = topic.ok_at if name in faults else now
                bounds = verdict_rows.log_bounds(topic, facts[name])
                rows.append({"topic_name": name, "ok_at": ok_at, "freed": topic.freed + freed[name], **bounds})
            self._update_topics(c, rows)
            texts = {name: str(fault)[: verdict_rows.MAX_FAULT_CHARS] for name, fault in faults.items()}
            self._update_topics(c, [{"topic_name": name, "fault": text} for name, text in texts.items()])
            transient = [name for name, fault in faults.items() if fault.passes]
            if transient:
                c.execute(update(t).where(in_list(t.c.name, transient)).values(checked_at=None))

    def without_entry_size(self, names: Sequence[str]) -> Sequence[str]:
        """Return those of some topics whose average entry size is unknown, or was estimated over a day ago."""
        t = self._db.t.wal_topic
        with self._db.read() as c:
            outdated = or_(t.c.entry_bytes_at.is_(None), t.c.entry_bytes_at <= self._db.now(c) - ENTRY_SIZE_MS)
            of_names = and_(in_list(t.c.name, names), t.c.enabled, t.c.quarantined == "")
            return list(c.execute(select(t.c.name).where(of_names, outdated)).scalars())

    def record_entry_sizes(self, names: Sequence[str], sizes: Mapping[str, float]) -> None:
        """Note that the entries of these topics were measured, and store the average bytes of an entry where known."""
        t = self._db.t.wal_topic

        def record(part: Sequence[str]) -> None:
            rows = [{"topic_name": name, "entry_bytes": sizes[name]} for name in part if name in sizes]
            with deciding(self._db, *part) as c:
                c.execute(update(t).where(in_list(t.c.name, part)).values(entry_bytes_at=self._db.now(c)))
                self._update_topics(c, rows)

        _in_parts(self._db, names, record, may_skip_all=True)

    def _judge_part(self, answers: Answers, before: LogStateBeforeRead, step: Step) -> Mapping[str, PurgeVerdict]:
        names, settings = sorted(answers), self._settings()
        decisions: list[TopicDecision] = []
        with deciding(self._db, *names) as c:
            now = self._db.now(c)
            topics = read_topics(self._db, c, names)
            trusted = verdict_rows.trusted_answers(topics, answers, before)
            self._accept_pending_reports(c, trusted)
            self._record_move_ends(c, topics, trusted, before)
            # Reports that arrive meanwhile only raise needs, so these rows are not locked.
            regions, pins = read_regions(self._db, c, names, retains(self._db)), read_pins(self._db, c, names)
            stop_of = self._controls.stops(c)
            for name, topic in topics.items():
                state = TopicState(topic, answers[name], policy.TopicReaders(regions[name], pins[name]))
                if name in trusted:
                    state = self._release_regions(c, state, now)
                halt, safe = stop_of(topic.instance), before.safe.get(name, 0)
                verdict = verdict_rows.topic_verdict(state, halt, now, settings, safe)
                decisions.append(verdict_rows.decide(state, verdict, now, step, settings))
            self._update_topics(c, [decision.topic_row for decision in decisions])
            raised = [decision.purge_row for decision in decisions if decision.purge_row is not None]
            if raised:  # a floor has one row, even if two processes raise it
                p = self._db.t.wal_purge
                new = as_rows(raised, **{name: p.c[name].type for name in raised[0]})
                c.execute(upsert(p).from_select(list(raised[0]), select(new)).on_conflict_do_nothing())
        return {decision.topic: decision.verdict for decision in decisions}

    def _accept_pending_reports(self, c: Connection, trusted: Mapping[str, Facts]) -> None:
        """Count pending reports that the topic's end, as known now, has reached."""
        r = self._db.t.wal_region
        is_pending = and_(retains(self._db), r.c.pending_keep_from.is_not(None))
        regions = read_regions(self._db, c, list(trusted), is_pending, lock=True)
        accepted_rows = []
        for name, facts in trusted.items():
            for region in regions[name]:
                columns = accept_pending(region, facts.end)
                if columns is not None:
                    accepted_rows.append({"topic_name": name, "region_name": region.region, **columns})
        if accepted_rows:
            columns = CLEAR_PENDING | {name: bindparam(name) for name in ("keep_from", "flushed", "source")}
            same_region = and_(r.c.topic == bindparam("topic_name"), r.c.region == bindparam("region_name"))
            c.execute(update(r).where(same_region).values(**columns), accepted_rows)

    def _record_move_ends(
        self, c: Connection, topics: Mapping[str, Topic], trusted: Mapping[str, Facts], before: LogStateBeforeRead
    ) -> None:
        """Record the topic's end for regions that moved away: they need no entry at or above it.

        Only under the map that was known before the log was read: a region that has returned since, and left again, has
        newer entries.
        """
        r = self._db.t.wal_region
        for name, moved in before.moved.items():
            if name in trusted and topics[name].generation == before.generation.get(name):
                unrecorded = and_(r.c.topic == name, in_list(r.c.region, moved), r.c.until.is_(None))
                still_moved = and_(unrecorded, r.c.state == RegionState.MOVED)
                lock_regions(self._db, c, still_moved)
                c.execute(update(r).where(still_moved).values(until=trusted[name].end))

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

    def _complete_purges(
        self, c: Connection, topics: Mapping[str, Topic], facts: Mapping[str, Facts], now: int
    ) -> Mapping[str, int]:
        """Store which purges of topics the log has completed; return by topic how many entries they freed."""
        purge = self._db.t.wal_purge
        purges: dict[str, list[OpenPurge]] = {name: [] for name in topics}
        incomplete = and_(in_list(purge.c.topic, purges), purge.c.done_at.is_(None))
        columns = select(purge.c.id, purge.c.topic, purge.c.kafka_id, purge.c.floor, purge.c.log_start)
        for row in c.execute(columns.where(incomplete).order_by(purge.c.floor)):
            purges[row.topic].append(OpenPurge(row.id, row.kafka_id, row.floor, row.log_start))
        freed = {name: completed_purges(topic, facts[name], purges[name]) for name, topic in topics.items()}
        starts = {name: facts[name].start for name, of_topic in freed.items() if of_topic}
        if starts:
            # Purges that are still open must not count the same entries again.
            is_open = and_(in_list(purge.c.topic, starts), purge.c.done_at.is_(None))
            c.execute(update(purge).where(is_open).values(log_start=case(starts, value=purge.c.topic)))
            by_purge = {id_: number for of_topic in freed.values() for id_, number in of_topic.items()}
            completed = update(purge).where(in_list(purge.c.id, list(by_purge)))
            c.execute(completed.values(done_at=now, freed=case(by_purge, value=purge.c.id)))
        return {name: sum(of_topic.values()) for name, of_topic in freed.items()}

    def _update_topics(self, c: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Update topics: ``topic_name`` selects the row, the other keys are columns, in each row the same."""
        t = self._db.t.wal_topic
        if rows:
            types = {name: t.c[name].type for name in rows[0] if name != "topic_name"}
            new = as_rows(rows, topic_name=t.c.name.type, **types)
            c.execute(update(t).where(t.c.name == new.c.topic_name).values({name: new.c[name] for name in types}))


def _in_parts(
    db: Database, names: Iterable[str], decide: Callable[[Sequence[str]], None], *, may_skip_all: bool = False
) -> None:
    """Call a function for each part of some topics; it decides about them in one transaction.

    Topics that another transaction holds for seconds are left out: they are due again at once, and delay no others. If
    that is so for all of them, the error is raised unless ``may_skip_all``: in a review others are beside them. Unknown
    topics are left out, too.
    """
    parts = _parts(db, names)
    decided, error = False, None
    while parts:
        part = parts.pop(0)
        try:
            decide(part)
            decided = True
        except OperationalError as e:
            if not is_locked(e):
                raise
            free, error = _unlocked(db, part), e
            locked = [name for name in part if name not in free] or part  # all are free: it was their regions' rows
            log.warning("topics are locked by another transaction, left to the next purge: %s", ", ".join(locked))
            if free and len(locked) < len(part):
                parts.insert(0, free)
    if error is not None and not decided and not may_skip_all:
        raise error


def _unlocked(db: Database, names: Sequence[str]) -> list[str]:
    """Return those of some topics that no transaction has locked at this moment."""
    t = db.t.wal_topic
    query = select(t.c.name).where(in_list(t.c.name, names)).order_by(t.c.name).with_for_update(skip_locked=True)
    with db.write() as c:
        return list(c.execute(query).scalars())


def _parts(db: Database, names: Iterable[str]) -> list[list[str]]:
    """Return the topics that are known in parts: each of one instance, with few regions."""
    t, r = db.t.wal_topic, db.t.wal_region
    names = list(names)
    count = select(r.c.topic, func.count().label("regions")).where(in_list(r.c.topic, names), retains(db))
    counts = count.group_by(r.c.topic).subquery()
    query = select(t.c.name, t.c.instance, func.coalesce(counts.c.regions, 0).label("regions"))
    query = query.outerjoin_from(t, counts, counts.c.topic == t.c.name).where(in_list(t.c.name, names))
    parts: list[list[str]] = []
    instance, regions = "", 0
    with db.read() as c:
        for topic in c.execute(query.order_by(t.c.instance, t.c.name)):
            regions += topic.regions
            if not parts or topic.instance != instance or regions > MAX_PART_REGIONS:
                parts.append([])
                regions = topic.regions
            parts[-1].append(topic.name)
            instance = topic.instance
    return parts
