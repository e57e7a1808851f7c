"""Ask the regions that hold topics back to flush, and wait until they have (GreptimeDB RFC, "communication").

Nobody waits for a node that does not answer: what it holds stays, and everything else goes on.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from sexton.wal.model import Candidate, Flushed
from sexton.wal.port import Floors, FlushClient, NodeSilent

MOST_REGIONS = 10_000
"""Asked in one go; the others come in the next round, who frees most first."""
A_REQUEST = 1_000
AT_ONCE = 16
"""Nodes that are asked side by side: one that does not answer keeps no other waiting."""
POLL_SECONDS = 1.0
NAMED = 10


class Flusher:
    """Asks, and waits."""

    def __init__(
        self, floors: Floors, client: FlushClient, timeout_seconds: float, look: Callable[[Sequence[str]], object]
    ) -> None:
        """Nothing is asked yet.

        Args:
            floors: knows who holds what.
            client: reaches nodes.
            timeout_seconds: how long is waited for all of them together.
            look: has the log asked for its ends, so that reports above what we know count.
        """
        self._floors, self._client, self._timeout, self._look = floors, client, timeout_seconds, look

    def flush(self, names: Sequence[str], heartbeat: Callable[[], None]) -> Flushed:
        """Ask those that hold these topics, each once, and return when they have flushed, or the time is over."""
        until = time.monotonic() + self._timeout
        wanted = {(its.topic, its.region): its for its in self._floors.behind(names)[:MOST_REGIONS]}
        asked: set[tuple[str, str]] = set()
        silent: dict[str, str] = {}
        by_node: dict[tuple[str, str], list[Candidate]] = {}
        for its in wanted.values():
            by_node.setdefault((its.node, its.url), []).append(its)
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="flush")
        try:
            asking = {pool.submit(self._ask, *to, its, until): (to[0], its) for to, its in by_node.items()}
            for done in as_completed(asking):
                heartbeat()
                (node, some), (took, why) = asking[done], done.result()
                asked |= {(one.topic, one.region) for one in some[:took]}
                if why:
                    silent[node] = why
        finally:  # whoever is told to stop waits for those that are asked, and for no others
            pool.shutdown(cancel_futures=True)
        left = self._wait(names, {key: wanted[key].keep_from for key in asked}, until, heartbeat)
        late = sorted(f"{topic}/{region}" for topic, region in left)
        return Flushed(
            asked=len(asked),
            flushed=len(asked) - len(left),
            late=tuple(late[:NAMED]),
            silent=dict(sorted(silent.items())[:NAMED]),
        )

    def _ask(self, node: str, url: str, regions: Sequence[Candidate], until: float) -> tuple[int, str]:
        """Ask one node; return how many of its regions it was asked for, and why not for the others."""
        for start in range(0, len(regions), A_REQUEST):
            try:
                if not url:
                    raise NodeSilent(f"node {node or '(none)'} never said where it takes requests")
                if time.monotonic() >= until:
                    raise NodeSilent(f"no time was left to ask {url}")
                self._client.flush(url, regions[start : start + A_REQUEST])
            except NodeSilent as e:
                return start, str(e)
        return len(regions), ""

    def _wait(
        self, names: Sequence[str], from_: dict[tuple[str, str], int], until: float, heartbeat: Callable[[], None]
    ) -> set[tuple[str, str]]:
        """Return who has not flushed when the time is over: whose ``keep_from`` is what it was."""
        left = set(from_)
        while left:
            self._look(names)
            still = {(its.topic, its.region): its.keep_from for its in self._floors.behind(names)}
            left = {key for key in left if key in still and still[key] <= from_[key]}
            if not left or time.monotonic() >= until:
                break
            heartbeat()
            time.sleep(min(POLL_SECONDS, max(0.0, until - time.monotonic())))
        return left
