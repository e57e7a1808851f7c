"""The port of the pacer as a sweep sees it, the one of the table the pacers share, and a pacer that only waits."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sexton.recycle.pacing.model import Answer, PaceReport, PaceUpdate
from sexton.recycle.pacing.policy import pause
from sexton.storage.model import PAGE_KEYS


class Pacer(Protocol):
    """Says when a request may be sent and how large it may be. Safe to share between threads; ``now`` in seconds."""

    def places(self, instance: str, vault: str, keys: Sequence[str]) -> Sequence[str]:
        """Return the place of each key; raises ``UnknownVault``."""
        ...

    def page_keys(self, place: str, /) -> int:
        """Return how many keys a request that begins at this place may carry now."""
        ...

    def ask(self, charge: Mapping[str, int], now: float) -> float:
        """Return 0 where a request with so many keys by place may be sent: it is then under way until it is told of.

        Else the seconds after which to ask again; never 0. All places are of one vault.
        """
        ...

    def told(self, charge: Mapping[str, int], answer: Answer | None) -> None:
        """Hear how a request ended; None: it was never sent."""
        ...


class Shares(Protocol):
    """What all workers know of the places."""

    def exchange(self, worker: str, told: Sequence[PaceReport]) -> PaceUpdate | None:
        """Tell and hear; None when that was not possible now, which is no reason to stop."""
        ...


class Unpaced:
    """Paces nothing; only what a store refuses waits, longer each time."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[int, float]] = {}

    def places(self, instance: str, vault: str, keys: Sequence[str]) -> Sequence[str]:
        return [f"{instance}/{vault}"] * len(keys)

    def page_keys(self, _place: str, /) -> int:
        return PAGE_KEYS

    def ask(self, charge: Mapping[str, int], now: float) -> float:
        return max(0.0, *(self._refused.get(place, (0, now))[1] - now for place in charge))

    def told(self, charge: Mapping[str, int], answer: Answer | None) -> None:
        if answer is not None:
            for place in charge:
                self._hear(place, answer)

    def _hear(self, place: str, answer: Answer) -> None:
        streak, until = self._refused.get(place, (0, float("-inf")))
        if answer.sent < until:  # under way at the refusal: it belongs to it
            return
        if answer.lost or answer.refused:
            wait = pause(streak + 1, 1, answer.retry_after)
            self._refused[place] = (streak + 1, answer.sent + answer.seconds + wait)
        else:
            self._refused.pop(place, None)
