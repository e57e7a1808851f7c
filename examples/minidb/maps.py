"""Which regions share which topic: what minidb's meta service knows, and all of it that it tells Sexton.

There is one such service, whatever the number of nodes: a map says which regions a topic has, *all* of them, so nobody
may send one who knows only some.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from examples.minidb.logs import Log, end
from examples.minidb.manifests import write
from sexton.client import DroppedRegion, MappedRegion, RegionMap, Sexton

Where = tuple[str, int]
"""``("here", the topic's end before its first append)``, ``("moved", 0)`` or ``("dropped", when that is final)``.

The last in seconds since 1970.
"""


class Maps:
    """The maps of all topics, in one file. What Sexton did not take is not in it: ask for it again."""

    def __init__(self, client: Sexton, log: Log, file: Path) -> None:
        """Read what is there; nothing is sent.

        Args:
            client: with a token of scope ``operate``.
            log: where the topics are.
            file: in which they are kept; its directory is there.
        """
        self._client, self._log, self._file = client, log, file
        self._changing = threading.Lock()
        told: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {"generation": 0, "topics": {}}
        self._generation: int = told["generation"]
        self._topics: dict[str, dict[str, Where]] = told["topics"]

    def of(self, region: str) -> dict[str, str]:
        """Return the topics of a region: ``here``, ``moved`` or ``dropped``."""
        with self._changing:
            return {topic: its[region][0] for topic, its in self._topics.items() if region in its}

    def begin(self, region: str, topic: str) -> None:
        """Map a region to a topic. It may append there when this has returned, and not before.

        From this moment on Sexton keeps what is there. Of a region that is in no map it would keep nothing.
        """
        with self._change(topic) as its:
            its[region] = ("here", end(self._log, topic))

    def leave(self, region: str, topic: str) -> None:
        """Say that a region appends elsewhere now: its last append here was answered. It keeps what is not flushed."""
        with self._change(topic) as its:
            its[region] = ("moved", 0)

    def forget(self, region: str, topic: str) -> None:
        """Name a region no more that Sexton has let go."""
        with self._change(topic) as its:
            its.pop(region, None)

    def drop(self, region: str, undrop_seconds: int) -> None:
        """Say that a region is dropped, wherever it has entries; for so long it keeps them."""
        for topic in self.of(region):
            with self._change(topic) as its:
                its[region] = ("dropped", int(time.time()) + undrop_seconds)

    def refresh(self) -> None:
        """Send all maps again: by an old one Sexton purges nothing. A service does so by the hour."""
        for topic in list(self._topics):
            with self._change(topic):
                pass

    @contextmanager
    def _change(self, topic: str) -> Iterator[dict[str, Where]]:
        """Change the map of a topic, one at a time: the newest has the highest number."""
        with self._changing:
            its = dict(self._topics.get(topic, {}))
            yield its
            self._generation += 1
            self._keep()  # before it is sent: a number that was sent never comes again with another map
            self._client.map_regions(topic, _map(self._generation, its))
            self._topics[topic] = its
            self._keep()

    def _keep(self) -> None:
        write(self._file, json.dumps({"generation": self._generation, "topics": self._topics}))


def _map(generation: int, its: dict[str, Where]) -> RegionMap:
    of = {state: [(name, n) for name, (at, n) in its.items() if at == state] for state in ("here", "moved", "dropped")}
    now = int(time.time())
    return RegionMap(
        generation=generation,
        regions=tuple(MappedRegion(region=name, first=first) for name, first in of["here"]),
        moved=tuple(name for name, _ in of["moved"]),
        dropped=tuple(DroppedRegion(region=name, undrop_seconds=max(0, until - now)) for name, until in of["dropped"]),
    )
