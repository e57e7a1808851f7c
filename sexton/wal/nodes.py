"""Nodes over HTTP: ``POST {node}/v1/regions/flush``. A node answers that it will, not that it has."""

from collections.abc import Sequence

import httpx

from sexton.wal.model import Candidate
from sexton.wal.port import NodeSilent

SECONDS = 10.0


class HttpFlushClient:
    """Implements ``wal.port.FlushClient``."""

    def __init__(self, seconds: float = SECONDS) -> None:
        # A redirect would carry the request to where no node has said it is.
        self._http = httpx.Client(timeout=seconds, follow_redirects=False, trust_env=False)

    def flush(self, url: str, regions: Sequence[Candidate]) -> None:
        wanted = [{"topic": its.topic, "region": its.region} for its in regions]
        try:
            # Its body says nothing, and may never end.
            with self._http.stream("POST", f"{url.rstrip('/')}/v1/regions/flush", json={"regions": wanted}) as answer:
                status, well = answer.status_code, answer.is_success
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise NodeSilent(f"{url} does not answer: {e or type(e).__name__}") from e
        if not well:
            raise NodeSilent(f"{url} answers {status}")

    def close(self) -> None:
        """Close its connections."""
        self._http.close()
