"""Ask the regions that block the purge of a topic to flush, and wait until they have (GreptimeDB RFC, "communication").

A node that does not answer delays no other. The entries that its regions need stay.

Ask nodes over HTTP to flush regions: ``POST {node}/v1/regions/flush``. A node answers before it has flushed.
"""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from urllib.parse import urlsplit

import httpx

from sexton.kernel.signatures import SIGNATURE_HEADER, sign_request
from sexton.kernel.trust import STRICT, PlainHttp, Trust
from sexton.wal.messages import NodeAddress, NodeAddresses
from sexton.wal.model import FlushCandidate, Flushed
from sexton.wal.port import NodeSilent
from sexton.wal.sql.floors import FloorStore

ATTEMPT_SECONDS = 10.0
"""How long one address of a node may take for everything: connect, take the request, send the head of its answer."""
ATTEMPTS_IN_TIME = 3
"""A request to all addresses of a node may take this many times as long."""
MAX_HEAD_BYTES = 16_384
MAX_INTERIM_ANSWERS = 4
STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})[ \r]")


class HttpFlushClient:
    """Asks nodes to flush. Threads may share it; a request leaves no connection open.

    It sends its requests itself: an HTTP client limits each read, so a node that sends a byte now and then would hold a
    request for hours, and a request that is ended within a TLS handshake would leave its socket open.
    """

    def __init__(
        self,
        addresses: NodeAddresses,
        attempt_seconds: float = ATTEMPT_SECONDS,
        trust: Trust = STRICT,
        secret: str = "",
    ) -> None:
        """``secret``: what requests are signed with; empty: they are not."""
        self._secret = secret
        self._addresses, self._trust, self._attempt_seconds = addresses, trust, attempt_seconds
        self._tls = httpx.create_ssl_context(trust.verify(), trust_env=False)  # the authorities of all other requests

    def flush(self, url: str, regions: Sequence[FlushCandidate]) -> None:
        """Ask one node to flush some of its regions; it answers before it has flushed. Raises ``NodeSilent``."""
        seconds = ATTEMPTS_IN_TIME * self._attempt_seconds
        deadline = time.monotonic() + seconds
        node = self._addresses.resolve(url)
        try:
            self._trust.check(url)
            status = asyncio.run(self._ask(url, node, _request(url, regions, self._secret), deadline))
        except PlainHttp as e:
            raise NodeSilent(str(e)) from e
        except TimeoutError as e:
            limits = f"{self._attempt_seconds:g} s at one address, {seconds:g} s at all"
            raise NodeSilent(f"{url} did not take the request and answer within its time ({limits})") from e
        except (OSError, EOFError) as e:
            raise NodeSilent(f"{url} does not answer: {e or type(e).__name__}") from e
        if not 200 <= status < 300:  # a redirect would send the request to an address that no node has reported
            raise NodeSilent(f"{url} answers {status}")

    async def _ask(self, url: str, node: NodeAddress, request: bytes, deadline: float) -> int:
        """Send a request to the first address that answers in time; return the status of the answer."""
        async with asyncio.timeout(deadline - time.monotonic()):
            for address in node.addresses:
                try:
                    async with asyncio.timeout(self._attempt_seconds):
                        return await self._ask_at(address, url, node, request)
                except (OSError, EOFError):  # a request to flush may be repeated
                    if address == node.addresses[-1]:
                        raise
        raise AssertionError("a resolved node has an address")

    async def _ask_at(self, address: str, url: str, node: NodeAddress, request: bytes) -> int:
        tls, name = (self._tls, node.host) if url.startswith("https:") else (None, None)
        reader, writer = await asyncio.open_connection(
            address, node.port, limit=MAX_HEAD_BYTES, ssl=tls, server_hostname=name
        )
        try:
            writer.write(request)
            return await _final_status(url, reader)
        finally:
            writer.transport.abort()  # the body of the answer is not needed, and may never end


def _request(url: str, regions: Sequence[FlushCandidate], secret: str) -> bytes:
    """Return the request as it is sent. ``NodeAddresses`` has verified that the URL has only a URL's characters."""
    parts = urlsplit(url)
    body = json.dumps({"regions": [{"topic": region.topic, "region": region.region} for region in regions]}).encode()
    path = f"{parts.path.rstrip('/')}/v1/regions/flush"
    signature = f"{SIGNATURE_HEADER}: {sign_request(secret, path, body, time.time())}\r\n" if secret else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n{signature}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


async def _final_status(url: str, reader: asyncio.StreamReader) -> int:
    """Return the status of an answer, after the few interim ones that a server may send."""
    for _ in range(1 + MAX_INTERIM_ANSWERS):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError as e:
            raise NodeSilent(f"{url} answers with a head of more than {MAX_HEAD_BYTES:,} bytes") from e
        status_line = STATUS_LINE.match(head)
        if status_line is None:
            raise NodeSilent(f"{url} does not answer in HTTP/1.1")
        if not status_line[1].startswith(b"1"):
            return int(status_line[1])
    raise NodeSilent(f"{url} sends more than {MAX_INTERIM_ANSWERS} interim answers and no other")


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
        """Store the collaborators.

        Args:
            floors: knows which regions should flush.
            client: reaches nodes.
            timeout_seconds: the limit for all regions together.
            read_ends: reads the ends of topics, so that reports above the known ends count.
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
