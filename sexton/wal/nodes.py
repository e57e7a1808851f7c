"""Ask nodes over HTTP to flush regions: ``POST {node}/v1/regions/flush``. A node answers before it has flushed."""

from collections.abc import Sequence

import httpx

from sexton.wal.model import FlushCandidate
from sexton.wal.port import NodeSilent

REQUEST_SECONDS = 10.0


class HttpFlushClient:
    """Implements ``wal.port.FlushClient``."""

    def __init__(self, timeout_seconds: float = REQUEST_SECONDS) -> None:
        # A redirect would send the request to an address that no node has reported.
        self._http = httpx.Client(timeout=timeout_seconds, follow_redirects=False, trust_env=False)

    def flush(self, url: str, regions: Sequence[FlushCandidate]) -> None:
        body = {"regions": [{"topic": region.topic, "region": region.region} for region in regions]}
        try:
            # Stream: the body of the answer is not needed, and may never end.
            with self._http.stream("POST", f"{url.rstrip('/')}/v1/regions/flush", json=body) as response:
                status, accepted = response.status_code, response.is_success
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise NodeSilent(f"{url} does not answer: {e or type(e).__name__}") from e
        if not accepted:
            raise NodeSilent(f"{url} answers {status}")

    def close(self) -> None:
        """Close its connections."""
        self._http.close()
