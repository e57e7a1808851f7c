"""Values that pass between a deletion, the pacer and the table that the workers share.

A *place* is the part of a store that has a rate limit of its own: endpoint, bucket, the vault's prefix and the first
folder of a key, written as one text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pydantic import Field

from sexton.kernel.message import Message
from sexton.marks.model import FilePage
from sexton.storage.model import ClaimId

TRIES = 8
"""How often files are tried that a store refuses while it accepts others; with the pauses, over half a minute."""


class Rate(NamedTuple):
    """Keys per second at a place over all workers; ``ceiling``: the rate at which the store last refused, 0: never."""

    keys: float
    ceiling: float = 0.0


class RequestWindow(NamedTuple):
    """Bounds of one worker at a place: requests under way at once, and keys in one of them."""

    requests: float
    keys: float


class Answer(NamedTuple):
    """How one request ended. ``sent`` is on the clock of ``Pacer.reserve``, in seconds; ``lost``: no answer came.

    ``refused``: place → keys that the store throttled; it dealt with every other key of the request.
    """

    sent: float
    seconds: float
    refused: Mapping[str, int] = MappingProxyType({})
    lost: bool = False
    retry_after: float | None = None


class Piece(NamedTuple):
    """Files that wait to be sent, with the place of each.

    ``claim``: one of their batch that is not older than theirs. ``refusals``: how often the store refused exactly these
    files without being busy; ``refused_at``: the last time.
    """

    page: FilePage
    places: Sequence[str]
    claim: ClaimId
    refusals: int = 0
    refused_at: float = float("-inf")

    @property
    def charge(self) -> Mapping[str, int]:
        """Return the number of its keys by place."""
        return Counter(self.places)

    @property
    def hopeless(self) -> bool:
        """Return whether the store has refused these files ``TRIES`` times."""
        return self.refusals >= TRIES

    def cut(self, keys: int) -> "tuple[Piece, Piece]":
        """Return the first ``keys`` files, and the rest."""
        positions = range(len(self.places))
        return self._at(positions[:keys]), self._at(positions[keys:])

    @property
    def halves(self) -> "tuple[Piece, Piece]":
        """Return its first and its second half; their refusals are counted from here."""
        return self._replace(refusals=0).cut(len(self.places) // 2)

    def refused(self, positions: Sequence[int], at: float, *, telling: bool) -> "Piece":
        """Return the files at some positions of this piece, which the store refused at an instant, in seconds.

        ``telling``: whether the store accepted others meanwhile, or failed at these alone: only then the refusal
        counts. Files of a piece from which some were accepted start to count again.
        """
        progress = len(positions) < len(self.places)
        return self._at(positions)._replace(refusals=1 if progress else self.refusals + telling, refused_at=at)

    def _at(self, positions: Sequence[int]) -> "Piece":
        return self._replace(page=self.page.at(positions), places=[self.places[n] for n in positions])


class Shared(Message):
    """A place as all workers see it; instants in ms since 1970."""

    keys_per_second: int
    ceiling: int = 0
    throttled_at: int | None = None
    updated_at: int


class PaceReport(NamedTuple):
    """One worker's report about a place, since its last report.

    ``known``: the row that its rate began from; ``rate``: its rate now; ``cut``: whether the store throttled it.
    """

    place: str
    known: Shared | None
    rate: Rate
    cut: bool
    learns: bool = True
    """Whether the place has a learned rate; one without it is only counted for the shares of a cap."""
    requests: int = 0
    throttled: int = 0
    keys: int = 0


class PaceUpdate(NamedTuple):
    """The reply to a worker's reports: rows and worker counts by place, caps by (instance, vault)."""

    shared: Mapping[str, Shared]
    workers: Mapping[str, int]
    caps: Mapping[tuple[str, str], int]


class Cap(Message):
    """An operator's upper bound for one vault, over all workers."""

    instance: str
    vault: str
    keys_per_second: int
    reason: str = ""
    set_by: str = ""
    since: int = Field(0, alias="since_at")


class PlaceFigures(Message):
    """A place with its counts since it was first seen. ``vault``: ``INSTANCE/VAULT``; empty: it is not known."""

    vault: str = ""
    place: str
    keys_per_second: int
    ceiling: int
    throttled_at: int | None
    updated_at: int
    workers: int
    requests: int
    throttled: int
    keys: int
