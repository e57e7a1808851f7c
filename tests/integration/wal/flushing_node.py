"""A node that takes requests to flush, over HTTP."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.servers.certificate import Certificate
from tests.servers.http import Asked, answering

FlushedRegions = list[tuple[str, str]]


def flushing_node(
    flush: Callable[[FlushedRegions], int], tls: Certificate | None = None
) -> AbstractContextManager[str]:
    """Serve on loopback and yield the URL; ``flush`` gets topics and regions, and returns the status of the answer."""

    def answer(asked: Asked) -> tuple[int, bytes]:
        assert (asked.method, asked.path) == ("POST", "/v1/regions/flush")
        return flush([(r["topic"], r["region"]) for r in json.loads(asked.body)["regions"]]), b""

    return answering(answer, tls)
