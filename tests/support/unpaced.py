"""A pacer without a rate, for tests whose store has none."""

from collections.abc import Mapping, Sequence

from sexton.recycle.pacing.model import Answer
from sexton.recycle.pacing.pacer import SharedPacer
from sexton.recycle.pacing.policy import pause
from sexton.storage.model import PAGE_KEYS


class Unpaced(SharedPacer):
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
