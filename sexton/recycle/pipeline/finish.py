"""Delete and settle the marks that a batch has claimed, in this attempt or an earlier one."""

import logging
from collections import Counter
from collections.abc import Callable

from sexton.marks.keepers import Kept
from sexton.marks.model import CHUNK_MARKS, ClaimedMark, Ref
from sexton.recycle.pipeline.active_lease import BatchWork
from sexton.recycle.pipeline.deleter import Deleter, Deletion
from sexton.recycle.pipeline.model import Chunk
from sexton.recycle.pipeline.settle import Settler
from sexton.recycle.pipeline.sql.store import Stores
from sexton.storage.model import IN_FLIGHT_SECONDS

log = logging.getLogger(__name__)
FIRST = Ref("", "")


def _follow_nothing(_deletion: Deletion) -> None:
    """Ignore the deletion's progress."""


class Finisher:
    """Finishes batches for one worker."""

    def __init__(self, stores: Stores, settler: Settler, deleter: Deleter) -> None:
        self._stores = stores
        self._settler = settler
        self._deleter = deleter

    def finish(
        self,
        work: BatchWork,
        upload_grace_seconds: int,
        follow: Callable[[Deletion], None] = _follow_nothing,
    ) -> Counter[Kept]:
        """Clean up after an older attempt, then delete and settle every claimed mark of the batch.

        Args:
            work: the token and the lease.
            upload_grace_seconds: the wait before a second pass.
            follow: called with the deletion before it begins.

        Returns:
            why marks were not settled.
        """
        self.drop_unclaimed(work)
        logged = self._delete(work, follow, 0, self._stores.files.last_number(work.token))
        keep_counts: Counter[Kept] = Counter()
        after = ClaimedMark(0, FIRST)
        while marks := self._stores.due_marks.claimed_marks(work.token, after, CHUNK_MARKS):
            keep_counts += self._settler.settle(work, [mark.ref for mark in marks], upload_grace_seconds, logged=logged)
            after = marks[-1]
        return keep_counts

    def drop_unclaimed(self, work: BatchWork) -> None:
        """Drop the files that an older attempt left in the batch and never claimed, a few thousand at a time.

        An older attempt's request may still delete files of a second pass. Their rows tell registrations and operators
        so; they are dropped when that request has ended.
        """
        if self._drop_pages(work, second_pass=False):
            log.info(
                "batch %d: waits %.0f s, because requests of an older attempt may still delete files",
                work.token.batch,
                IN_FLIGHT_SECONDS,
            )
            work.active_lease.wait(IN_FLIGHT_SECONDS)
            self._drop_pages(work, second_pass=True)

    def _drop_pages(self, work: BatchWork, *, second_pass: bool) -> int:
        """Drop page by page; return how many undone files of second passes were kept."""
        after = unchecked = 0
        while True:
            work.active_lease.keep_alive()
            page = self._stores.files.drop_unclaimed(work.token, after, second_pass=second_pass)
            if page is None:
                return unchecked
            after = page.last
            unchecked += page.unchecked

    def finish_chunk(self, work: BatchWork, chunk: Chunk, upload_grace_seconds: int) -> Counter[Kept]:
        """Delete the files of a chunk of second passes, and settle its marks; return why marks were not settled.

        What could not be deleted is dropped: the next round lists it again and asks the keepers again.
        """
        logged = self._delete(work, _follow_nothing, chunk.files_after, chunk.last_file)
        keep_counts = self._settler.settle(work, chunk.refs, upload_grace_seconds, logged=logged)
        self._stores.files.drop(work.token, chunk.refs, chunk.files_after)
        return keep_counts

    def _delete(self, work: BatchWork, follow: Callable[[Deletion], None], after: int, last: int) -> bool:
        """Try the undone files of claimed marks numbered above ``after``, up to ``last``.

        Returns:
            whether the deletion logged the outcomes itself.
        """
        with self._deleter.begin(work.token, work.active_lease, after) as deletion:
            follow(deletion)
            deletion.release_up_to(last)
            deletion.finish()
            if self._deleter.leaves_requests:
                self._stores.batches.record_requests(work.token)  # before the marks are removed
            return deletion.logged(after, last)
