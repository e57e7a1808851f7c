"""What passes between a sweep, the pacer and the table the workers share. A *place* is what a store limits: endpoint,
bucket, the vault's prefix and the first folder of a key, written as one text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from sexton.kernel.message import Message
from sexton.marks.model import FilePage

TRIES = 8
"""How often files are tried that a store refuses while it takes others: over half a minute, as they wait in between."""


class Rate(NamedTuple):
    """Keys per second at a place over all workers, and the rate at which it last refused; 0: it never has."""

    keys: float
    ceiling: float = 0.0


class RequestWindow(NamedTuple):
    """What one worker has under way at a place: requests at once, and the most keys in one of them."""

    requests: float
    keys: float


class Answer(NamedTuple):
    """How one request ended. ``sent`` is on the clock that ``Pacer.ask`` is given; ``lost``: no answer came.

    ``refused``: keys the store asked patience for, by place; every other key of the request was dealt with.
    """

    sent: float
    seconds: float
    refused: Mapping[str, int] = MappingProxyType({})
    lost: bool = False
    retry_after: float | None = None


class Piece(NamedTuple):
    """Files that wait for their turn, with the place of each.

    ``refusals``: how often the store refused just these, last at ``refused_at``, and it was not for being busy.
    """

    page: FilePage
    places: Sequence[str]
    refusals: int = 0
    refused_at: float = float("-inf")

    @property
    def charge(self) -> Mapping[str, int]:
        """Return how many keys it has at each place."""
        return Counter(self.places)

    @property
    def hopeless(self) -> bool:
        """Tell whether the store has refused just these often enough."""
        return self.refusals >= TRIES

    def part(self, these: Sequence[int]) -> "Piece":
        """Return the files at these positions."""
        page = self.page
        etags = [page.etags[n] for n in these] if page.etags else ()
        page = FilePage(page.vault, [page.seqs[n] for n in these], [page.keys[n] for n in these], etags)
        return self._replace(page=page, places=[self.places[n] for n in these])

    def cut(self, keys: int) -> "tuple[Piece, Piece]":
        """Return the first so many files, and the rest."""
        return self._between(slice(keys)), self._between(slice(keys, None))

    def _between(self, at: slice) -> "Piece":
        page = FilePage(self.page.vault, self.page.seqs[at], self.page.keys[at], self.page.etags[at])
        return self._replace(page=page, places=self.places[at])

    def refused(self, these: Sequence[int], at: float, *, telling: bool) -> "Piece":
        """Return the files at these positions, which the store refused at an instant.

        ``telling``: it took others meanwhile, or failed at these alone; who gets somewhere is not hopeless.
        """
        some = len(these) < len(self.places)
        return self.part(these)._replace(refusals=1 if some else self.refusals + telling, refused_at=at)


class Shared(Message):
    """A place as all workers see it; instants in ms since 1970."""

    keys_per_second: int
    ceiling: int = 0
    throttled_at: int | None = None
    updated_at: int


class PaceReport(NamedTuple):
    """What one worker tells about a place since it last did.

    ``known`` is the row it started from, ``rate`` what became of it here, ``cut`` whether the store refused here.
    """

    place: str
    known: Shared | None
    rate: Rate
    cut: bool
    learns: bool = True
    """Whether the place has a rate of its own; one that has not is counted for the shares of a cap."""
    requests: int = 0
    throttled: int = 0
    keys: int = 0


class PaceUpdate(NamedTuple):
    """What a worker hears back: rows by place, workers seen at each, caps by (instance, vault)."""

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
    since: int = 0


class PlaceFigures(Message):
    """A place with everything counted there since it was first seen."""

    place: str
    keys_per_second: int
    ceiling: int
    throttled_at: int | None
    updated_at: int
    workers: int
    requests: int
    throttled: int
    keys: int
