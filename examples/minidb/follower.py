"""A front end that follows the leader: it has its own copy of the records, and the journal tells which were deleted.

No follower purges anything. It forgets the records that the journal reports as deleted, so all front ends have the same
logs and know the same unhealthy copies, whichever of them leads next.
"""

from sexton.client import FollowerState, Sexton, TooOld


class Follower:
    """One follower of one database."""

    def __init__(self, name: str, db: str, client: Sexton, instance: str = "") -> None:
        """Start without records.

        Args:
            name: of the follower.
            db: the database's.
            client: with a token of scope ``operate@INSTANCE``: it reads records, and the journal in its own name.
            instance: the name of the database in Sexton.
        """
        self.state, self._db, self._client, self._instance = FollowerState(), db, client, instance
        self._following = client.follow(self.state, follower=name, instance=instance)
        self._last = 0

    def place(self, tablet: str, backend: str) -> None:
        """Record that a tablet has a copy on a backend, as the leader reports."""
        self.state.place(tablet, backend)

    def displace(self, tablet: str, backend: str) -> None:
        """Record that a tablet no longer has a copy on a backend, as the leader reports."""
        self.state.displace(tablet, backend)

    def catch_up(self) -> None:
        """Read new records, and then the journal to its end.

        In this order, a cut between the two is in the journal. In the other order the follower would keep deleted
        records until the next call.
        """
        self._records()
        self._following.catch_up()

    def logs(self) -> dict[str, list[int]]:
        """Return table (empty: the database) → the records in its log; as ``Leader.logs`` does."""
        return dict(self.state.logs().get(self._db, {}))

    def unwell(self) -> dict[tuple[str, str], tuple[bool, int]]:
        """Return the copies to be repaired; as ``Leader.unwell`` does."""
        return {key: (replica.bad, replica.failed) for key, replica in self.state.unhealthy().items()}

    def _records(self) -> None:
        while True:
            try:
                page = self._client.read_records(self._db, after=self._last, instance=self._instance)
            except TooOld as e:
                self._last = e.first - 1  # they were deleted while the follower was disconnected
                continue
            for record in page.records:
                self.state.record(self._db, record.commit_seq, record.tables)
                self._last = record.commit_seq
            if not page.records:
                return
