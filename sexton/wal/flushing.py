"""Ask the regions that block the purge of a topic to flush, and wait until they have (GreptimeDB RFC, "communication").

A node that does not answer delays no other. The entries that its regions need stay.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from sexton.wal.model import FlushCandidate, Flushed
from sexton.wal.port import NodeSilent
from sexton.wal.sql.floors import FloorStore

if TYPE_CHECKING:  # httpx may not be installed
    from sexton.wal.nodes import HttpFlushClient

MAX_REGIONS = 10_000
"""Regions asked by one purge; the next one asks the others. The nodes take turns."""
REGIONS_PER_REQUEST = 1_000
PARALLEL_NODES = 16
POLL_SECONDS = 1.0
MAX_NAMED = 10


class Flusher:
    """Asks regions of a topic to flush, and waits for them."""

    def __init__(
        self,
        floors: FloorStore,
        client: "HttpFlushClient",
        timeout_seconds: float,
        read_ends: Callable[[Sequence[str]], object],
    ) -> None:
        """``timeout_seconds``: the limit for all regions together.

        ``read_ends`` reads the ends of topics, so that reports above the known ends count.
        """
        self._floors, self._client, self._timeout, self._read_ends = floors, client, timeout_seconds, read_ends

    def flush(self, topic: str, heartbeat: Callable[[], None]) -> Flushed:
        """Ask the regions that block a topic's purge, each once; return when they have flushed or the time is over."""
        deadline = time.monotonic() + self._timeout
        candidates = self._floors.regions_to_flush([topic])
        by_node = _by_node([region for region in candidates if region.url])
        # The first region of each node, then the second ones, and so on: no node uses up the places of all.
        turns = sorted((turn for regions in by_node.values() for turn in enumerate(regions)), key=lambda turn: turn[0])
        accepted, silent = self._ask_nodes([region for _, region in turns[:MAX_REGIONS]], deadline, heartbeat)
        without_address = {
            region.node: f"node {region.node or '(none)'} never reported where it takes requests"
            for region in candidates
            if not region.url and region.node not in silent
        }
        needs_before = {region.region: region.keep_from for region in accepted}
        late = self._wait(topic, needs_before, deadline, heartbeat)
        return Flushed(
            asked=len(needs_before),
            flushed=len(needs_before) - len(late),
            late=tuple(f"{topic}/{region}" for region in sorted(late)[:MAX_NAMED]),
            silent=dict([*sorted(silent.items()), *sorted(without_address.items())][:MAX_NAMED]),
        )

    def _ask_nodes(
        self, candidates: Sequence[FlushCandidate], deadline: float, heartbeat: Callable[[], None]
    ) -> tuple[list[FlushCandidate], dict[str, str]]:
        """Ask nodes in parallel; return the regions whose nodes took the request, and why other nodes did not."""
        by_node = _by_node(candidates)
        accepted: list[FlushCandidate] = []
        silent: dict[str, str] = {}
        interrupted = threading.Event()

        def may_ask() -> bool:
            return time.monotonic() < deadline and not interrupted.is_set()

        pool = ThreadPoolExecutor(PARALLEL_NODES, thread_name_prefix="flush")
        try:
            requests = {
                pool.submit(self._ask_node, url, regions, may_ask): (node, regions)
                for (node, url), regions in by_node.items()
            }
            pending = set(requests)
            while pending:
                answered, pending = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
                heartbeat()
                for request in answered:
                    node, regions = requests[request]
                    taken, reason = request.result()
                    accepted += regions[:taken]
                    if reason:
                        silent[node] = reason
        finally:  # when interrupted, wait for the requests under way, and send no others
            interrupted.set()
            pool.shutdown(cancel_futures=True)
        return accepted, silent

    def _ask_node(self, url: str, regions: Sequence[FlushCandidate], may_ask: Callable[[], bool]) -> tuple[int, str]:
        """Ask one node; return how many of its regions it accepted, and why not the others."""
        for start in range(0, len(regions), REGIONS_PER_REQUEST):
            try:
                if not may_ask():
                    raise NodeSilent(f"no time was left to ask {url}")
                self._client.flush(url, regions[start : start + REGIONS_PER_REQUEST])
            except NodeSilent as e:
                return start, str(e)
        return len(regions), ""

    def _wait(
        self, topic: str, needs_before: Mapping[str, int], deadline: float, heartbeat: Callable[[], None]
    ) -> set[str]:
        """Return the regions that have not flushed when the time is over: their ``keep_from`` has not risen."""
        late = set(needs_before)
        while late:
            self._read_ends([topic])
            needs = {region.region: region.keep_from for region in self._floors.regions_to_flush([topic])}
            late = {name for name in late if name in needs and needs[name] <= needs_before[name]}
            if not late or time.monotonic() >= deadline:
                break
            heartbeat()
            time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        return late


def _by_node(candidates: Sequence[FlushCandidate]) -> dict[tuple[str, str], list[FlushCandidate]]:
    """Return the regions of each node, by its name and address, in their order."""
    by_node: dict[tuple[str, str], list[FlushCandidate]] = {}
    for region in candidates:
        by_node.setdefault((region.node, region.url), []).append(region)
    return by_node
