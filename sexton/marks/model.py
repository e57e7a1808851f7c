"""Define marks, their files, leases, the write token, and the request and result of a claim. Pure values."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, NewType

from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.marks.kept import Kept
from sexton.storage.model import KeyOutcome

CHUNK_MARKS = 1_000
"""Marks claimed in one transaction: 66 ms on PostgreSQL, so others wait at most about 100 ms (measured)."""
MAX_FAILURES = 8
"""Failed deletes after which a mark is quarantined."""
POISON_RETRY_SECONDS = 86_400
"""A mark quarantined for failed deletes is tried again after this long: its cause may have been fixed."""
SEVERAL = "*"
"""The vault under which marks are counted whose files are in several vaults, or in none."""
SECOND_PASS = "(late)"
"""Kind of the batch in which prefixes get their second pass."""
NO_LAST_FILE = 2**62
"""The number of the last file of a mark whose files are anywhere in its batch."""
DONE = (KeyOutcome.DELETED, KeyOutcome.ABSENT, KeyOutcome.HIDDEN)
"""Outcomes that confirm that an object is gone."""

Cutoff = NewType("Cutoff", int)
"""Which marks of a kind are due: those whose ``retention_starts_at`` is not after this (ms since 1970).

It is compared only in ``marks/policy.py``, and in SQL by ``is_due`` of ``marks/sql/rows.py``.
"""
NOTHING_DUE = Cutoff(0)
"""By this cutoff no mark is due: the retention of every one started after 1970."""


class MarkState(StrEnum):
    """The life of a mark; when it ends, a row of history remains (docs/concepts.md)."""

    MARKED = "MARKED"
    """It may be deleted after its retention; undrop is possible."""
    FENCED = "FENCED"
    """Its owner refuses a later commit of it, until a claim or the next round."""
    CLAIMED = "CLAIMED"
    """Its files are being deleted; irrevocable."""


class InstanceMode(StrEnum):
    """Whether rounds of an instance delete."""

    OBSERVE = "observe"
    """Rounds plan and report only; the mode of a new instance."""
    ENABLED = "enabled"
    """Rounds delete."""


class BatchState(StrEnum):
    """Whether a batch is still worked on."""

    OPEN = "OPEN"
    DONE = "DONE"


class Ref(NamedTuple):
    """The name of a mark within its instance."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.id}"


class DueMark(NamedTuple):
    """A mark whose retention has passed. It names its files by ``prefix`` or ``keys``, or its owner does.

    ``in_second_pass``: the first pass over its prefix deleted all files.
    """

    kind: str
    id: str
    retention_starts_at: int
    vault: str | None
    prefix: str | None
    keys: tuple[str, ...] | None
    bytes: int
    in_second_pass: bool = False
    etags: tuple[str, ...] = ()
    """ETags of the objects that ``keys`` name, as a check saw them; empty: any object under a key is meant."""
    written: tuple[str, ...] = ()
    """When these were last written (``ListedObject.written``), as the check saw it."""

    @property
    def ref(self) -> Ref:
        """Return its name within the instance."""
        return Ref(self.kind, self.id)


class Place(NamedTuple):
    """Where files of a mark are: objects of one vault, by exact keys or all under a prefix."""

    vault: str
    prefix: str | None = None
    keys: tuple[str, ...] | None = None
    etags: tuple[str, ...] = ()


class Expansion(NamedTuple):
    """What a mark stands for, by its owner's answer.

    ``fence``: the owner must be asked to fence it first; False only where its own commit fails once the mark is
    claimed, or where nothing can commit it any longer. ``absorbs``: its files include those of the marks that name it
    as parent, which are claimed with it. ``waits``: what must be deleted before it. ``lacking``: some of its files
    cannot be named now, so its record stays when the others are gone. ``problem``: it cannot be resolved to files.
    ``above``: its ancestors by its owner's records, marked or not; a hold on one of them blocks its deletion.
    ``versions``: a tablet and the highest of its versions in the mark; replicas that may need them block its deletion.
    """

    places: tuple[Place, ...] = ()
    fence: bool = True
    absorbs: bool = False
    waits: str = ""
    lacking: "Reason | None" = None
    problem: "tuple[Reason, str] | None" = None
    above: tuple[Ref, ...] = ()
    versions: tuple[str, int] | None = None


class Fenced(StrEnum):
    """What an owner answers to a fence."""

    FENCED = "fenced"  # the owner will not commit it
    IN_USE = "in_use"  # it is committed, or about to be: it is kept
    UNKNOWN = "unknown"  # the owner's own record of it cannot be read: it is kept and reported
    NOT_GARBAGE = "not_garbage"  # the owner has taken it back: its mark is removed


class File(NamedTuple):
    """An object that a mark will delete.

    ``bytes``: as listed, None if no listing was needed. ``stated``: its share of the bytes that the owner states.
    ``written``: of an orphan: when the object that is meant was last written; empty: any object with its ETag is meant.
    """

    kind: str
    id: str
    vault: str
    key: str
    bytes: int | None
    etag: str = ""
    stated: int | None = None
    written: str = ""


class FilePage(NamedTuple):
    """Stored files of one vault, at most 1,000, about to be deleted; ``seqs`` and the other columns correspond.

    ``etags``, ``written``: of the objects that are meant, as in ``File``; empty where no file has one.
    """

    vault: str
    seqs: Sequence[int]
    keys: Sequence[str]
    etags: Sequence[str] = ()
    written: Sequence[str] = ()

    def at(self, positions: Iterable[int]) -> "FilePage":
        """Return the files at some positions of the page."""
        picked = list(positions)
        etags, written = ([column[n] for n in picked] if column else () for column in (self.etags, self.written))
        return FilePage(self.vault, [self.seqs[n] for n in picked], [self.keys[n] for n in picked], etags, written)


class LeaseState(StrEnum):
    """The state of a lease's row."""

    IDLE = "IDLE"
    BUSY = "BUSY"


class Lease(Message):
    """The right of one run to work on an instance alone; every acquisition raises ``epoch``."""

    instance: str
    job: str
    owner: str
    epoch: int


class LeaseBusy(SextonError):
    """Another run has the lease of this instance; it will release it, or the lease will expire."""

    passes = True


class NoFreeSlot(SextonError):
    """``recycle_concurrency`` instances are being worked on; a slot becomes free when one of them ends."""

    passes = True


class LeaseLost(SextonError):
    """The lease has expired or belongs to a newer epoch; stop before the next claim, page or removal."""


class WriteToken(Message):
    """The fencing token of a batch: writes need the latest lease epoch, attempt and opening (``open_count``)."""

    batch: int
    round: int
    lease: Lease
    attempt: int
    open_count: int = 0

    @property
    def instance(self) -> str:
        """Return the instance of the lease."""
        return self.lease.instance


class Reason(StrEnum):
    """Why a mark is quarantined."""

    CHANGED = "CHANGED"
    """An object is not the one that was meant, or a load was committed below the mark's prefix; the owner decides."""
    OWNER_CORRUPT = "OWNER_CORRUPT"
    """The owner's record of its writer cannot be read."""
    SCHEMA_MISSING = "SCHEMA_MISSING"
    """The files that could be named are gone; naming the others needs a record that the owner lost."""
    UNKNOWN_VAULT = "UNKNOWN_VAULT"
    NO_VAULT = "NO_VAULT"
    UNEXPANDED = "UNEXPANDED"
    BAD_PREFIX = "BAD_PREFIX"
    BAD_KEY = "BAD_KEY"
    DELETE_FAILED = "DELETE_FAILED"
    FILES_UNREADABLE = "FILES_UNREADABLE"
    """The stored list of its files is damaged: nothing is deleted until the list is restored or the mark discarded."""


class Unresolvable(NamedTuple):
    """A mark as a round read it, and why it cannot be resolved to files."""

    mark: DueMark
    reason: Reason
    detail: str


OWNERS_REASONS = (Reason.OWNER_CORRUPT, Reason.SCHEMA_MISSING)
"""Reasons that only the owner can remove; each round asks it whether it has."""
RESOLVED_AGAIN = (Reason.CHANGED, Reason.SCHEMA_MISSING)
"""Reasons for which a claimed mark's files are dropped when it is quarantined."""


class Candidate(NamedTuple):
    """A mark with its stored files, about to be claimed, or to be claimed together with its parent.

    ``files``: how many are stored. ``must_be_fenced``: its owner has to refuse later commits first. ``children``: marks
    that are claimed with it, None if it absorbs none. ``lacking``: why its record stays when its files are gone.
    ``ancestors``: its ancestors by its owner's records. ``versions``: a tablet and the highest of its versions
    that is deleted. ``parent``: the candidate with which it is claimed, None if it is claimed on its own.
    ``retention_starts_at``: of the mark whose files were resolved, in ms since 1970; a later mark of its id has others.
    ``places``: where its files are.
    """

    ref: Ref
    files: int = 0
    must_be_fenced: bool = False
    children: frozenset[Ref] | None = None
    lacking: Reason | None = None
    ancestors: frozenset[Ref] = frozenset()
    versions: tuple[str, int] | None = None
    parent: Ref | None = None
    retention_starts_at: int | None = None
    places: Sequence[Place] = ()


class Span(NamedTuple):
    """Numbers of files of one batch: above ``after``, up to ``to``."""

    batch: int
    after: int = 0
    to: int = NO_LAST_FILE


class ClaimRequest(NamedTuple):
    """At most ``CHUNK_MARKS`` marks whose files are stored in the token's batch.

    ``cutoff``: the plan's; a younger mark is not claimed. ``resolved``: the marks that were resolved, by name: at least
    the children that are claimed with their parents, and perhaps the parents too. ``allowance``: objects that may be
    claimed within 24 hours under a limit; None: no limit. ``files_after``, ``last_file``: all stored files of the
    candidates have numbers above the first, up to the second.
    """

    token: WriteToken
    candidates: Sequence[Candidate]
    cutoff: Cutoff
    resolved: Mapping[Ref, Candidate] = MappingProxyType({})
    allowance: int | None = None
    files_after: int = 0
    last_file: int = NO_LAST_FILE

    @property
    def instance(self) -> str:
        """Return the instance of the marks."""
        return self.token.instance

    @property
    def refs(self) -> list[Ref]:
        """Return the names of the candidates, without their children."""
        return [candidate.ref for candidate in self.candidates]

    @property
    def files(self) -> Span:
        """Return where the stored files of the candidates are."""
        return Span(self.token.batch, self.files_after, self.last_file)


class ClaimResult(NamedTuple):
    """The marks that were claimed, and the marks that are kept, each with the reason."""

    claimed: frozenset[Ref]
    keep_reasons: Mapping[Ref, Kept] = MappingProxyType({})


class Settlement(StrEnum):
    """How a claimed mark is settled after a pass over its files."""

    GONE = "gone"
    SECOND_PASS = "swept"
    """The first pass deleted all files under its prefix; the second pass is due after the upload grace."""
    LACKING = "lacking"
    """The files that could be named are gone; its record stays, quarantined."""
    CHANGED = "changed"
    """One of its objects was replaced by another; it is quarantined."""
    FAILED = "failed"
    WAITING = "waiting"
