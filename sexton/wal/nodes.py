"""Ask nodes over HTTP to flush regions: ``POST {node}/v1/regions/flush``. A node answers before it has flushed."""

import asyncio
import json
import re
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx

from sexton.kernel.signatures import SIGNATURE_HEADER, sign_request
from sexton.kernel.trust import STRICT, PlainHttp, Trust
from sexton.wal.messages import NodeAddress, NodeAddresses
from sexton.wal.model import FlushCandidate
from sexton.wal.port import NodeSilent

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
        """Send a request to one address; return the answer's status, after the few interim ones that may be sent."""
        tls, name = (self._tls, node.host) if url.startswith("https:") else (None, None)
        reader, writer = await asyncio.open_connection(
            address, node.port, limit=MAX_HEAD_BYTES, ssl=tls, server_hostname=name
        )
        try:
            writer.write(request)
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
