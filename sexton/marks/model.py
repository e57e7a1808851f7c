"""Marks, the files they resolve to, the write token, and what a claim is asked and answers. Pure values."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from sexton.kernel.message import Message
from sexton.marks.keepers import Kept
from sexton.marks.lease import Lease
from sexton.storage.model import KeyOutcome

CHUNK_MARKS = 1_000
"""Marks claimed in one transaction: 66 ms on PostgreSQL, so nobody waits longer than about 100 ms (measured)."""
MAX_FAILURES = 8
"""Failed deletes after which a mark is quarantined."""
POISON_RETRY_SECONDS = 86_400
"""A mark quarantined for failed deletes is tried again after this long: its cause may have been mended."""
SEVERAL = "*"
"""The vault under which marks are counted that have files in several vaults, or in none."""
LATE = "(late)"
"""Batch kind under which swept prefixes are listed once more."""
DONE = (KeyOutcome.DELETED, KeyOutcome.ABSENT, KeyOutcome.HIDDEN)
"""Outcomes that confirm an object gone."""


class MarkState(StrEnum):
    """The life of a mark; when it ends, a row of history remains (docs/concepts.md)."""

    MARKED = "MARKED"
    """May be deleted after its retention; undrop brings it back."""
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


class DueMark(Message):
    """A mark whose retention has passed. It names its files by ``prefix`` or ``keys``, or its owner does.

    ``swept``: its files went in an earlier look, this is the second one.
    """

    kind: str
    id: str
    retention_starts_at: int
    vault: str | None
    prefix: str | None
    keys: tuple[str, ...] | None
    bytes: int
    swept: bool = False
    etags: tuple[str, ...] = ()
    """Of the objects that ``keys`` name, as they were found; empty: whatever is there under a key is meant."""

    @property
    def ref(self) -> Ref:
        """Return its name within the instance."""
        return Ref(self.kind, self.id)


class Place(Message):
    """Where files of a mark are: objects of one vault, by exact keys or all under a prefix."""

    vault: str
    prefix: str | None = None
    keys: tuple[str, ...] | None = None
    etags: tuple[str, ...] = ()


class Expansion(Message):
    """What a mark stands for, in its owner's words.

    ``fence``: the owner must be asked to let go of it first. ``absorbs``: its files include those of the marks that
    name it as parent, which are claimed with it. ``waits``: what must go before. ``lacking``: some of its files cannot
    be named now, so that its record stays when the others are gone. ``problem``: it cannot be turned into files.
    ``above``: what it belongs to by its owner's records, marked or not; a hold on one of these keeps it. ``versions``:
    the tablet of which it holds versions, and the highest of them; a copy of the tablet that may need them keeps it.
    """

    places: tuple[Place, ...] = ()
    fence: bool = False
    absorbs: bool = False
    waits: str = ""
    lacking: "Reason | None" = None
    problem: "tuple[Reason, str] | None" = None
    above: tuple[Ref, ...] = ()
    versions: tuple[str, int] | None = None


class Fenced(StrEnum):
    """What an owner answers to a fence."""

    FENCED = "fenced"
    """It will not commit this any more."""
    IN_USE = "in_use"
    """It is committed, or about to be: keep it."""
    UNKNOWN = "unknown"
    """The owner's own record of it cannot be read: keep it and show it."""


class File(NamedTuple):
    """One object a mark will delete. ``bytes`` is None where nobody has measured it."""

    kind: str
    id: str
    vault: str
    key: str
    bytes: int | None
    etag: str = ""


class FilePage(NamedTuple):
    """Stored files of one vault, at most 1,000, about to be deleted: ``seqs``, ``keys`` and ``etags`` go together."""

    vault: str
    seqs: Sequence[int]
    keys: Sequence[str]
    etags: Sequence[str] = ()


class WriteToken(Message):
    """Who writes: every write about a batch holds only for this lease epoch, this attempt, and the last to open it."""

    batch: int
    round: int
    lease: Lease
    attempt: int
    open_count: int = 0

    @property
    def instance(self) -> str:
        """Return the instance the lease is on."""
        return self.lease.instance


class Reason(StrEnum):
    """Why a mark is quarantined."""

    CHANGED = "CHANGED"
    """An object is not the one that was resolved (its ETag differs); the owner decides."""
    OWNER_CORRUPT = "OWNER_CORRUPT"
    """The owner's record of who writes it cannot be read."""
    SCHEMA_MISSING = "SCHEMA_MISSING"
    """The files that could be named are gone; some need a record that the owner lost."""
    UNKNOWN_VAULT = "UNKNOWN_VAULT"
    NO_VAULT = "NO_VAULT"
    UNEXPANDED = "UNEXPANDED"
    BAD_PREFIX = "BAD_PREFIX"
    BAD_KEY = "BAD_KEY"
    DELETE_FAILED = "DELETE_FAILED"


class Unresolvable(NamedTuple):
    """Why a mark, as it was seen, cannot be turned into files."""

    mark: DueMark
    reason: Reason
    detail: str


OWNERS_REASONS = (Reason.OWNER_CORRUPT, Reason.SCHEMA_MISSING)
"""Reasons that only the owner can remove; it is asked in each round whether it has."""

RESOLVED_AGAIN = (Reason.CHANGED, Reason.SCHEMA_MISSING)
"""Reasons for which a claimed mark's files are dropped when it is quarantined."""


class Candidate(NamedTuple):
    """A mark with its stored files, about to be claimed, or to be claimed together with its parent.

    ``files``: how many are stored. ``must_be_fenced``: its owner has to refuse later commits first. ``children``: marks
    that are claimed with it, None where it absorbs none. ``lacking``: why its record stays when its files are gone.
    ``ancestors``: what it belongs to by its owner's records. ``versions``: a tablet and the highest of its versions
    that is deleted. ``parent``: the candidate with which it is claimed, None where it is claimed by itself.
    """

    ref: Ref
    files: int = 0
    must_be_fenced: bool = False
    children: frozenset[Ref] | None = None
    lacking: Reason | None = None
    ancestors: frozenset[Ref] = frozenset()
    versions: tuple[str, int] | None = None
    parent: Ref | None = None


class ClaimRequest(NamedTuple):
    """At most ``CHUNK_MARKS`` marks whose files are stored in the token's batch.

    ``children``: candidates that are claimed with their parents. ``cutoff``: the plan's; a younger mark is not claimed.
    ``allowance``: objects that may be claimed within 24 hours under a limit; None: no limit. ``files_after``: a number
    that all stored files of the candidates are above, where it is known: they are found sooner.
    """

    token: WriteToken
    candidates: Sequence[Candidate]
    cutoff: int
    children: Mapping[Ref, Candidate] = MappingProxyType({})
    allowance: int | None = None
    files_after: int | None = None

    @property
    def instance(self) -> str:
        """Return the instance whose marks they are."""
        return self.token.instance

    @property
    def refs(self) -> list[Ref]:
        """Return the names of the candidates, without their children."""
        return [candidate.ref for candidate in self.candidates]


class ClaimResult(NamedTuple):
    """The marks that one claim took, and the ones that are kept, each with the answer why."""

    claimed: frozenset[Ref]
    kept: Mapping[Ref, Kept] = MappingProxyType({})


class DeletedSoFar(NamedTuple):
    """What of one kind went in a round so far: marks, and objects and bytes that are gone."""

    removed: int
    objects: int
    bytes: int


class DeletionCounts(NamedTuple):
    """A claimed mark and the sums over its files, as the decision after a sweep sees it."""

    prefix: str | None
    first_pass_at: int | None
    files: int
    done: int
    failed: int
    changed: int = 0
    lacking: str | None = None


class Settlement(StrEnum):
    """What becomes of a claimed mark after a sweep over its files."""

    GONE = "gone"
    SWEPT = "swept"
    LACKING = "lacking"
    """Its files are gone as far as they could be named; its record stays, set aside."""
    CHANGED = "changed"
    """One of its objects is another one by now; set aside."""
    FAILED = "failed"
    WAITING = "waiting"
