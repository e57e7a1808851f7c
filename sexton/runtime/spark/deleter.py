"""Delete and compare on Spark, in the process that claims and settles: jobs run over a batch's stored files.

No key passes through this process: jobs get numbers of files, and return results of parts.
"""

from collections import deque
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

from pyspark.sql.connect.session import SparkSession

from sexton.marks.model import LeaseLost, WriteToken
from sexton.recycle.pipeline.active_lease import POLL_SECONDS, ActiveLease
from sexton.runtime.engine import Engine
from sexton.runtime.spark.compare import SparkComparison
from sexton.runtime.spark.deletion import DeleteOrder, ExecutorDeletion, PartResult, Work
from sexton.runtime.spark.session import Sessions, SparkFailed, interrupt, tagged
from sexton.storage.model import PAGE_KEYS

LEAST_FILES, JOB_FILES = 10_000, 100_000
"""Files of a job, at least and at most, while more are claimed. A core is idle for half a second between two tasks, so
jobs grow; files that are claimed while two jobs are under way form the next one."""
GROWS = 3
"""A job that is queued behind another has so many times the files of all jobs before."""
GROUP_FILES = 50_000
JOBS_AT_ONCE = 2
"""Jobs of one batch under way: when the first has fewer tasks left than there are cores, the next one uses them."""


class SparkDeleter:
    """Starts deletions that run on executors. Implements the port ``Deleter``."""

    leaves_requests = True

    def __init__(self, sessions: Sessions, work: Work, connections: int) -> None:
        """``connections``: to the database, of all executors of one deletion together; each task has one."""
        # A folder is a different one on each machine: then only this process writes the audit.
        audits = sessions.local or work.audit_url.startswith("s3://") or not work.audit_url
        self.sessions, self.work = sessions, work.model_copy(update={"audits": audits})
        self.tasks = min(max(1, connections // JOBS_AT_ONCE), sessions.cores or connections)

    def begin(self, token: WriteToken, active_lease: ActiveLease, after: int = 0) -> "SparkDeletion":
        return SparkDeletion(self, token, active_lease, after)


class _Job(NamedTuple):
    """A job over the files after one number, up to another, and its results."""

    after: int
    to: int
    results: Future[list[PartResult]]


class SparkDeletion:
    """One pass over the files of a batch that are not done. Implements the port ``Deletion``."""

    def __init__(self, deleter: SparkDeleter, token: WriteToken, active_lease: ActiveLease, after: int) -> None:
        self._deleter, self._token, self._active_lease = deleter, token, active_lease
        self._batch = f"recycle-{token.instance}-{token.batch}"
        self._tag = f"{self._batch}-{token.lease.epoch}-{token.attempt}-{token.open_count}"
        self._session: SparkSession | None = None
        self._resources = ExitStack()
        self._pool = ThreadPoolExecutor(JOBS_AT_ONCE, thread_name_prefix="spark")
        self._jobs: deque[_Job] = deque()
        self._claimed_to = self._sent_to = self._tried_to = after
        self._unlogged: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Interrupt jobs under way until they have ended: only then may the lease be released."""
        unfinished = [job.results for job in self._jobs if not job.results.cancel()]
        with self._resources:  # closed last, also after an error
            if self._session is not None:
                interrupt(self._session, self._tag, unfinished)
            self._pool.shutdown()

    def release_up_to(self, to: int) -> None:
        self._take_results()
        self._claimed_to = to
        self._send(min(JOB_FILES, max(LEAST_FILES, GROWS * self._sent_to)) if self._jobs else LEAST_FILES)

    def wait_for(self, to: int) -> None:
        while not self.has_tried(to):
            self._send(1)  # no more files are claimed meanwhile
            self._active_lease.keep_alive()
            wait([self._jobs[0].results], POLL_SECONDS)  # the other jobs' results are taken after this one's

    def has_tried(self, to: int) -> bool:
        self._take_results()
        return self._tried_to >= to

    def logged(self, after: int, to: int) -> bool:
        return not any(first < to and last > after for first, last in self._unlogged)

    def finish(self) -> None:
        self.wait_for(self._claimed_to)

    def _send(self, least: int) -> None:
        """Send claimed files that were not sent yet, if they are at least so many and a job may be started."""
        while self._claimed_to - self._sent_to >= least and len(self._jobs) < JOBS_AT_ONCE:
            to = min(self._claimed_to, self._sent_to + JOB_FILES)
            if self._session is None:
                session = self._deleter.sessions.of(self._batch, self._active_lease.keep_alive)
                self._session = self._resources.enter_context(session)
            files = to - self._sent_to
            # As many parts as tasks, of about the same size; fewer where a part would be smaller than a page.
            number = max(1, min(self._deleter.tasks, -(-files // PAGE_KEYS)))
            order = DeleteOrder(
                work=self._deleter.work,
                token=self._token,
                parts=tuple(pairwise(self._sent_to + files * n // number for n in range(number + 1))),
                excluded_vaults=self._active_lease.excluded_vaults,
                faults=self._active_lease.faults,
            )
            results = self._pool.submit(_run, self._session, {self._batch, self._tag}, order)
            self._jobs.append(_Job(self._sent_to, to, results))
            self._sent_to = to

    def _take_results(self) -> None:
        """Take the results of jobs that have ended, in the order of their files."""
        while self._jobs and self._jobs[0].results.done():
            job = self._jobs[0]
            for part in job.results.result():
                for vault, reason in part.faults.items():
                    # Executors cannot use the vault, though this process may.
                    detail = f"an executor cannot use it: {part.fault_details.get(vault, 'see the log of Spark')}"
                    self._active_lease.exclude_vault(vault, reason, detail)
                if part.stopped:
                    self._active_lease.renew_now()  # raises the precise error, where the lease is really lost
                    raise (LeaseLost if part.stopped == LeaseLost.__name__ else SparkFailed)(part.error)
                if not part.logged:
                    self._unlogged.append((job.after, job.to))
            self._jobs.popleft()
            self._tried_to = job.to


def _run(session: SparkSession, tags: Collection[str], order: DeleteOrder) -> list[PartResult]:
    """Run one job and return the results of its parts."""
    parts = session.range(0, len(order.parts), 1, len(order.parts))
    results = parts.mapInArrow(ExecutorDeletion(order), "result string")
    rows = tagged(session, tags, results.collect)
    return [PartResult.model_validate_json(row.result) for row in rows]


AT_ONCE = 2
"""Activities that one Spark worker runs at the same time, on the same executors."""


class SparkEngine:
    """Compares and deletes on Spark."""

    def __init__(self, engine: Engine, sessions: Sessions, work: Work, *, connections: int, scratch: str) -> None:
        """Build the comparison and the recycler; the engine claims, settles and stores findings in this process.

        ``work``: the settings that executors build their engines with. ``connections``: to the database, of all
        executors together. ``scratch``: a folder that every executor sees.
        """
        stores = engine.stores
        share = max(1, connections // AT_ONCE)
        self.compare = SparkComparison(
            sessions, work.where, stores.vaults, stores.live_side, stores.checks, scratch=scratch, connections=share
        )
        deleter = SparkDeleter(sessions, work, share)
        self.recycler = engine.recycler(deleter, group_files=GROUP_FILES)
