"""Places for large bodies: they bound the memory, and senders share them.

A body has its place from its first byte until its request is answered. A body that arrives too slowly is ended. So is
one of several bodies of a sender if a sender without a place waits: the one that has been arriving for the longest.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sexton.interfaces.api.errors import BodyTooLarge, SlowBody, TooManyRequests

FREE_SECONDS = 5.0
"""After this time a body must have arrived at the minimum rate."""
MIN_BYTES_PER_SECOND = 32 << 10
TOO_SLOW = (
    f"the body arrived too slowly: one of more than 64 KiB needs {MIN_BYTES_PER_SECOND >> 10} KiB/s; send less at once"
)
TAKEN_BACK = "other senders wait for a place for a large body, and this one has several; send the request again"


class BodyPlace:
    """The place of one body."""

    def __init__(self, sender: str) -> None:
        self.sender, self.granted, self.began = sender, asyncio.Event(), 0.0
        self._deadline: asyncio.Timeout | None = None
        self._is_taken_back = False

    @property
    def can_be_taken_back(self) -> bool:
        """Whether the body is arriving. One that has arrived costs the server a short time only."""
        return self._deadline is not None and not self._deadline.expired() and not self._is_taken_back

    def take_back(self) -> None:
        """End the body."""
        assert self._deadline is not None
        self._is_taken_back = True
        self._deadline.reschedule(asyncio.get_running_loop().time())

    async def receive(self, pieces: AsyncIterator[bytes], limit: int) -> bytes:
        """Return the body.

        Raises:
            BodyTooLarge: it has more than ``limit`` bytes.
            SlowBody: it arrives too slowly.
            TooManyRequests: the place was taken back.
        """
        self.began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(FREE_SECONDS) as self._deadline:
                return await receive(pieces, limit, self._extend)
        except TimeoutError:
            raise TooManyRequests(TAKEN_BACK) if self._is_taken_back else SlowBody(TOO_SLOW) from None
        finally:
            self._deadline = None

    def _extend(self, received: int) -> None:
        if self._deadline is not None and not self._is_taken_back:
            self._deadline.reschedule(self.began + FREE_SECONDS + received / MIN_BYTES_PER_SECOND)


class LargeBodies:
    """The places. The waiting sender with the fewest places is next."""

    def __init__(self, places: int, per_token: int) -> None:
        self._places, self._per_token = places, per_token
        self._taken: list[BodyPlace] = []
        self._waiting: list[BodyPlace] = []

    @asynccontextmanager
    async def place(self, sender: str) -> AsyncIterator[BodyPlace]:
        """Wait for a place and hold it. Raise ``TooManyRequests`` if the sender has its share already."""
        if sum(each.sender == sender for each in (*self._taken, *self._waiting)) >= self._per_token:
            raise TooManyRequests(f"{self._per_token} large bodies of this token are under way; wait for an answer")
        place = BodyPlace(sender)
        self._waiting.append(place)
        try:
            self._grant()
            if place in self._waiting:
                self._take_one_back_for(sender)
            await place.granted.wait()
            yield place
        finally:
            (self._waiting if place in self._waiting else self._taken).remove(place)
            self._grant()

    def _grant(self) -> None:
        while self._waiting and len(self._taken) < self._places:
            place = min(self._waiting, key=lambda each: self._number(each.sender))
            self._waiting.remove(place)
            self._taken.append(place)
            place.granted.set()

    def _take_one_back_for(self, sender: str) -> None:
        """End a body of the sender with the most places, if that makes the shares more equal."""
        arriving = [each for each in self._taken if each.can_be_taken_back]
        longest = max(arriving, key=lambda each: (self._number(each.sender), -each.began), default=None)
        if longest is not None and self._number(longest.sender) > self._number(sender) + 1:
            longest.take_back()

    def _number(self, sender: str) -> int:
        return sum(each.sender == sender for each in self._taken)


async def receive(pieces: AsyncIterator[bytes], limit: int, arrived: Callable[[int], None] = lambda _: None) -> bytes:
    """Return a body; ``arrived`` is called with the number of bytes so far. Raise ``BodyTooLarge`` above ``limit``."""
    body, size = list[bytes](), 0
    async for piece in pieces:
        size += len(piece)
        if size > limit:
            raise BodyTooLarge(limit)
        arrived(size)
        body.append(piece)
    return b"".join(body)
