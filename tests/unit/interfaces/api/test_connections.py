"""At a limit, the connection that has waited longest for its client is closed for a new one."""

import socket
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from sexton.interfaces.api import connections
from sexton.interfaces.api.connections import Connections, LimitedListener, Phase


class Pairs:
    """Pairs of connected sockets, whose server's end is offered to the limits."""

    def __init__(self, *, limit: int, exempt: tuple[str, ...] = ()) -> None:
        self.protocols: set[Any] = set()
        self.limits = Connections(self.protocols, exempt, limit)
        self._ports = iter(range(1_000, 2_000))
        self._clients: list[tuple[socket.socket, socket.socket]] = []

    def open(self, host: str, *, busy: bool = False) -> tuple[bool, socket.socket]:
        """Return whether a new connection was admitted, and its client's end."""
        client, server = socket.socketpair()
        client.settimeout(0)
        self._clients.append((client, server))
        peer = (host, next(self._ports))
        if busy:
            cycle = SimpleNamespace(response_complete=False, response_started=False, more_body=False)
            self.protocols.add(_Protocol(peer, cycle))
        return self.limits.admit(server, peer), client

    def open_reader(self, host: str, unread: int) -> "_Unread":
        """Open a connection whose client has so many bytes of an answer to read."""
        self.open(host, busy=True)
        (protocol,) = (each for each in self.protocols if not hasattr(each, "transport"))
        protocol.cycle.response_complete = True
        protocol.transport = answer = _Unread(unread)
        return answer

    def close(self, host: str) -> None:
        """Open a connection and close it at once, as a client and then the event loop do."""
        self.open(host)
        self._clients[-1][1].close()


class _Protocol:
    def __init__(self, client: tuple[str, int], cycle: SimpleNamespace) -> None:
        self.client, self.cycle = client, cycle


class _Unread:
    def __init__(self, size: int) -> None:
        self.size, self.is_closing = size, False

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        self.is_closing = True


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_oldest_silent_connection_is_closed_at_the_limit() -> None:
    pairs = Pairs(limit=4)
    clients = [pairs.open(f"10.0.0.{n}")[1] for n in range(5)]

    assert [is_closed(each) for each in clients] == [True, False, False, False, False]


def test_one_address_cannot_displace_others() -> None:
    pairs = Pairs(limit=8)
    _, other = pairs.open("10.0.0.1")
    flood = [pairs.open("10.0.0.2")[1] for _ in range(20)]

    assert not is_closed(other)
    assert [is_closed(each) for each in flood] == [True] * 18 + [False] * 2


def test_a_connection_whose_request_runs_is_not_closed() -> None:
    pairs = Pairs(limit=4)
    busy = [pairs.open(f"10.0.0.{n}", busy=True)[1] for n in range(4)]
    admitted, _ = pairs.open("10.0.0.9")

    assert not admitted
    assert not any(is_closed(each) for each in busy)


def test_a_trusted_proxy_has_no_limit_of_its_own() -> None:
    pairs = Pairs(limit=8, exempt=("10.0.0.0/24",))
    clients = [pairs.open("10.0.0.2")[1] for _ in range(8)]

    assert not any(is_closed(each) for each in clients)


def test_a_silent_connection_is_closed_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = Pairs(limit=4)
    _, silent = pairs.open("10.0.0.1")
    pairs.limits.close_overdue()
    before = is_closed(silent)
    monkeypatch.setitem(connections.SECONDS, Phase.HEAD, -1.0)
    pairs.limits.close_overdue()

    assert (before, is_closed(silent)) == (False, True)


def test_slowest_readers_of_too_much_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_UNREAD_BYTES", 250)
    pairs = Pairs(limit=8, exempt=("10.0.0.1",))
    readers = [pairs.open_reader("10.0.0.1", unread) for unread in (0, 100, 100, 100)]
    pairs.limits.close_overdue()

    assert [reader.is_closing for reader in readers] == [False, True, False, False]


def test_a_sixteenth_is_closed_at_once() -> None:
    pairs = Pairs(limit=32, exempt=("10.0.0.0/8",))
    clients = [pairs.open("10.0.0.1")[1] for _ in range(33)]

    assert [is_closed(each) for each in clients] == [True] * 2 + [False] * 31


def test_closed_connections_do_not_count() -> None:
    pairs = Pairs(limit=4)
    silent = [pairs.open(f"10.0.0.{n}")[1] for n in range(3)]
    pairs.close(f"10.0.0.{3}")
    admitted, newest = pairs.open("10.0.0.9")

    assert (admitted, [is_closed(each) for each in (*silent, newest)]) == (True, [False] * 4)


def test_listener_accepts_as_the_limits_permit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain, ExitStack() as opened:
        clients = [opened.enter_context(socket.create_connection(plain.getsockname())) for _ in range(2)]
        with LimitedListener(fileno=plain.detach()) as listener:
            listener.connections = Connections(set(), limit=4)
            for client in clients:
                opened.enter_context(listener.accept()[0])
                client.settimeout(0)
                with pytest.raises(BlockingIOError):
                    listener.accept()
            closed = [is_closed(client) for client in clients]

    assert closed == [True, False]


def test_event_loop_runs_between_accepts() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=9) as plain, ExitStack() as clients:
        for _ in range(5):
            clients.enter_context(socket.create_connection(plain.getsockname()))
        with LimitedListener(fileno=plain.detach()) as listener:
            listener.setblocking(False)
            listener.connections = Connections(set(), ("127.0.0.1",), limit=32)
            accepted = [_number_accepted(listener, clients) for _ in range(4)]

    assert accepted == [2, 2, 1, 0]


def _number_accepted(listener: LimitedListener, files: ExitStack) -> int:
    """Accept as asyncio does, until the listener has no connection or interrupts; return how many were accepted."""
    for number in range(99):
        try:
            files.enter_context(listener.accept()[0])
        except BlockingIOError:
            return number
    raise AssertionError("the listener never interrupts")
