"""An owner whose answer is slow or huge ends its own call with an error that says why."""

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from sexton.kernel.trust import STRICT
from sexton.owners import caller
from sexton.owners.call_options import CallOptions
from sexton.owners.http.messages import LiveCount
from sexton.owners.port import OwnerSilent
from tests.integration.wal.test_slow_nodes import slow_node

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"1\r\n \r\n"


def drip_body() -> Iterator[bytes]:
    return chain(iter([HEAD]), repeat(CHUNK))


def ask(address: str) -> None:
    caller.OwnerCaller(CallOptions(url=f"http://{address}"), STRICT).get("live/count", LiveCount)


@pytest.mark.parametrize(
    ("pause_seconds", "says"), [(0.05, "does not answer whole within 0.5 s"), (5, "does not answer: timed out")]
)
def test_call_of_a_slow_owner_ends(pause_seconds: float, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "ATTEMPT_SECONDS", 0.5)

    with slow_node(drip_body, pause_seconds) as (address, _), pytest.raises(OwnerSilent, match=says):
        ask(address)


def test_call_of_an_owner_with_a_huge_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "MOST_BYTES", 3)

    with slow_node(drip_body, 0) as (address, _), pytest.raises(OwnerSilent, match="more than 3 bytes; send smaller"):
        ask(address)
