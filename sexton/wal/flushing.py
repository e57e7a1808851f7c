"""Ask the regions that block purges to flush, and wait until they have (GreptimeDB RFC, "communication").

A node that does not answer delays no other: the entries that its regions need stay, and every other purge proceeds.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import zip_longest

from sexton.wal.model import FlushCandidate, Flushed
from sexton.wal.port import Floors, FlushClient, NodeSilent

MAX_REGIONS = 10_000
"""Regions asked at a time; the next round asks the others. Nodes take turns, each with what its flushes free most."""
REGIONS_PER_REQUEST = 1_000
PARALLEL_NODES = 16
POLL_SECONDS = 1.0
MAX_NAMED = 10

RegionKey = tuple[str, str]
"""Topic and region."""


class Flusher:
    """Asks regions to flush, and waits for them."""

    def __init__(
        self, floors: Floors, client: FlushClient, timeout_seconds: float, look: Callable[[Sequence[str]], object]
    ) -> None:
        """Store the collaborators.

        Args:
            floors: knows which regions should flush.
            client: reaches nodes.
            timeout_seconds: the limit for all regions together.
            look: reads the ends of topics, so that reports above the known ends count.
        """
        self._floors, self._client, self._timeout, self._look = floors, client, timeout_seconds, look

    def flush(self, names: Sequence[str], heartbeat: Callable[[], None]) -> Flushed:
        """Ask the regions that block these topics, each once; return when they have flushed or the time is over."""
        deadline = time.monotonic() + self._timeout
        candidates = _in_turns(self._floors.regions_to_flush(names))[:MAX_REGIONS]
        accepted, silent = self._ask_nodes(candidates, deadline, heartbeat)
        needs_before = {_key(region): region.keep_from for region in accepted}
        late = self._wait(names, needs_before, deadline, heartbeat)
        late_names = sorted(f"{topic}/{region}" for topic, region in late)
        return Flushed(
            asked=len(needs_before),
            flushed=len(needs_before) - len(late),
            late=tuple(late_names[:MAX_NAMED]),
            silent=dict(sorted(silent.items())[:MAX_NAMED]),
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
                pool.submit(self._ask_node, node, url, regions, may_ask): (node, regions)
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

    def _ask_node(
        self, node: str, url: str, regions: Sequence[FlushCandidate], may_ask: Callable[[], bool]
    ) -> tuple[int, str]:
        """Ask one node; return how many of its regions it accepted, and why not the others."""
        for start in range(0, len(regions), REGIONS_PER_REQUEST):
            try:
                if not url:
                    raise NodeSilent(f"node {node or '(none)'} never reported where it takes requests")
                if not may_ask():
                    raise NodeSilent(f"no time was left to ask {url}")
                self._client.flush(url, regions[start : start + REGIONS_PER_REQUEST])
            except NodeSilent as e:
                return start, str(e)
        return len(regions), ""

    def _wait(
        self,
        names: Sequence[str],
        needs_before: Mapping[RegionKey, int],
        deadline: float,
        heartbeat: Callable[[], None],
    ) -> set[RegionKey]:
        """Return the regions that have not flushed when the time is over: their ``keep_from`` has not risen."""
        late = set(needs_before)
        while late:
            self._look(names)
            needs = {_key(region): region.keep_from for region in self._floors.regions_to_flush(names)}
            late = {key for key in late if key in needs and needs[key] <= needs_before[key]}
            if not late or time.monotonic() >= deadline:
                break
            heartbeat()
            time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        return late


def _key(region: FlushCandidate) -> RegionKey:
    return region.topic, region.region


def _by_node(candidates: Sequence[FlushCandidate]) -> dict[tuple[str, str], list[FlushCandidate]]:
    """Return the regions of each node and address, in their order."""
    by_node: dict[tuple[str, str], list[FlushCandidate]] = {}
    for region in candidates:
        by_node.setdefault((region.node, region.url), []).append(region)
    return by_node


def _in_turns(candidates: Sequence[FlushCandidate]) -> list[FlushCandidate]:
    """Return the first region of each node, then the second ones: one node must not use up the places of all."""
    rows = zip_longest(*_by_node(candidates).values())
    return [region for row in rows for region in row if region is not None]
