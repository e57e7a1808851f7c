"""A block in which a region reads what it needs of its topic: pinned, renewed in the background, and failing closed.

Whoever reads gets every entry from the pinned start to the topic's end as it was when the block was entered, in order,
or an error; never a part that looks like the whole.
"""

import logging
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sexton.client import calls
from sexton.client.errors import ReplayLost
from sexton.client.renewing import Renewals
from sexton.kernel.errors import SextonError
from sexton.protocol.bodies import Replay
from sexton.wal.model import Facts, Pin

if TYPE_CHECKING:
    from sexton.client.sync import Sexton

log = logging.getLogger(__name__)


class TopicEntry(NamedTuple):
    """An entry of a topic."""

    id: int
    key: bytes | None
    value: bytes | None


class TopicSource(Protocol):
    """Reads a topic: Kafka (``sexton.client.kafka.KafkaSource``), or what stands for it."""

    def facts(self) -> Facts:
        """Return which topic it is, and where it begins and ends now."""
        ...

    def read(self, start: int, end: int) -> Iterator[TopicEntry]:
        """Yield the entries from ``start`` on and below ``end``. Raises ``ReplayLost`` where it cannot."""
        ...

    def close(self) -> None:
        """Close its connections."""
        ...


class Replaying:
    """What ``client.replay`` returns: enter it, iterate over it, and open the region when the block has ended well."""

    def __init__(self, client: "Sexton", topic: str, source: TopicSource, wanted: Replay) -> None:
        self._client, self._topic, self._source, self._wanted = client, topic, source, wanted
        self._over = threading.Event()
        self._lost: ReplayLost | None = None
        self._renewals = Renewals(1, float("-inf"))
        self._read_to: int | None = None
        self._id = ""
        self.pin: Pin
        """What is kept; ``pin.start`` is the first entry that is read."""
        self.end: int
        """The topic's end when the block was entered: the region has no entry there or behind."""

    def check(self) -> None:
        """Raise ``ReplayLost`` if what is still to be read may be gone."""
        if self._lost is not None:
            raise self._lost
        if why := self._renewals.lost(time.monotonic()):
            raise self._error(why)

    def __enter__(self) -> "Replaying":
        began = time.monotonic()
        try:
            self.pin = self._client.send(calls.open_replay(self._topic, self._wanted))
        except BaseException:
            self._source.close()
            raise
        self._renewals = Renewals(self.pin.lasts_ms / 1000, began)
        try:
            self.end = self._bounds()
        except BaseException:
            self._source.close()
            self._release()
            raise
        threading.Thread(target=self._renew, name=f"replays {self._wanted.region}", daemon=True).start()
        return self

    def __iter__(self) -> Iterator[TopicEntry]:
        """Yield every entry, other regions' too. Raises ``ReplayLost`` as soon as one is missing."""
        due = self.pin.start
        for entry in self._source.read(self.pin.start, self.end):
            self.check()
            if entry.id != due:
                raise self._error(f"entry {due} is missing: {entry.id} came instead")
            due += 1
            yield entry
        self.check()
        if due != self.end:
            raise self._error(f"it ended before entry {due}, and {self.end - 1} was there")
        if self._bounds() < self.end:  # the id too: what was read may be another topic's
            raise self._error(f"entry {self.end - 1} was there, and is no more")
        self._read_to = due

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._source.close()
        if error is None:
            self.check()
            if self._read_to is None and self.pin.start < self.end:
                self._release()
                raise self._error("the block ended before all of it was read")
        self._release()

    def _bounds(self) -> int:
        """Return the end, of a topic that is the one that was pinned and has what was pinned."""
        facts, pin = self._source.facts(), self.pin
        known = self._id or pin.kafka_id
        if known and facts.id != known:
            raise self._error(f"topic {self._topic} is another one than was known: {facts.id}, not {known}")
        self._id = facts.id
        if facts.partitions != 1:
            raise self._error(f"topic {self._topic} has {facts.partitions} partitions")
        if facts.start > pin.start:
            raise self._error(f"entries {pin.start}..{facts.start - 1} of topic {self._topic} are gone")
        if facts.end < max(pin.start, pin.log_end):
            lacks = max(pin.start, pin.log_end) - 1
            raise self._error(f"topic {self._topic} ends at {facts.end}, and entry {lacks} was there")
        return facts.end

    def _renew(self) -> None:
        renewals, call = self._renewals, calls.renew_replay(self._topic, self.pin.id)
        while self._lost is None and not self._over.wait(renewals.wait(time.monotonic())):
            began, error = time.monotonic(), None
            try:
                pin = self._client.send(call, 0, renewals.timeout(began))
                renewals.ttl_seconds = pin.lasts_ms / 1000
            except SextonError as e:
                error = e
                log.warning("the replay of region %s was not renewed: %s", self._wanted.region, e)
            except Exception as e:
                error = SextonError(f"{type(e).__name__}: {e}")
                log.exception("the replay of region %s was not renewed", self._wanted.region)
            if why := renewals.told(began, error) or renewals.lost(time.monotonic()):
                self._lost = self._error(why)

    def _release(self) -> None:
        """Let go of the pin; where nobody answers it ends by itself."""
        try:
            self._client.send(calls.release_replay(self._topic, self.pin.id), 0)
        except SextonError as e:
            log.warning("the replay of region %s was not released, and ends by itself: %s", self._wanted.region, e)

    def _error(self, why: str) -> ReplayLost:
        return ReplayLost(f"the replay of region {self._wanted.region} is lost: {why}; open it again")
