"""A block in which a region reads the entries that it needs of its topic: pinned, and renewed in the background.

The reader gets every entry from the pinned start to the topic's end as of entering the block, in order, or an error;
never an incomplete sequence without an error.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple, Protocol

from sexton.client.api_call import ReplayLost, request
from sexton.client.protecting import Renewals
from sexton.client.sending import SyncSender
from sexton.kernel.errors import SextonError
from sexton.wal.model import Facts, Pin
from sexton.wal.policy import Replay

log = logging.getLogger(__name__)


class TopicEntry(NamedTuple):
    """An entry of a topic."""

    id: int
    key: bytes | None
    value: bytes | None


class TopicSource(Protocol):
    """Reads a topic: of Kafka (``sexton.client.kafka.KafkaSource``), or of a substitute."""

    def facts(self) -> Facts:
        """Return the topic's id and partitions, and where it begins and ends now."""

    def read(self, start: int, end: int) -> Iterator[TopicEntry]:
        """Yield the entries from ``start`` to below ``end``. Raise ``ReplayLost`` if that is impossible."""

    def close(self) -> None:
        """Close the connections."""


class Replaying:
    """The result of ``client.replay``: enter it, iterate over it, and open the region after the block ended well."""

    def __init__(self, client: SyncSender, topic: str, source: TopicSource, request: Replay) -> None:
        self._client, self._topic, self._source, self._request = client, topic, source, request
        self._over = threading.Event()
        self._lost: ReplayLost | None = None
        self._renewals = Renewals(1, float("-inf"))
        self._read_to: int | None = None
        self._topic_id = ""
        self.pin: Pin
        """Protects the entries from deletion; ``pin.start`` is the first entry that is read."""
        self.end: int
        """The topic's end when the block was entered: the region has no entry at or behind it."""

    def check(self) -> None:
        """Raise ``ReplayLost`` if entries that are still to be read may be deleted."""
        if self._lost is not None:
            raise self._lost
        if reason := self._renewals.reason_lost(time.monotonic()):
            raise self._error(reason)

    def __enter__(self) -> "Replaying":
        began = time.monotonic()
        with ExitStack() as undo:
            undo.callback(self._source.close)
            self.pin = self._client.send(request("open_replay", topic=self._topic, replay=self._request))
            undo.callback(self._release)
            self._renewals = Renewals(self.pin.lasts_ms / 1000, began)
            self.end = self._verified_end()
            undo.pop_all()
        threading.Thread(target=self._renew, name=f"replays {self._request.region}", daemon=True).start()
        return self

    def __iter__(self) -> Iterator[TopicEntry]:
        """Yield every entry, other regions' too. Raise ``ReplayLost`` as soon as one is missing."""
        next_id = self.pin.start
        for entry in self._source.read(self.pin.start, self.end):
            self.check()
            if entry.id != next_id:
                raise self._error(f"entry {next_id} is missing: {entry.id} came instead")
            next_id += 1
            yield entry
        self.check()
        if next_id != self.end:
            raise self._error(f"it ended before entry {next_id}, and {self.end - 1} was there")
        if self._verified_end() < self.end:  # it compares the id too: the entries may be another topic's
            raise self._error(f"entry {self.end - 1} was there, and is no more")
        self._read_to = next_id

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._over.set()
        self._source.close()
        if error is None:
            self.check()
            if self._read_to is None and self.pin.start < self.end:
                self._release()
                raise self._error("the block ended before all of it was read")
        self._release()

    def _verified_end(self) -> int:
        """Return the topic's end, after a check that it is the pinned topic and still has the pinned entries."""
        facts, pin = self._source.facts(), self.pin
        expected_id = self._topic_id or pin.kafka_id
        if expected_id and facts.id != expected_id:
            raise self._error(f"topic {self._topic} was replaced: its id is {facts.id}, not {expected_id}")
        self._topic_id = facts.id
        if facts.partitions != 1:
            raise self._error(f"topic {self._topic} has {facts.partitions} partitions")
        if facts.start > pin.start:
            raise self._error(f"entries {pin.start}..{facts.start - 1} of topic {self._topic} are gone")
        expected_end = max(pin.start, pin.log_end)
        if facts.end < expected_end:
            raise self._error(f"topic {self._topic} ends at {facts.end}, and entry {expected_end - 1} was there")
        return facts.end

    def _renew(self) -> None:
        renewals, call = self._renewals, request("renew_replay", topic=self._topic, replay=self.pin.id)
        while self._lost is None and not self._over.wait(renewals.wait(time.monotonic())):
            with renewals.attempt(f"the replay of region {self._request.region}") as began:
                renewals.ttl_seconds = self._client.send(call, 0, renewals.timeout(began)).lasts_ms / 1000
            if reason := renewals.reason_lost(time.monotonic()):
                self._lost = self._error(reason)

    def _release(self) -> None:
        """Delete the pin. If the API does not answer, the pin expires by itself."""
        try:
            self._client.send(request("release_replay", topic=self._topic, replay=self.pin.id), 0)
        except SextonError as e:
            log.warning("the replay of region %s was not released; its pin expires: %s", self._request.region, e)

    def _error(self, reason: str) -> ReplayLost:
        return ReplayLost(f"the replay of region {self._request.region} is lost: {reason}; open it again")
