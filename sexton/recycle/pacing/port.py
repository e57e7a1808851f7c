"""The ports of the pacer and of the table that pacers share, and a pacer without a rate."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sexton.recycle.pacing.model import Answer, PaceReport, PaceUpdate
from sexton.recycle.pacing.policy import pause
from sexton.storage.model import PAGE_KEYS


class Pacer(Protocol):
    """Decides when a request may be sent and how large it is. Safe to share between threads; ``now`` in seconds."""

    def places(self, instance: str, vault: str, keys: Sequence[str]) -> Sequence[str]:
        """Return the place of each key; raises ``UnknownVault``."""
        ...

    def page_keys(self, place: str, /) -> int:
        """Return how many keys a request whose first key is at this place may carry now."""
        ...

    def reserve(self, charge: Mapping[str, int], now: float) -> float:
        """Return 0 where a request may be sent now; it then counts as under way until ``report_result``.

        Otherwise return the seconds after which to ask again, never 0.

        Args:
            charge: place → keys of the request; all places are of one vault.
            now: in seconds.
        """
        ...

    def report_result(self, charge: Mapping[str, int], answer: Answer | None) -> None:
        """Record how a request ended; None: it was never sent."""
        ...


class Shares(Protocol):
    """The table of places that all workers share."""

    def exchange(self, worker: str, reports: Sequence[PaceReport]) -> PaceUpdate | None:
        """Store one worker's reports and return what all workers know; None when the table cannot be reached now."""
        ...


class Unpaced:
    """A pacer without a rate: only after a refusal the place waits, longer each time."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[int, float]] = {}

    def places(self, instance: str, vault: str, keys: Sequence[str]) -> Sequence[str]:
        return [f"{instance}/{vault}"] * len(keys)

    def page_keys(self, _place: str, /) -> int:
        return PAGE_KEYS

    def reserve(self, charge: Mapping[str, int], now: float) -> float:
        return max(0.0, *(self._refused.get(place, (0, now))[1] - now for place in charge))

    def report_result(self, charge: Mapping[str, int], answer: Answer | None) -> None:
        if answer is not None:
            for place in charge:
                self._record(place, answer)

    def _record(self, place: str, answer: Answer) -> None:
        streak, paused_until = self._refused.get(place, (0, float("-inf")))
        if answer.sent < paused_until:  # it was under way at the refusal: the same congestion
            return
        if answer.lost or answer.refused:
            wait = pause(streak + 1, 1, answer.retry_after)
            self._refused[place] = (streak + 1, answer.sent + answer.seconds + wait)
        else:
            self._refused.pop(place, None)
