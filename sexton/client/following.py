"""Apply the journal to a follower's state, entry by entry; begin again with a snapshot if entries are deleted."""

from sexton.client.errors import JournalAhead, TooOld
from sexton.client.methods import journal, snapshot
from sexton.client.sending import SyncSender
from sexton.replication.journal.replaying import FollowerState


class Following:
    """The result of ``client.follow``: call ``step`` repeatedly, from one thread at a time.

    A stored state continues after its ``applied``. Applying an entry twice does no harm.
    """

    def __init__(self, client: SyncSender, replica: FollowerState, follower: str, instance: str = "") -> None:
        self._client, self._follower, self._instance = client, follower, instance
        self.replica = replica
        self.restarts = 0
        """How often a snapshot replaced the state: entries were deleted, or the journal is another one."""

    def step(self, wait: float = 0) -> bool:
        """Apply the next entries, at most 100; return whether there were any, or a snapshot was applied.

        Args:
            wait: how many seconds, up to 30, the API waits for an entry if there is none yet.

        Raises:
            RequestRefused, Unreachable: as ``client.journal``. No entry was applied; the next step requests them again.
        """
        try:
            page = self._client.send(journal(self.replica.applied, wait, self._follower, self._instance))
        except (TooOld, JournalAhead):
            self.replica.load_snapshot(self._client.send(snapshot(self._follower, self._instance)))
            self.restarts += 1
            return True
        for entry in page.entries:
            self.replica.apply(entry)
        return bool(page.entries)

    def catch_up(self) -> None:
        """Step until there are no more entries."""
        while self.step():
            pass
