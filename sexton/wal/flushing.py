"""Ask the regions that block purges to flush, and wait until they have (GreptimeDB RFC, "communication").

A node that does not answer delays no other: the entries that its regions need stay, and every other purge proceeds.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from sexton.wal.model import FlushCandidate, Flushed
from sexton.wal.port import Floors, FlushClient, NodeSilent

MAX_REGIONS = 10_000
"""Regions asked at a time; the next round asks the others. See ``_in_fair_order``."""
REGIONS_PER_REQUEST = 1_000
PARALLEL_NODES = 16
POLL_SECONDS = 1.0
MAX_NAMED = 10

RegionKey = tuple[str, str]
"""Topic and region."""
NodeKey = tuple[str, str, str]
"""Instance, name and address of a node: nodes of two instances may have the same name."""


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
        candidates = self._floors.regions_to_flush(names)
        reachable = [region for region in candidates if region.url]
        accepted, silent = self._ask_nodes(_in_fair_order(reachable)[:MAX_REGIONS], deadline, heartbeat)
        without_address = {r.node: _without_address(r.node) for r in candidates if not r.url and r.node not in silent}
        needs_before = {_key(region): region.keep_from for region in accepted}
        late = self._wait(needs_before, deadline, heartbeat)
        late_names = sorted(f"{topic}/{region}" for topic, region in late)
        return Flushed(
            asked=len(needs_before),
            flushed=len(needs_before) - len(late),
            late=tuple(late_names[:MAX_NAMED]),
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
                for (_, node, url), regions in by_node.items()
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
        self, needs_before: Mapping[RegionKey, int], deadline: float, heartbeat: Callable[[], None]
    ) -> set[RegionKey]:
        """Return the regions that have not flushed when the time is over: their ``keep_from`` has not risen."""
        late = set(needs_before)
        while late:
            names = sorted({topic for topic, _ in late})  # of these alone: a look reads all regions of a topic
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


def _without_address(node: str) -> str:
    return f"node {node or '(none)'} never reported where it takes requests"


def _node(region: FlushCandidate) -> NodeKey:
    return region.instance, region.node, region.url


def _by_node(candidates: Sequence[FlushCandidate]) -> dict[NodeKey, list[FlushCandidate]]:
    """Return the regions of each node and address, in their order."""
    by_node: dict[NodeKey, list[FlushCandidate]] = {}
    for region in candidates:
        by_node.setdefault(_node(region), []).append(region)
    return by_node


def _in_fair_order(candidates: Sequence[FlushCandidate]) -> list[FlushCandidate]:
    """Return the regions so that instances take turns, within an instance its topics, and within a topic its nodes.

    No instance, topic or node uses up the places of all. Each node's regions stay in their order.
    """
    nodes_in_turns = _in_turns(candidates, lambda region: (region.topic, *_node(region)))
    topics_in_turns = _in_turns(nodes_in_turns, lambda region: region.topic)
    return _in_turns(topics_in_turns, lambda region: region.instance)


def _in_turns(
    candidates: Sequence[FlushCandidate], group: Callable[[FlushCandidate], Hashable]
) -> list[FlushCandidate]:
    """Return the first region of each group, then the second ones, and so on."""
    before: Counter[Hashable] = Counter()
    turns: list[tuple[int, FlushCandidate]] = []
    for region in candidates:
        turns.append((before[group(region)], region))
        before[group(region)] += 1
    return [region for _, region in sorted(turns, key=lambda turn: turn[0])]
