"""Keep a follower's state up with the journal: entry by entry, and anew where entries are gone."""

from typing import TYPE_CHECKING

from sexton.client.errors import JournalAhead, TooOld
from sexton.replication.journal.replaying import FollowerState

if TYPE_CHECKING:
    from sexton.client.binlogs import BinlogMethods


class Following:
    """What ``client.follow`` returns: call ``step`` again and again. One thread at a time.

    A replica that its owner keeps, with ``applied`` in it, goes on from there; applying an entry twice does no harm.
    """

    def __init__(
        self, client: "BinlogMethods", replica: FollowerState, follower: str, instance: str | None = None
    ) -> None:
        self._client, self._follower, self._instance = client, follower, instance
        self.replica = replica
        self.anew = 0
        """How often it began anew: because entries were gone, or the journal is another one than was followed."""

    def step(self, wait: float = 0) -> bool:
        """Apply the next entries, a hundred at most; tell whether there was anything to do.

        Args:
            wait: for how many seconds, up to 30, where there is nothing yet.

        Raises:
            Refused, Unreachable: as of ``client.journal``; nothing was applied, and the next step asks again.
        """
        try:
            page = self._client.journal(self.replica.applied, wait, self._follower, self._instance)
        except (TooOld, JournalAhead):
            self.replica.begin(self._client.snapshot(self._follower, self._instance))
            self.anew += 1
            return True
        for entry in page.entries:
            self.replica.apply(entry)
        return bool(page.entries)

    def catch_up(self) -> None:
        """Step until there is nothing more."""
        while self.step():
            pass
