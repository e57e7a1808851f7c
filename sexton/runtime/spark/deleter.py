"""Deleting on Spark, seen from the process that claims and settles: jobs over the stored files of a batch.

Implements ``recycle.sweeps.Sweeps``. No key comes here: jobs are told numbers of files, and tell what became of parts.
"""

import time
from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

from pyspark.sql.connect.session import SparkSession

from sexton.marks.lease_port import LeaseLost
from sexton.marks.model import WriteToken
from sexton.recycle.pipeline.active_lease import POLL_SECONDS, PROOF_SECONDS, ActiveLease
from sexton.recycle.pipeline.port import Outcomes
from sexton.runtime.spark.deletion import DeleteOrder, ExecutorDeletion, PartTold, Work
from sexton.runtime.spark.locations import check_reachable
from sexton.runtime.spark.session import Sessions, SparkFailed, interrupt, tagged
from sexton.storage.model import PAGE_KEYS

LEAST_FILES, JOB_FILES = 10_000, 100_000
"""Files of a job, while more are claimed. Between two tasks a core sends nothing for half a second, so jobs grow; and
what is claimed while two are under way is another one."""
GROWS = 3
"""What is sent behind another job is so many times what was sent before."""
GROUP_FILES = 50_000
RANGE_OBJECTS = 250_000
JOBS_AT_ONCE = 2
"""Jobs of one batch under way: where the first has fewer tasks left than there are cores, the next one fills them."""


class SparkDeleter:
    """Begins sweeps that run on executors."""

    def __init__(self, sessions: Sessions, work: Work, outcomes: Outcomes, connections: int) -> None:
        """``connections``: to the database, of all executors of one sweep together; a task has one."""
        check_reachable(work.where.database_url, local=sessions.local)
        # A folder is another one on each machine: there, only this process tells the audit.
        audits = sessions.local or work.audit_url.startswith("s3://") or not work.audit_url
        self.sessions, self.work = sessions, work.model_copy(update={"audits": audits})
        self.outcomes = outcomes
        self.tasks = min(max(1, connections // JOBS_AT_ONCE), sessions.cores or connections)

    def begin(self, token: WriteToken, active_lease: ActiveLease) -> "SparkDeletion":
        return SparkDeletion(self, token, active_lease)


class _Job(NamedTuple):
    """A job over the files after one number, up to another."""

    after: int
    to: int
    told: Future[list[PartTold]]


class SparkDeletion:
    """One go through the undone files of a batch. Implements ``recycle.sweeps.Sweep``."""

    def __init__(self, sweeper: SparkDeleter, token: WriteToken, active_lease: ActiveLease) -> None:
        self._sweeper, self._token, self._active_lease = sweeper, token, active_lease
        self._batch = f"recycle-{token.instance}-{token.batch}"
        self._tag = f"{self._batch}-{token.lease.epoch}-{token.attempt}-{token.opens}"
        self._session: SparkSession | None = None
        self._open = ExitStack()
        self._pool = ThreadPoolExecutor(JOBS_AT_ONCE, thread_name_prefix="spark")
        self._jobs: deque[_Job] = deque()
        self._claimed_to = self._sent_to = self._tried_to = 0
        self._unaudited: list[tuple[int, int]] = []
        self._under_way, self._looked_at = 0, float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Interrupt what is under way until it is gone: no lease is given back before."""
        left = [job.told for job in self._jobs if not job.told.cancel()]
        with self._open:  # left at last, whatever happens
            if self._session is not None:
                interrupt(self._session, self._tag, left)
            self._pool.shutdown()

    def claimed(self, to: int) -> None:
        self._hear()
        self._claimed_to = to
        self._send(min(JOB_FILES, max(LEAST_FILES, GROWS * self._sent_to)) if self._jobs else LEAST_FILES)

    def wait_for(self, to: int) -> None:
        while not self.tried(to):
            self._send(1)  # nothing more is claimed meanwhile
            self._active_lease.keep_alive()
            self._look()
            wait([self._jobs[0].told], POLL_SECONDS)  # the others are taken in after it

    def tried(self, to: int) -> bool:
        self._hear()
        return self._tried_to >= to

    @property
    def tried_to(self) -> int:
        return self._tried_to + self._under_way

    def logged(self, after: int, to: int) -> bool:
        return not any(first < to and last > after for first, last in self._unaudited)

    def finish(self) -> None:
        self.wait_for(self._claimed_to)

    def _send(self, least: int) -> None:
        """Send what is claimed and was not sent yet, if it is so many files, and so few jobs are under way."""
        while self._claimed_to - self._sent_to >= least and len(self._jobs) < JOBS_AT_ONCE:
            self._send_one(min(self._claimed_to, self._sent_to + JOB_FILES))

    def _send_one(self, to: int) -> None:
        if self._session is None:
            self._session = self._open.enter_context(self._sweeper.sessions.of(self._batch))
        order = DeleteOrder(
            work=self._sweeper.work,
            token=self._token,
            parts=tuple(_parts(self._sent_to, to, self._sweeper.tasks)),
            excluded_vaults=self._active_lease.excluded_vaults,
            faults=self._active_lease.faults,
        )
        self._jobs.append(
            _Job(self._sent_to, to, self._pool.submit(_run, self._session, {self._batch, self._tag}, order))
        )
        self._sent_to = to

    def _look(self) -> None:
        """Look once in a while how far the jobs under way are, for people."""
        if (now := time.monotonic()) - self._looked_at >= PROOF_SECONDS:
            self._looked_at = now
            self._under_way = self._sweeper.outcomes.tried_between(self._token, self._tried_to, self._sent_to)

    def _hear(self) -> None:
        """Take in the jobs that have ended, in the order of their files."""
        while self._jobs and self._jobs[0].told.done():
            job = self._jobs[0]
            for part in job.told.result():
                for vault, reason in part.faults.items():
                    self._active_lease.exclude_vault(vault, reason)  # executors cannot use it, though this process may
                if part.stopped:
                    self._active_lease.renew_now()  # says it in its own words, where it still is so
                    raise (LeaseLost if part.stopped == LeaseLost.__name__ else SparkFailed)(part.error)
                if not part.logged:
                    self._unaudited.append((job.after, job.to))
            self._jobs.popleft()
            self._tried_to, self._under_way = job.to, 0


def _parts(after: int, to: int, tasks: int) -> Iterator[tuple[int, int]]:
    """Yield so many parts of about the same size, fewer where a part would be less than a page."""
    files = to - after
    number = max(1, min(tasks, -(-files // PAGE_KEYS)))
    yield from pairwise(after + files * n // number for n in range(number + 1))


def _run(session: SparkSession, tags: Collection[str], order: DeleteOrder) -> list[PartTold]:
    """Run one job and return what its parts tell."""
    parts = session.range(0, len(order.parts), 1, len(order.parts))
    told = parts.mapInArrow(ExecutorDeletion(order), "told string")
    rows = tagged(session, tags, told.collect)
    return [PartTold.model_validate_json(row.told) for row in rows]
