"""Delete and settle the marks that a batch has claimed, in this attempt or an earlier one."""

from collections import Counter
from collections.abc import Callable, Sequence

from sexton.marks.keepers import Kept
from sexton.marks.model import CHUNK_MARKS, Ref
from sexton.recycle.pipeline.active_lease import BatchWork
from sexton.recycle.pipeline.deleter import Deleter, Deletion
from sexton.recycle.pipeline.port import Stores
from sexton.recycle.pipeline.settle import Settler

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
        """Delete and settle every claimed mark of the batch; return why marks were not settled.

        ``follow`` is called with the deletion before it begins.
        """
        logged = self._delete(work, follow)
        keep_counts: Counter[Kept] = Counter()
        after = FIRST
        while refs := self._stores.batches.claimed_refs(work.token, after, CHUNK_MARKS):
            keep_counts += self._settler.settle(work, refs, upload_grace_seconds, logged=logged)
            after = refs[-1]
        return keep_counts

    def finish_marks(self, work: BatchWork, refs: Sequence[Ref], upload_grace_seconds: int) -> Counter[Kept]:
        """Delete the batch's undone files and settle these marks; return why marks were not settled."""
        logged = self._delete(work, _follow_nothing)
        return self._settler.settle(work, refs, upload_grace_seconds, logged=logged)

    def _delete(self, work: BatchWork, follow: Callable[[Deletion], None]) -> bool:
        """Try every undone file of claimed marks; return whether the deletion logged the outcomes itself."""
        last = self._stores.files.last_number(work.token)
        with self._deleter.begin(work.token, work.active_lease) as deletion:
            follow(deletion)
            deletion.release_up_to(last)
            deletion.finish()
            return deletion.logged(0, last)
