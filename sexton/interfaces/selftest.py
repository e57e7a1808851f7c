"""Race committers and undroppers against a claimer, on an owner's own database, and count forbidden outcomes.

The race uses an instance of its own, deletes no file, and leaves no rows behind.
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
from sexton.protection.model import ProtectionSettings
from sexton.recycle.pipeline.model import Cursor, RangeOrder, RangeReceipt
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.runtime.stores import keepers

HOUR_MS = 3_600_000
MAX_RACES = 3
"""A race that one side won alone is repeated, up to this number of races."""
CLAIM_MARKS = 20
"""Marks per claim; few, so that claims and commits meet often."""
COMMIT_MARKS = 3
"""Marks per commit or undrop."""
CLAIMER_PAUSES = 5
"""How many pauses of the others the claimer waits between two claims."""


class Race(Message):
    """The result of a race. ``committed_and_claimed``, ``undropped_and_claimed`` and ``lost`` must be 0."""

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
        """Return whether all sides met: a race that one side won alone proves nothing."""
        return min(self.committed, self.undropped, self.claimed) > 0

    @property
    def clean(self) -> bool:
        """Return whether no forbidden outcome occurred."""
        return self.committed_and_claimed + self.undropped_and_claimed + self.lost == 0


CommitPath = Callable[[Connection, str, list[str]], None]


def run(db: Database, *, marks: int = 2_000, threads: int = 4, commit: CommitPath = contract.commit) -> Race:
    """Create marks, then commit, undrop and claim them at the same time; return the result.

    The database needs the rights that ``sexton init`` needs. ``marks``: one half prepared (to be committed), the other
    dropped (to be undropped). ``threads``: number of committers, and of undroppers. ``commit``: what the owner does
    inside its metadata commit.
    """
    for _ in range(MAX_RACES):
        instance = f"race-{secrets.token_hex(4)}"
        Registry(db).add_instance(instance)
        Registry(db).enable(instance)
        try:
            race = _RaceRun(db, instance, marks // 2, threads, commit).run()
        finally:
            _delete_rows(db, instance)
        if race.proved or not race.clean:
            break
    return race


class _RaceRun:
    """One race. ``_won``: kind → ids that an owner took back before they were claimed."""

    def __init__(self, db: Database, instance: str, marks_per_kind: int, threads: int, commit: CommitPath) -> None:
        self._db, self._instance, self._threads, self._commit = db, instance, threads, commit
        self._ids = [f"{instance}-{n}" for n in range(marks_per_kind)]
        self._won: dict[str, set[str]] = {"prepared": set(), "dropped": set()}
        self._refused = 0
        self._lock = threading.Lock()

    def run(self) -> Race:
        prefixes = [f"race/{i}/" for i in self._ids]
        with self._db.write() as c:
            contract.prepare(c, self._instance, "race", self._ids, "none", prefixes, 1)
        with self._db.write() as c:
            new = (contract.NewMark(id=i, vault="none", prefix=f"race/{i}/") for i in self._ids)
            contract.mark(c, self._instance, "dropped", new)
        start = threading.Barrier(2 * self._threads + 1)
        with ThreadPoolExecutor(2 * self._threads + 1) as pool:
            jobs = [pool.submit(self._claim, start)]
            for n in range(self._threads):
                ids = self._ids[n :: self._threads]
                jobs += [pool.submit(self._take_back, start, ids, kind) for kind in self._won]
            for job in jobs:
                job.result()
        mark = self._db.t.mark
        with self._db.read() as c:
            rows = c.execute(
                select(mark.c.kind, mark.c.id, mark.c.state).where(mark.c.instance == self._instance)
            ).all()
        claimed_ids = {
            kind: {r.id for r in rows if r.kind == kind and r.state == MarkState.CLAIMED} for kind in self._won
        }
        both = {kind: len(self._won[kind] & claimed_ids[kind]) for kind in self._won}
        total = 2 * len(self._ids)
        claimed = sum(len(ids) for ids in claimed_ids.values())
        taken_back = sum(len(ids) for ids in self._won.values())
        still_marked = sum(1 for r in rows if r.state == MarkState.MARKED)
        return Race(
            marks=total,
            committed=len(self._won["prepared"]),
            undropped=len(self._won["dropped"]),
            refused=self._refused,
            claimed=claimed,
            committed_and_claimed=both["prepared"],
            undropped_and_claimed=both["dropped"],
            lost=total - taken_back - claimed - still_marked + sum(both.values()),
        )

    def _claim(self, start: threading.Barrier) -> None:
        batches = BatchStore(self._db)
        claims = ClaimStore(self._db, ControlStore(self._db), keepers(self._db, ProtectionSettings()))
        leases = LeaseStore(self._db)
        lease = leases.acquire(self._instance, "recycle", "race")
        with self._db.write() as c:
            now, table = self._db.now(c), self._db.t.round
            values = {"instance": self._instance, "run_id": self._instance, "state": "RUNNING", "started_at": now}
            round_id: int = c.execute(insert(table).values(**values).returning(table.c.id)).scalar_one()
        refs = [Ref(kind, i) for i in random.sample(self._ids, len(self._ids)) for kind in ("prepared", "dropped")]
        start.wait()
        order = RangeOrder(
            round=round_id, number=0, lease=lease, kind="race", cutoff=now + HOUR_MS, limit=0, upload_grace_seconds=600
        )
        token, *_ = batches.open(order, 1)
        for n in range(0, len(refs), CLAIM_MARKS):
            _pause(CLAIMER_PAUSES)
            leases.renew(lease)
            candidates = [Candidate(ref) for ref in refs[n : n + CLAIM_MARKS]]
            claims.claim(ClaimRequest(token, candidates, order.cutoff))
        batches.close(token, RangeReceipt(last=Cursor()))

    def _take_back(self, start: threading.Barrier, ids: list[str], kind: str) -> None:
        shuffled = random.sample(ids, len(ids))
        start.wait()
        for n in range(0, len(shuffled), COMMIT_MARKS):
            group = shuffled[n : n + COMMIT_MARKS]
            _pause()
            try:
                with self._db.write() as c:
                    if kind == "prepared":
                        self._commit(c, self._instance, group)
                    else:
                        contract.undrop(c, self._instance, kind, group)
            except (contract.Collected, contract.Refused, OperationalError):
                # Claimed before, or busy: the transaction is rolled back, as in the owner's own database.
                with self._lock:
                    self._refused += len(group)
            else:
                with self._lock:
                    self._won[kind].update(group)


def _pause(times: int = 1) -> None:
    """Give the other threads a chance."""
    time.sleep(times * random.uniform(0, 0.004))


def _delete_rows(db: Database, instance: str) -> None:
    """Delete all rows of the race."""
    t = db.t
    parameters = {"i": instance}
    with db.write() as c:
        for table in (t.mark, t.file_list, t.batch):
            c.execute(text(f"DELETE FROM {table.fullname} WHERE instance = :i"), parameters)
        rounds = f"SELECT id FROM {t.round.fullname} WHERE instance = :i"
        c.execute(text(f"DELETE FROM {t.tally.fullname} WHERE round IN ({rounds})"), parameters)
        for table in (t.round, t.lease, t.instance_guard):
            c.execute(text(f"DELETE FROM {table.fullname} WHERE instance = :i"), parameters)
        c.execute(text(f"DELETE FROM {t.instance.fullname} WHERE id = :i"), parameters)
