"""Race committers and undroppers against a claimer, on an owner's own database, and count what must never happen.

It works under an instance of its own, deletes no file, and leaves nothing behind.
"""

import random
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Connection, insert, select, text
from sqlalchemy.exc import OperationalError

from sexton import contract
from sexton.database.engine import Database
from sexton.kernel.message import Message
from sexton.marks.model import Candidate, ClaimRequest, MarkState, Ref
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.store import ControlStore
from sexton.operators.registry.store import Registry
from sexton.recycle.model import Cursor, RangeOrder, RangeReceipt
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.runtime.engine import keepers

HOUR_MS = 3_600_000
RACES = 3
"""A race that one side won alone is run again, this often at most."""
CHUNK = 20
"""Marks per claim; small, so that claims and commits meet often."""


class Race(Message):
    """How a race ended. ``committed_and_claimed`` and ``undropped_and_claimed`` must be 0, ``lost`` too."""

    marks: int
    committed: int
    undropped: int
    refused: int
    claimed: int
    committed_and_claimed: int
    undropped_and_claimed: int
    lost: int

    @property
    def proved(self) -> bool:
        """Whether all sides met: a race that one side won alone shows nothing."""
        return min(self.committed, self.undropped, self.claimed) > 0

    @property
    def clean(self) -> bool:
        """Whether nothing happened that must not."""
        return self.committed_and_claimed + self.undropped_and_claimed + self.lost == 0


CommitPath = Callable[[Connection, str, list[str]], None]


def run(db: Database, *, marks: int = 2_000, threads: int = 4, commit: CommitPath = contract.commit) -> Race:
    """Mark, then let everybody loose on the same marks at once.

    Args:
        db: the owner's database with Sexton's schema, with the rights that ``sexton init`` needs.
        marks: how many of each: half prepared (to be committed), half dropped (to be undropped).
        threads: committers, and as many undroppers.
        commit: what an owner does inside its metadata commit.
    """
    for _ in range(RACES):
        instance = f"race-{secrets.token_hex(4)}"
        Registry(db).add_instance(instance)
        Registry(db).enable(instance)
        try:
            race = _Arena(db, instance, marks // 2, threads, commit).fight()
        finally:
            _clean(db, instance)
        if race.proved or not race.clean:
            break
    return race


class _Arena:
    def __init__(self, db: Database, instance: str, each: int, threads: int, commit: CommitPath) -> None:
        self._db, self._instance, self._threads, self._commit = db, instance, threads, commit
        self._ids = [f"{instance}-{n}" for n in range(each)]
        self._won: dict[str, set[str]] = {"prepared": set(), "dropped": set()}
        self._refused = 0
        self._lock = threading.Lock()

    def fight(self) -> Race:
        self._mark()
        start = threading.Barrier(2 * self._threads + 1)
        with ThreadPoolExecutor(2 * self._threads + 1) as pool:
            jobs = [pool.submit(self._claim, start)]
            for n in range(self._threads):
                mine = self._ids[n :: self._threads]
                jobs.append(pool.submit(self._take, start, mine, "prepared", self._commit_some))
                jobs.append(pool.submit(self._take, start, mine, "dropped", self._undrop_some))
            for job in jobs:
                job.result()
        mark = self._db.t.mark
        with self._db.read() as c:
            rows = c.execute(
                select(mark.c.kind, mark.c.id, mark.c.state).where(mark.c.instance == self._instance)
            ).all()
        claimed = {kind: {r.id for r in rows if r.kind == kind and r.state == MarkState.CLAIMED} for kind in self._won}
        left = sum(1 for r in rows if r.state == MarkState.MARKED)
        total = 2 * len(self._ids)
        won = sum(len(ids) for ids in self._won.values())
        both = {kind: len(self._won[kind] & claimed[kind]) for kind in self._won}
        return Race(
            marks=total,
            committed=len(self._won["prepared"]),
            undropped=len(self._won["dropped"]),
            refused=self._refused,
            claimed=sum(len(ids) for ids in claimed.values()),
            committed_and_claimed=both["prepared"],
            undropped_and_claimed=both["dropped"],
            lost=total - won - sum(len(ids) for ids in claimed.values()) - left + sum(both.values()),
        )

    def _mark(self) -> None:
        prefixes = [f"race/{i}/" for i in self._ids]
        with self._db.write() as c:
            contract.prepare(c, self._instance, "race", self._ids, "none", prefixes, 1)
        with self._db.write() as c:
            new = (contract.NewMark(id=i, vault="none", prefix=f"race/{i}/") for i in self._ids)
            contract.mark(c, self._instance, "dropped", new)

    def _claim(self, start: threading.Barrier) -> None:
        batches, claims = BatchStore(self._db), ClaimStore(self._db, ControlStore(self._db), keepers(self._db))
        leases = LeaseStore(self._db)
        lease = leases.acquire(self._instance, "recycle", "race")
        with self._db.write() as c:
            now = self._db.now(c)
            round_ = self._db.t.round
            values = {"instance": self._instance, "run_id": self._instance, "state": "RUNNING", "started_at": now}
            made = c.execute(insert(round_).values(**values).returning(round_.c.id)).scalar_one()
        refs = [Ref(kind, i) for i in random.sample(self._ids, len(self._ids)) for kind in ("prepared", "dropped")]
        start.wait()
        order = RangeOrder(
            round=made, number=0, lease=lease, kind="race", cutoff=now + HOUR_MS, limit=0, upload_grace_seconds=600
        )
        token, _ = batches.open(order, 1)
        for n in range(0, len(refs), CHUNK):
            _rest(5)
            leases.renew(lease)
            candidates = [Candidate(ref) for ref in refs[n : n + CHUNK]]
            claims.claim(ClaimRequest(token, candidates, now + HOUR_MS))
        batches.close(token, RangeReceipt(last=Cursor()))

    def _take(self, start: threading.Barrier, ids: list[str], kind: str, act: Callable[[list[str]], None]) -> None:
        chosen = random.sample(ids, len(ids))
        start.wait()
        for n in range(0, len(chosen), 3):
            some = chosen[n : n + 3]
            _rest()
            try:
                act(some)
            except (contract.Collected, contract.Refused, contract.Busy, OperationalError):
                # Too late, or busy: rolled back, as an owner would see it.
                with self._lock:
                    self._refused += len(some)
            else:
                with self._lock:
                    self._won[kind].update(some)

    def _commit_some(self, ids: list[str]) -> None:
        with self._db.write() as c:
            self._commit(c, self._instance, ids)

    def _undrop_some(self, ids: list[str]) -> None:
        with self._db.write() as c:
            contract.undrop(c, self._instance, "dropped", ids)


def _rest(times: int = 1) -> None:
    """Let the others have a turn; SQLite's lock is not fair."""
    time.sleep(times * random.uniform(0, 0.004))


def _clean(db: Database, instance: str) -> None:
    """Remove every trace; a claimed mark leaves only through history, so that comes and goes too."""
    t = db.t
    given = {"i": instance}
    with db.write() as c:
        c.execute(
            text(
                f"INSERT INTO {t.mark_history.fullname} (instance, kind, id, objects, bytes, marked_at, claimed_at, "
                "gone_at, batch, round) SELECT instance, kind, id, 0, 0, marked_at, claimed_at, claimed_at, batch, 0 "
                f"FROM {t.mark.fullname} WHERE instance = :i AND state = 'CLAIMED'"
            ),
            given,
        )
        for table in (t.mark, t.mark_history, t.mark_file, t.batch):
            c.execute(text(f"DELETE FROM {table.fullname} WHERE instance = :i"), given)
        rounds = f"SELECT id FROM {t.round.fullname} WHERE instance = :i"
        c.execute(text(f"DELETE FROM {t.tally.fullname} WHERE round IN ({rounds})"), given)
        for table in (t.round, t.lease, t.instance_guard):
            c.execute(text(f"DELETE FROM {table.fullname} WHERE instance = :i"), given)
        c.execute(text(f"DELETE FROM {t.instance.fullname} WHERE id = :i"), given)
