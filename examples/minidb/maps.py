"""Keep which regions share which topic, and send it to Sexton: the part of minidb's meta service that matters here.

There is one such service, whatever the number of nodes: a map lists *all* regions of a topic, so a process that knows
only some of them must not send one.
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
from sexton.client import RegionDrop, RegionMap, RegionMapping, RegionMove, Sexton

Where = tuple[str, int, str]
"""``("here", the topic's end before the region's first append, node)``, ``("moved", 0, node)`` or
``("dropped", final_at, "")``.

``node`` leads the region. ``final_at``: when the drop can no longer be undone, in seconds since 1970.
"""


class Maps:
    """The maps of all topics, in one file. A change that Sexton did not accept is not in it: repeat the change."""

    def __init__(self, client: Sexton, log: Log, file: Path) -> None:
        """Read the file; nothing is sent.

        Args:
            client: with a token of scope ``owner@INSTANCE``.
            log: where the topics are.
            file: in which the maps are stored; its directory exists.
        """
        self._client, self._log, self._file = client, log, file
        self._changing = threading.Lock()
        stored: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {"generation": 0, "topics": {}}
        self._generation: int = stored["generation"]
        self._topics: dict[str, dict[str, Where]] = stored["topics"]

    def of(self, region: str) -> dict[str, str]:
        """Return the topics of a region: ``here``, ``moved`` or ``dropped``."""
        with self._changing:
            return {topic: regions[region][0] for topic, regions in self._topics.items() if region in regions}

    def begin(self, region: str, topic: str, node: str) -> None:
        """Map a region to a topic. It may append there when this has returned, and not before.

        From this moment on Sexton retains the region's entries. It retains nothing for a region that is in no map.
        """
        with self._change(topic) as regions:
            regions[region] = ("here", end(self._log, topic), node)

    def lead(self, region: str, node: str) -> None:
        """Map a region to the node that leads it, in all its topics: Sexton believes no other node about it.

        A real meta service decides which node that is, and grants it an epoch.
        """
        for topic in self.of(region):
            state, number, leader = self._topics[topic][region]
            if leader != node and state != "dropped":
                with self._change(topic) as regions:
                    regions[region] = (state, number, node)

    def leave(self, region: str, topic: str, node: str) -> None:
        """Map a region as moved: its last append here was answered. Its unflushed entries are still retained."""
        with self._change(topic) as regions:
            regions[region] = ("moved", 0, node)

    def forget(self, region: str, topic: str) -> None:
        """Remove a region from the map after Sexton has released it."""
        with self._change(topic) as regions:
            regions.pop(region, None)

    def drop(self, region: str, undrop_seconds: int) -> None:
        """Map a region as dropped in all its topics; its entries are retained while the drop can be undone."""
        for topic in self.of(region):
            with self._change(topic) as regions:
                regions[region] = ("dropped", int(time.time()) + undrop_seconds, "")

    def refresh(self) -> None:
        """Send all maps again: Sexton purges nothing by a stale map. A real service does so every hour."""
        for topic in list(self._topics):
            with self._change(topic):
                pass

    @contextmanager
    def _change(self, topic: str) -> Iterator[dict[str, Where]]:
        """Change the map of a topic, one change at a time: the newest has the highest generation."""
        with self._changing:
            regions = dict(self._topics.get(topic, {}))
            yield regions
            self._generation += 1
            self._save()  # before sending: a generation that was sent is never used for another map
            self._client.map_regions(topic, _map(self._generation, regions))
            self._topics[topic] = regions
            self._save()

    def _save(self) -> None:
        write(self._file, json.dumps({"generation": self._generation, "topics": self._topics}))


def _map(generation: int, region_states: dict[str, Where]) -> RegionMap:
    by_state: dict[str, list[tuple[str, int, str]]] = {"here": [], "moved": [], "dropped": []}
    for name, (state, number, node) in region_states.items():
        by_state[state].append((name, number, node))
    now = int(time.time())
    return RegionMap(
        generation=generation,
        regions=tuple(RegionMapping(region=name, first=first, node=node) for name, first, node in by_state["here"]),
        moved=tuple(RegionMove(region=name, node=node) for name, _, node in by_state["moved"]),
        dropped=tuple(
            RegionDrop(region=name, undrop_seconds=max(0, final_at - now)) for name, final_at, _ in by_state["dropped"]
        ),
    )
