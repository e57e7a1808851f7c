"""What an owner answers: a database or lake whose garbage Sexton deletes.

Marks are always rows of ``mark``. An owner in Sexton's database may insert them itself, in its own transactions
(``sql``); then they name their own files, and its commit is the fence. Any other owner is asked.

An owner is a subclass of ``Owner``. It implements what it has: every method has a default that knows nothing. A method
may be called again with the same arguments, from several threads; each may raise ``OwnerSilent``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sexton.kernel.errors import BadInput, Conflict, NotFound, SextonError
from sexton.marks.live import LiveEntry, LivePage, Part
from sexton.marks.model import Cutoff, DueMark, Expansion, Fenced, Ref
from sexton.marks.policy import as_named

Heartbeat = Callable[[], None]
"""Called between long statements; raises when the work should stop."""
Verify = Callable[[Any], None]
"""Called with the connection of each transaction that writes; raises if the caller's lease is not valid any more."""
FindRefs = Callable[[Any], Collection[Ref]]
"""Called with the connection of a transaction, in which the marks that it returns stay; raises as ``Verify`` does."""
COUNT_SECONDS = 30
"""Longest statement that counts live objects in an owner's database: below the heartbeat timeout."""


def nothing_to_verify(connection: Any) -> None:
    """Accept any transaction: the caller has no lease, because it is an operator's command."""


class RecordMissing(NotFound):
    """An operation names a record that the owner does not have."""


class RecordConflict(Conflict):
    """An operation does not fit the state of the owner's records; nothing was changed."""


class OwnerSilent(SextonError):
    """The owner could not answer what is live or in use; every mark of the call is kept."""


class NotAsked(OwnerSilent):
    """The instance has no vault yet. An owner that is asked now could learn that none of its files is in a vault."""


class NoLiveSide(SextonError):
    """No source names the live objects, so no object can be called lost or an orphan."""


class LiveParts(NamedTuple):
    """The parts of an owner's live side, and as of when it is true: ms since 1970; None: when it is read."""

    parts: Sequence[Part]
    as_of: int | None = None


class RecordText(NamedTuple):
    """What an owner says about one of its records, in words: that it is wrong, or what it belongs to."""

    kind: str
    id: str
    text: str


class Owner:
    """One owner, for all instances that name it. Only ``vaults_changed`` is called for an instance without a vault.

    An owner whose own transactions insert its marks needs neither ``mark_due`` nor ``abort_expired``. Without a live
    side a check finds neither a loss nor an orphan. No decision follows from ``contradictions`` and what is below it.
    """

    def vaults_changed(self, instance: str) -> None:
        """Forget what was stored about an instance with fewer vaults than it has now; a vault was added.

        It is called in the process that added the vault, and not again if that process died. So an owner that stores
        where its files are compares the vaults of the instance at each question, too.
        """

    def refresh(self, instance: str, heartbeat: Heartbeat) -> None:
        """Bring a copy of the owner's records up to date; an owner that is asked for its records itself needs none.

        It is called before ``mark_due``, before and after the listing of a check, and once marks are fenced: what
        ``fence``, ``live`` and the live side answer then must be at least as new.
        """

    def mark_due(
        self, instance: str, cutoffs: Mapping[str, Cutoff], heartbeat: Heartbeat, verify: Verify = nothing_to_verify
    ) -> None:
        """Mark new garbage, for example the children of parents that are due.

        It changes nothing else, so that a plan may call it as well, also of an instance that only observes.

        ``cutoffs``: kind → which of its marks are due; ``is_due`` of ``sexton.marks.sql.rows`` is the condition.
        ``verify``: see ``Verify``; a round of older cutoffs must not mark what a newer one keeps.
        """

    def marked_children(self, instance: str) -> Mapping[str, Collection[str]]:
        """Return kind → kinds of its parents, for those that ``mark_due`` marks; they are due when it is."""
        return {}

    def abort_expired(self, instance: str, heartbeat: Heartbeat) -> None:
        """Abort transactions that ran out of time: their files become garbage. Called by rounds that may delete."""

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        """Return the files of the marks, and whether they must be fenced, as all are by default.

        An owner whose own commit fails once a mark is claimed opts out with ``fence=False``; so does one for marks that
        nothing can commit any longer. A mark that is left out names its own files, and is fenced.

        In a second pass answer a prefix, not names: stores answer that they deleted what is absent, and a pass that
        deletes asks for another.
        """
        return {mark.ref: as_named(mark) for mark in marks}

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, str]:
        """Return the marks that name, cover or touch anything live; for the first of them, the live rows as a text."""
        return {}

    def live_objects(self, instance: str) -> int | None:
        """Return how many objects are live now, None where that is unknown or cannot be counted quickly."""
        return None

    def resolvable(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        """Return which marks, quarantined for one of ``OWNERS_REASONS``, the owner can resolve again."""
        return ()

    def fence(
        self, instance: str, batch: int, marks: Sequence[DueMark], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Make sure that none of these marks, which are FENCED, is committed later; return mark → answer and reason.

        The owner aborts the transactions that write them, and then reads the states of these transactions. A mark that
        is not in the result is kept: without this method nothing is deleted that must be fenced.

        Marks of kind ``orphan`` are a check's: each names an object that no record named. From FENCED on the owner
        refuses every commit that names the object.
        """
        return {}

    def keeps_records(self, instance: str) -> bool:
        """Return whether the owner has records of its own, which ``forget`` removes."""
        return False

    def forget(self, instance: str, find_refs: FindRefs) -> None:
        """Remove the owner's own records of marks whose files are confirmed deleted; the marks are removed next.

        ``find_refs`` returns these marks. It is called inside the transaction that removes the records.
        """

    def live_as_of(self, instance: str) -> int | None:
        """Return as of when the live side is true, ms since 1970; None: when it is read.

        Raises:
            NoLiveSide: it shows no live files, so a listing would be useless.
            OwnerSilent: it is a copy that is too old, or that does not say how old it is.
        """
        raise NoLiveSide(f"the owner of {instance} does not show which objects are live")

    def live_parts(self, instance: str, moment: str, connection: Any, rows: int) -> LiveParts:
        """Return parts of about so many rows each.

        ``moment``: a snapshot that other connections may share; ``connection`` holds it open.
        """
        return LiveParts(())

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[LivePage]:
        """Yield the entries of a part, in pages."""
        return iter(())

    def live_entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return the entries of these records (``KIND/ID``) now: the second look at a suspected loss."""
        return ()

    def contradictions(self, instance: str) -> Iterator[RecordText]:
        """Yield the records that contradict each other, once for each contradiction."""
        return iter(())

    def record_ids(self, instance: str, kind: str, after: str, until: str) -> Iterator[str]:
        """Yield the ids of a kind's live records beyond ``after`` and up to ``until`` (empty: all), each once.

        They are compared with the memory of a front end; their order is that of their bytes.

        Raises:
            BadInput: the owner has no records of this kind.
        """
        raise BadInput(f"the owner of {instance} shows no records to compare")

    def refs_of_keys(self, instance: str, keys: Collection[str]) -> Collection[Ref]:
        """Return the marks that delete the files with these keys, where the text of a key shows them."""
        return ()

    def live_texts(self, instance: str, keys: Collection[str]) -> Iterator[str]:
        """Yield what is live under these keys, in words."""
        return iter(())

    def records_with(self, instance: str, ids: Collection[str]) -> Iterator[RecordText]:
        """Yield the records with one of these ids."""
        return iter(())
