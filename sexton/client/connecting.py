"""How both clients connect: the address, the token and the timeouts."""

import os
from typing import Any

from sexton.kernel.errors import BadInput

TIMEOUT_SECONDS = 30.0


def connection_options(url: str | None, token: str | None, timeout_seconds: float) -> dict[str, Any]:
    """Return the arguments of ``httpx.Client`` and ``httpx.AsyncClient``.

    Raises:
        BadInput: neither the arguments nor the environment has the URL and the token.
    """
    url = url or os.environ.get("SEXTON_API_URL")
    token = token or os.environ.get("SEXTON_TOKEN")
    if not url or not token:
        raise BadInput("a client needs url and token; or set SEXTON_API_URL and SEXTON_TOKEN")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": "sexton-client"}
    return {"base_url": url, "headers": headers, "timeout": timeout_seconds}
