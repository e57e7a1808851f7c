"""An owner that drips its answer holds its own call for a limited time: no worker's thread waits without an end."""

import threading
from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from sexton.kernel.trust import STRICT
from sexton.owners import caller
from sexton.owners.call_options import CallOptions
from sexton.owners.http.messages import LiveCount
from sexton.owners.port import OwnerSilent
from tests.integration.wal.test_slow_nodes import slow_node
from tests.support.eventually import PATIENCE_SECONDS

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x="


def drip_head() -> Iterator[bytes]:
    return chain(iter([b"HTTP/1.1 200 OK\r\nX-Filler: "]), repeat(b"x"))


def drip_chunk() -> Iterator[bytes]:
    return chain(iter([CHUNKED]), repeat(b"x"))


@pytest.mark.parametrize("chunks", [drip_head, drip_chunk])
def test_call_of_a_dripping_owner_ends(chunks: Callable[[], Iterator[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "ATTEMPT_SECONDS", 0.5)
    reasons: list[str] = []

    def ask(url: str) -> None:
        try:
            caller.OwnerCaller(CallOptions(url=url), STRICT).get("live/count", LiveCount)
        except OwnerSilent as e:
            reasons.append(str(e))

    with slow_node(chunks, 0.05) as (address, _):
        thread = threading.Thread(target=ask, args=(f"http://{address}",), daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "many times its limit later it still waits"

    assert "within" in reasons[0]
