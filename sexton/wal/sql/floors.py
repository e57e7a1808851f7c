"""Floors: the one transaction that decides how far topics may be purged, and what was seen after it was done.

Deleting below a persisted floor does no harm, whoever does it, whenever and however often: nothing else is locked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, select, update

from sexton.database.engine import Database
from sexton.database.rows import in_list, upsert
from sexton.kernel.crash_points import reached
from sexton.operators.controls.model import Halt
from sexton.operators.controls.store import ControlStore
from sexton.wal import policy, verdict_rows
from sexton.wal.model import (
    Block,
    Candidate,
    Facts,
    KeepFromSource,
    LogStateBeforeRead,
    Mode,
    PurgeVerdict,
    Region,
    RegionState,
    Topic,
    WalSettings,
    Why,
)
from sexton.wal.port import LogFault
from sexton.wal.sql.rows import deciding, pins, regions, topics

_NONE_WAITS = policy.WAITS_NOT | {name: bindparam(name) for name in ("keep_from", "marks", "flushed", "source")}


class FloorStore:
    """Decides about topics."""

    def __init__(self, db: Database, terms: WalSettings) -> None:
        self._db, self._terms, self._controls = db, terms, ControlStore(db)

    def stopped(self) -> Halt | None:
        """Return why nothing at all may go now."""
        with self._db.read() as c:
            return self._controls.stopped(c)

    def before(self, names: Sequence[str]) -> LogStateBeforeRead:
        """Return what must be known before the log is asked; see ``LogStateBeforeRead``."""
        r = self._db.t.wal_region
        of = in_list(self._db, r.c.topic, names)
        each = select(r.c.topic, func.max(r.c.keep_from).label("most")).where(of, r.c.keep_from.is_not(None))
        moved: dict[str, tuple[str, ...]] = {}
        with self._db.read() as c:
            there = topics(self._db, c, names)
            safe = {name: max(its.floor or 0, its.log_end or 0) for name, its in there.items()}
            for row in c.execute(each.group_by(r.c.topic)):
                safe[row.topic] = max(row.most, safe.get(row.topic, 0))
            for row in c.execute(select(r).where(of, r.c.state == RegionState.MOVED, r.c.until.is_(None))):
                moved[row.topic] = (*moved.get(row.topic, ()), row.region)
        maps = {name: its.generation for name, its in there.items() if its.generation is not None}
        return LogStateBeforeRead(safe=safe, generation=maps, moved=moved)

    def topics(self, names: Sequence[str]) -> Mapping[str, Topic]:
        """Return those that are known."""
        with self._db.read() as c:
            return topics(self._db, c, names)

    def behind(self, names: Sequence[str]) -> Sequence[Candidate]:
        """Return the regions that should flush, who frees most first, by the ends that were seen last."""
        node = self._db.t.wal_node
        with self._db.read() as c:
            now, there, of = self._db.now(c), topics(self._db, c, names), regions(self._db, c, names)
            urls: dict[str, str] = {row.name: row.url for row in c.execute(select(node.c.name, node.c.url))}
        found = [
            its.model_copy(update={"url": urls.get(its.node, "")})
            for topic in there.values()
            if topic.enabled and not topic.quarantined and topic.log_end is not None
            for its in policy.candidates(topic, topic.log_end, of[topic.name], now, self._terms)
        ]
        return sorted(found, key=lambda its: (-its.bytes, -its.entries, its.topic, its.region))

    def judge(self, answers: verdict_rows.Answers, before: LogStateBeforeRead) -> Mapping[str, PurgeVerdict]:
        """Say how far each topic may be purged; what was seen is stored, no floor is raised."""
        return self._decide(answers, before, raises=False)

    def raise_floors(self, answers: verdict_rows.Answers, before: LogStateBeforeRead) -> Mapping[str, PurgeVerdict]:
        """Persist how far each topic may be purged, where that rises: from then on all below it may be deleted.

        Args:
            answers: what the log said of each, asked after ``before`` was read.
            before: as ``before`` returned it.
        """
        return self._decide(answers, before, raises=True)

    def seen(self, answers: verdict_rows.Answers, faults: Mapping[str, LogFault] | None = None) -> None:
        """Store where topics begin now, after something was deleted, and conclude the purges that this shows done.

        ``faults``: of deleting; a topic with one that passes has its next turn at once.
        """
        facts = {name: its for name, its in answers.items() if isinstance(its, Facts)}
        t, purge = self._db.t.wal_topic, self._db.t.wal_purge
        with deciding(self._db, *sorted(facts)) as c:
            now = self._db.now(c)
            known = topics(self._db, c, facts)
            # Of another topic, which the next decision quarantines, and of one that is, nothing is stored.
            there = {n: its for n, its in known.items() if facts[n].id == its.kafka_id and not its.quarantined}
            faulty = faults or {}
            seen = [
                {"of": name, "ok_at": its.ok_at if name in faulty else now, **verdict_rows.ends(its, facts[name])}
                for name, its in there.items()
            ]
            if seen:
                c.execute(update(t).where(t.c.name == bindparam("of")), seen)
            self._note_faults(c, faulty)
            open_ = and_(in_list(self._db, purge.c.topic, there), purge.c.done_at.is_(None))
            done: dict[str, dict[str, Any]] = {}
            began: dict[str, int] = {}
            rows = []
            for row in c.execute(select(purge).where(open_).order_by(purge.c.floor)):
                topic, its = there[row.topic], facts[row.topic]
                if row.kafka_id != its.id:  # of a topic that is no more
                    continue
                began.setdefault(row.topic, row.log_start)
                # In logical mode Kafka deletes when it likes: the floor is all there is to see.
                reach = its.start + policy.SLACK if topic.mode is Mode.DELETE else topic.floor or 0
                if row.floor <= reach:
                    done[row.topic] = {"of": row.id, "done_at": now, "log_start": its.start, "freed": 0}
                    rows.append(done[row.topic])
            for name, last in done.items():  # what went at once is told once, with the highest
                last["freed"] = max(0, facts[name].start - began[name])
            if rows:
                c.execute(update(purge).where(purge.c.id == bindparam("of")), rows)
                told = [{"of": name, "begins": facts[name].start} for name in done]  # and no other purge tells it again
                left = and_(purge.c.topic == bindparam("of"), purge.c.done_at.is_(None))
                c.execute(update(purge).where(left).values(log_start=bindparam("begins")), told)
                went = [{"of": name, "more": last["freed"]} for name, last in done.items()]
                c.execute(
                    update(t).where(t.c.name == bindparam("of")).values(freed=t.c.freed + bindparam("more")), went
                )
        reached("wal.seen")

    def weighed(self, names: Sequence[str], sizes: Mapping[str, float]) -> None:
        """Note that these topics were looked at, and store the bytes of an entry where they are known now."""
        t = self._db.t.wal_topic
        rows = [{"of": name, "size": size} for name, size in sorted(sizes.items())]
        with self._db.write() as c:
            c.execute(update(t).where(in_list(self._db, t.c.name, names)).values(weighed_at=self._db.now(c)))
            if rows:
                c.execute(update(t).where(t.c.name == bindparam("of")).values(entry_bytes=bindparam("size")), rows)

    def _decide(
        self, answers: verdict_rows.Answers, before: LogStateBeforeRead, *, raises: bool
    ) -> Mapping[str, PurgeVerdict]:
        names = sorted(answers)
        verdicts: dict[str, PurgeVerdict] = {}
        with deciding(self._db, *names) as c:
            now = self._db.now(c)
            there = topics(self._db, c, names)
            sound = verdict_rows.sound(there, answers, before)
            of = regions(self._db, c, names, lock=True)
            self._accept(c, sound, of)
            self._note_ends(c, there, sound, before)
            of, pinned = regions(self._db, c, names), pins(self._db, c, names)
            halt = self._controls.stopped(c)
            rows: list[dict[str, Any]] = []
            floors: list[dict[str, Any]] = []
            for name, topic in there.items():
                holding = [its for its in of[name] if its.state is not RegionState.GONE]
                now_empty = self._emptied(c, topic, holding, now) if name in sound else topic
                state = verdict_rows.TopicDecision(now_empty, answers[name], holding, pinned[name])
                verdict = self._verdict(state, now, before.safe.get(name, 0))
                verdicts[name] = verdict = verdict_rows.halted(verdict, halt)
                rows.append(verdict_rows.topic_row(state, verdict, now))
                if raises:
                    rows[-1] |= verdict_rows.turn(answers[name], now)
                if raises and policy.rises(topic.floor, verdict.keep_from):
                    rows[-1]["floor"] = verdict.keep_from
                    verdicts[name] = verdict.model_copy(update={"rose": True})
                    floors.append(verdict_rows.purge_row(state, verdict, now))
            if rows:
                t = self._db.t.wal_topic
                c.execute(update(t).where(t.c.name == bindparam("of")), rows)
            if floors:
                self._note(c, floors)
        reached("wal.floor")
        return verdicts

    def _verdict(self, state: verdict_rows.TopicDecision, now: int, safe: int) -> PurgeVerdict:
        topic, its = state.topic, state.its
        if isinstance(its, LogFault):
            return PurgeVerdict(blocked=(Block(why=Why.FAULT, said=str(its)),), quarantine=topic.quarantined)
        return policy.verdict(topic, its, state.regions, state.pins, now, self._terms, safe)

    def _accept(self, c: Connection, sound: Mapping[str, Facts], of: Mapping[str, Sequence[Region]]) -> None:
        """Let what was reported above the end that we knew count as far as the end is known now."""
        r = self._db.t.wal_region
        good = [
            {"of": name, "its": its.region, "keep_from": max(its.keep_from or 0, its.waits), **_newest(its)}
            for name, facts in sound.items()
            for its in of[name]
            if its.waits is not None and its.waits <= facts.end
        ]
        if good:
            that = and_(r.c.topic == bindparam("of"), r.c.region == bindparam("its"))
            c.execute(update(r).where(that).values(**_NONE_WAITS), good)

    def _note_ends(
        self, c: Connection, there: Mapping[str, Topic], sound: Mapping[str, Facts], before: LogStateBeforeRead
    ) -> None:
        """Note where topics ended that regions had moved away from: they need nothing from there on.

        By the map that was known before the log was asked: one that came back since, and left again, has newer entries.
        """
        r = self._db.t.wal_region
        for topic, moved in before.moved.items():
            if topic in sound and there[topic].generation == before.generation.get(topic):
                its = and_(r.c.topic == topic, in_list(self._db, r.c.region, moved), r.c.until.is_(None))
                c.execute(update(r).where(its, r.c.state == RegionState.MOVED).values(until=sound[topic].end))

    def _emptied(self, c: Connection, topic: Topic, of: list[Region], now: int) -> Topic:
        """Let the regions go that hold nothing any more; when the last one went, its time is noted."""
        gone = [r for r in of if not policy.holds(r, now)]
        if not gone:
            return topic
        t = self._db.t.wal_region
        its = and_(t.c.topic == topic.name, in_list(self._db, t.c.region, (r.region for r in gone)))
        c.execute(update(t).where(its).values(state=RegionState.GONE, releases_at=None, until=None))
        of[:] = [r for r in of if r not in gone]
        if of:
            return topic
        name = self._db.t.wal_topic.c.name
        c.execute(update(self._db.t.wal_topic).where(name == topic.name).values(emptied_at=now))
        return topic.model_copy(update={"emptied_at": now})

    def _note_faults(self, c: Connection, faults: Mapping[str, LogFault]) -> None:
        t = self._db.t.wal_topic
        if faults:
            rows = [{"of": name, "said": str(its)[: verdict_rows.MOST_SAID]} for name, its in faults.items()]
            c.execute(update(t).where(t.c.name == bindparam("of")).values(fault=bindparam("said")), rows)
        again = [name for name, its in faults.items() if its.passes]
        if again:
            c.execute(update(t).where(in_list(self._db, t.c.name, again)).values(looked_at=None))

    def _note(self, c: Connection, floors: list[dict[str, Any]]) -> None:
        """Write down which floors are raised; a floor has one row, whoever raised it."""
        c.execute(upsert(self._db, self._db.t.wal_purge).on_conflict_do_nothing(), floors)


def _newest(its: Region) -> dict[str, Any]:
    """Return what the newest report of a region said of its manifest: one that waited, or one before it."""
    if its.waits_flushed is not None and (its.waits_marks or 0) >= its.marks:
        idle = (its.waits or 0) > min(its.waits_flushed, default=0)
        source = KeepFromSource.IDLE if idle else KeepFromSource.FLUSHED
        return {"marks": its.waits_marks, "flushed": its.waits_flushed, "source": source}
    return {"marks": its.marks, "flushed": its.flushed, "source": its.source}
