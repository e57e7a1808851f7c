"""A front end that follows the leader: its own copy of the records, and what of them is gone it hears from the journal.

No follower purges anything. It forgets what the journal says is gone, so all front ends have the same logs, and know
the same copies to be unwell, whoever of them leads next.
"""

from sexton.client import FollowerState, Sexton, TooOld


class Follower:
    """One follower of one database."""

    def __init__(self, name: str, db: str, client: Sexton, instance: str | None = None) -> None:
        """It has nothing yet.

        Args:
            name: of the follower.
            db: the database's.
            client: with a token of scope ``operate``: it reads records, and the journal in its own name.
            instance: as which Sexton knows the database.
        """
        self.state, self._db, self._client, self._instance = FollowerState(), db, client, instance
        self._following = client.follow(self.state, follower=name, instance=instance)
        self._last = 0

    def place(self, tablet: str, backend: str) -> None:
        """Hear of the leader that a tablet has a copy there."""
        self.state.place(tablet, backend)

    def displace(self, tablet: str, backend: str) -> None:
        """Hear of the leader that it has none there any more."""
        self.state.displace(tablet, backend)

    def catch_up(self) -> None:
        """Take what there is: records, and then the journal until its end.

        In this order: what is cut between the two is in the journal. The other way round records would be left that
        are in no log any more, until the next time.
        """
        self._records()
        self._following.catch_up()

    def logs(self) -> dict[str, list[int]]:
        """Return table (empty: the database) → the records in its log; as ``Leader.logs`` does."""
        return dict(self.state.logs().get(self._db, {}))

    def unwell(self) -> dict[tuple[str, str], tuple[bool, int]]:
        """Return the copies to be repaired; as ``Leader.unwell`` does."""
        return {key: (its.bad, its.failed) for key, its in self.state.unwell().items()}

    def _records(self) -> None:
        while True:
            try:
                page = self._client.read_records(self._db, after=self._last, instance=self._instance)
            except TooOld as e:
                self._last = e.first - 1  # it was away while those went: nobody has them
                continue
            for record in page.records:
                self.state.record(self._db, record.commit_seq, record.tables)
                self._last = record.commit_seq
            if not page.records:
                return
