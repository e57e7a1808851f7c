"""Ask nodes over HTTP to flush regions: ``POST {node}/v1/regions/flush``. A node answers before it has flushed."""

from collections.abc import Sequence
from typing import Any

import httpx

from sexton.kernel.trust import STRICT, PlainHttp, Trust
from sexton.wal.addresses import NodeAddresses
from sexton.wal.model import FlushCandidate
from sexton.wal.port import NodeSilent

REQUEST_SECONDS = 10.0


class HttpFlushClient:
    """Implements ``wal.port.FlushClient``."""

    def __init__(
        self, addresses: NodeAddresses, timeout_seconds: float = REQUEST_SECONDS, trust: Trust = STRICT
    ) -> None:
        # A redirect would send the request to an address that no node has reported, and so would an open connection
        # to an address that another node's name has, too.
        options: dict[str, Any] = {"follow_redirects": False, "trust_env": False, "verify": trust.verify()}
        limits = httpx.Limits(max_keepalive_connections=0)
        self._addresses, self._trust = addresses, trust
        self._http = httpx.Client(timeout=timeout_seconds, limits=limits, **options)

    def flush(self, url: str, regions: Sequence[FlushCandidate]) -> None:
        body = {"regions": [{"topic": region.topic, "region": region.region} for region in regions]}
        try:
            status = self._post(url, body)
        except PlainHttp as e:
            raise NodeSilent(str(e)) from e
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise NodeSilent(f"{url} does not answer: {e or type(e).__name__}") from e
        if not httpx.codes.is_success(status):
            raise NodeSilent(f"{url} answers {status}")

    def _post(self, url: str, body: object) -> int:
        """Send a request to the first permitted address that takes a connection; return the status of the answer."""
        node = self._addresses.resolve(url)
        self._trust.check(url)
        target = httpx.URL(f"{url.rstrip('/')}/v1/regions/flush")
        headers, names = {"Host": target.netloc.decode("ascii")}, {"sni_hostname": node.host}
        for address in node.addresses:
            at = target.copy_with(host=address)
            try:
                # Stream: the body of the answer is not needed, and may never end.
                with self._http.stream("POST", at, json=body, headers=headers, extensions=names) as response:
                    return response.status_code
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if address == node.addresses[-1]:
                    raise
        raise AssertionError("a resolved node has an address")

    def close(self) -> None:
        """Close its connections."""
        self._http.close()
