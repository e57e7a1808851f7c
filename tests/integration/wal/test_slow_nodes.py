"""A node that answers slowly, without end or not at all holds its own request for a limited time, and no other."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, repeat
from types import SimpleNamespace

import pytest

from sexton.kernel.trust import Trust
from sexton.wal import flushing
from sexton.wal.flushing import Flusher
from sexton.wal.messages import NodeAddress, NodeAddresses
from sexton.wal.model import FlushCandidate
from sexton.wal.nodes import HttpFlushClient
from sexton.wal.port import NodeSilent
from tests.integration.wal.test_flushing import HERE, lagging_region
from tests.support.eventually import PATIENCE_SECONDS

HEAD = b"HTTP/1.1 202 Accepted\r\nX-Filler: "
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


@contextmanager
def slow_node(chunks: Callable[[], Iterator[bytes]], pause_seconds: float) -> Iterator[tuple[str, threading.Event]]:
    """Serve one connection on loopback: send chunks with pauses, read nothing more than the first bytes.

    Yields:
        The address of the node, and an event that is set when its peer has ended the connection.
    """
    server, over, ended = socket.create_server(("127.0.0.1", 0)), threading.Event(), threading.Event()

    def serve() -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                for chunk in chunks():
                    if over.wait(pause_seconds):
                        return
                    connection.sendall(chunk)
                while connection.recv(65_536):  # until the peer closes
                    pass
        ended.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}", ended
    finally:
        over.set()
        server.close()
        thread.join(PATIENCE_SECONDS)


def ask(client: HttpFlushClient, url: str, count: int = 1) -> list[str]:
    """Ask a node in a thread, so that a client without a limit ends the test; return why the node is silent."""
    reasons: list[str] = []

    def flush() -> None:
        try:
            client.flush(url, [lagging_region("n" * 200)] * count)
            reasons.append("")
        except NodeSilent as e:
            reasons.append(str(e))

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "many times its limit later it still waits"
    return reasons


def test_request_to_a_dripping_node_ends_with_its_socket(subtests: pytest.Subtests) -> None:
    handshake = b"\x16\x03\x03\x40\x00"
    nodes: list[tuple[str, Callable[[], Iterator[bytes]]]] = [
        ("http", lambda: chain([HEAD], repeat(b"x"))),
        ("https", lambda: chain([handshake], repeat(b"\x00"))),
        ("http", lambda: iter(())),
    ]
    for number, (scheme, chunks) in enumerate(nodes):
        with subtests.test(scheme=scheme, number=number):
            client, threads = HttpFlushClient(HERE, 0.5), set(threading.enumerate())

            with slow_node(chunks, 0.05) as (address, ended):
                reasons = ask(client, f"{scheme}://{address}")
                assert ended.wait(PATIENCE_SECONDS), "the connection is still open"

            assert len(reasons) == 1
            assert "within" in reasons[0]
            assert set(threading.enumerate()) <= threads


def test_node_that_does_not_read_its_request_is_given_up() -> None:
    with slow_node(lambda: repeat(b""), 0.05) as (address, _):
        reasons = ask(HttpFlushClient(HERE, 0.5), f"http://{address}", count=50_000)

    assert "within" in reasons[0]


def test_answer_counts_by_its_head_which_is_bounded(subtests: pytest.Subtests) -> None:
    answers: dict[str, tuple[Callable[[], Iterator[bytes]], str]] = {
        "endless head": (lambda: chain([HEAD], repeat(b"x" * 65_536)), "a head of more than 16,384 bytes"),
        "endless interim answers": (lambda: repeat(INTERIM), "interim answers and no other"),
        "no HTTP": (lambda: iter([b"SSH-2.0-OpenSSH_9.6\r\n\r\n"]), "does not answer in HTTP/1.1"),
        "endless body": (
            lambda: chain([b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"], repeat(b":")),
            "",
        ),
        "interim answers": (lambda: iter([INTERIM, b"HTTP/1.1 103 E\r\nA: b\r\n\r\nHTTP/1.1 202 \r\n\r\n"]), ""),
    }
    for name, (chunks, reason) in answers.items():
        with subtests.test(answer=name):
            with slow_node(chunks, 0.0) as (address, ended):
                reasons = ask(HttpFlushClient(HERE, PATIENCE_SECONDS), f"http://{address}")
                assert ended.wait(PATIENCE_SECONDS), "the connection is still open"

            assert reasons == [""] if reason == "" else reason in reasons[0]


def test_all_addresses_of_a_node_share_one_limit() -> None:
    class EightAddresses(NodeAddresses):
        def resolve(self, url: str) -> NodeAddress:
            return NodeAddress("node.example", port, tuple(f"127.0.0.{n}" for n in range(1, 9)))

    with ExitStack() as stack:
        first = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = first.getsockname()[1]
        others = [stack.enter_context(socket.create_server((f"127.0.0.{n}", port))) for n in range(2, 9)]
        reasons = ask(HttpFlushClient(EightAddresses(), 0.5, Trust(insecure_http=True)), f"http://node.example:{port}")
        second, last = others[0], others[-1]
        second.settimeout(PATIENCE_SECONDS)
        second.accept()[0].close()
        last.setblocking(False)
        with pytest.raises(BlockingIOError):
            last.accept()

    assert "within" in reasons[0]


class Behind:
    """Floors with nothing but lagging regions."""

    def __init__(self, candidates: Sequence[FlushCandidate]) -> None:
        self._candidates = candidates

    def regions_to_flush(self, names: Sequence[str]) -> Sequence[FlushCandidate]:
        return self._candidates


def test_flusher_beats_while_a_node_is_slow() -> None:
    beats: list[str] = []
    enough = threading.Event()

    def heartbeat() -> None:
        beats.append("beat")
        if len(beats) == 3:
            enough.set()

    class Slow:
        def flush(self, url: str, regions: Sequence[FlushCandidate]) -> None:
            raise NodeSilent("beaten" if enough.wait(PATIENCE_SECONDS) else "no heartbeat came")

    flusher = Flusher(Behind([lagging_region("n")]), Slow(), 60.0, lambda _: None)  # type: ignore[arg-type]

    assert flusher.flush("t", heartbeat).silent == {"n": "beaten"}


def test_interrupted_flusher_sends_no_further_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "REGIONS_PER_REQUEST", 1)
    asked, heard = threading.Event(), list[threading.Event]()
    requests: list[str] = []

    def event() -> threading.Event:
        heard.append(threading.Event())
        return heard[-1]

    monkeypatch.setattr(flushing, "threading", SimpleNamespace(Event=event))  # by which the flusher stops its threads

    def heartbeat() -> None:
        if asked.wait(PATIENCE_SECONDS):
            raise InterruptedError

    class Slow:
        def flush(self, url: str, regions: Sequence[FlushCandidate]) -> None:
            requests.append(url)
            asked.set()
            assert heard[0].wait(PATIENCE_SECONDS)

    flusher = Flusher(Behind([lagging_region("n")] * 50), Slow(), 60.0, lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(InterruptedError):
        flusher.flush("t", heartbeat)

    assert len(requests) == 1


def test_no_node_is_asked_after_the_flush_timeout() -> None:
    class Client:
        def flush(self, url: str, regions: Sequence[FlushCandidate]) -> None:
            raise AssertionError("asked")

    behind = Behind([lagging_region(f"n{n}") for n in range(40)])
    done = Flusher(behind, Client(), 0.0, lambda _: None).flush("t", lambda: None)  # type: ignore[arg-type]

    assert (done.asked, len(done.silent)) == (0, flushing.MAX_NAMED)
    assert done.silent["n0"] == "no time was left to ask http://n0"
