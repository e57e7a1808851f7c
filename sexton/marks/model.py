"""Marks, the exact files they resolve to, and the hand that may write about them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from sexton.lease.model import Lease
from sexton.message import Message
from sexton.storage.model import Outcome

CHUNK_MARKS = 1_000
"""Marks claimed in one transaction: 66 ms on PostgreSQL, so nobody waits longer than about 100 ms (measured)."""
MAX_FAILURES = 8
"""Failed deletes after which a mark is quarantined."""
POISON_RETRY_SECONDS = 86_400
"""A mark quarantined for failed deletes is tried again after this long: its cause may have been mended."""
DONE = (Outcome.DELETED, Outcome.ABSENT, Outcome.HIDDEN)
"""Outcomes that confirm an object gone."""


class Ref(NamedTuple):
    """A mark within its instance."""

    kind: str
    id: str


class DueMark(Message):
    """A mark whose retention has passed. Exactly one of ``prefix`` and ``keys`` names its files, or it is kept."""

    kind: str
    id: str
    ages_from: int
    vault: str | None
    prefix: str | None
    keys: tuple[str, ...] | None
    bytes: int

    @property
    def ref(self) -> Ref:
        """Return its name within the instance."""
        return Ref(self.kind, self.id)


class File(NamedTuple):
    """One object a mark will delete. ``bytes`` is None where nobody has measured it."""

    kind: str
    id: str
    vault: str
    key: str
    bytes: int | None
    etag: str = ""


class Page(NamedTuple):
    """Stored files of one vault, at most 1,000, about to be deleted: ``seqs`` and ``keys`` go in pairs."""

    vault: str
    seqs: Sequence[int]
    keys: Sequence[str]


class Hand(Message):
    """Who writes: every write about a batch holds only for this lease epoch, this attempt, and the last to open it."""

    batch: int
    round: int
    lease: Lease
    attempt: int
    opens: int = 0

    @property
    def instance(self) -> str:
        """Return the instance the lease is on."""
        return self.lease.instance


class Reason(StrEnum):
    """Why a mark is quarantined."""

    UNKNOWN_VAULT = "UNKNOWN_VAULT"
    NO_VAULT = "NO_VAULT"
    UNEXPANDED = "UNEXPANDED"
    BAD_PREFIX = "BAD_PREFIX"
    BAD_KEY = "BAD_KEY"
    DELETE_FAILED = "DELETE_FAILED"


class Problem(NamedTuple):
    """Why a mark, as it was seen, cannot be turned into files."""

    mark: DueMark
    reason: Reason
    detail: str


class Claimed(NamedTuple):
    """What one chunk's claim did: claimed marks, those it left because their owner's transaction holds them (``busy``),
    and those that somebody keeps (``held``: by whom)."""

    marks: frozenset[Ref]
    busy: frozenset[Ref]
    held: Mapping[Ref, str] = MappingProxyType({})


class Done(NamedTuple):
    """What of one kind went in a round so far: marks, and objects and bytes that are gone."""

    removed: int
    objects: int
    bytes: int


class Standing(NamedTuple):
    """A claimed mark and the sums over its files, as the decision after a sweep sees it."""

    prefix: str | None
    swept_at: int | None
    files: int
    done: int
    failed: int


class Verdict(StrEnum):
    """What becomes of a claimed mark after a sweep over its files."""

    GONE = "gone"
    SWEPT = "swept"
    FAILED = "failed"
    WAITING = "waiting"
