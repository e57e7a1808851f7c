"""Limit connections: how many there are, how many of one address, and how long one may wait for its client.

uvicorn has no time limit for a request's head or body, nor for a client that does not read its answer, and counts
silent connections against everybody. ``LimitedListener`` accepts a new connection always if it can: at a limit those
that have waited longest for their clients are closed. A client that sends at once is served at once.
"""

import ipaddress
import logging
import resource
import socket
import time
from asyncio import sslproto
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from enum import IntEnum
from heapq import nsmallest
from typing import Any

from sexton.interfaces.api.rare_warning import RareWarning
from sexton.operators.access.credentials import network

log = logging.getLogger(__name__)
MAX_CONNECTIONS = 2_000
FILES_FOR_CONNECTIONS = 2
"""At most one open file in so many is a connection of a client."""
ADDRESSES = 4
"""At a limit, one address has at most one connection in so many."""
CLOSED_AT_ONCE = 16
"""At a limit, one connection in so many is closed: the search for them must not be repeated for each new one."""
TLS_READ_BYTES = 32 << 10
"""asyncio reads so much of a TLS connection at once, into memory that each connection has from its beginning."""
MAX_UNREAD_BYTES = 128 << 20
"""Of all answers together: 64 KiB for each connection."""
CLOSINGS = "%d times a limit was reached, last by %s: the connections waiting longest for their clients are closed"

Peer = tuple[str, int]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Phase(IntEnum):
    """What a connection waits for. At a limit, those of the lowest phase are closed first."""

    HEAD = 0
    BODY = 1
    READER = 2
    SERVER = 3


SECONDS = {Phase.HEAD: 10.0, Phase.BODY: 60.0, Phase.READER: 60.0}
"""How long a connection may wait for the head of a request, for all of its body, and for its answer to be read."""


class _Accepted:
    """An accepted connection, and since when it has been in its phase."""

    def __init__(self, socket_: socket.socket, peer: Peer, now: float) -> None:
        self.socket, self.peer, self.network = socket_, peer, network(peer[0])
        self.phase, self.since = Phase.HEAD, now
        self._protocol: Any = None
        self._cycle: Any = None

    def observe(self, protocol: Any, now: float) -> None:
        """Store the phase; a new request begins a new one. Without a protocol there is no request: a TLS handshake."""
        phase = Phase.HEAD if protocol is None else phase_of(protocol)
        cycle = getattr(protocol, "cycle", None)
        if phase is not self.phase or cycle is not self._cycle:
            self.phase, self.since, self._cycle = phase, now, cycle
        self._protocol = protocol

    @property
    def unread(self) -> int:
        """The bytes of answers that the client has not read."""
        return self._protocol.transport.get_write_buffer_size() if self.phase is Phase.READER else 0

    def close(self) -> None:
        """End the connection; the event loop closes its file at its next turn."""
        if self._protocol is not None:
            self._protocol.transport.abort()
            return
        with suppress(OSError):  # the client was faster
            self.socket.shutdown(socket.SHUT_RDWR)


class Connections:
    """The connections of one server. Used in its event loop only."""

    def __init__(self, protocols: Iterable[Any], exempt: Iterable[str] = (), limit: int | None = None) -> None:
        """Keep the limits.

        Args:
            protocols: uvicorn's open connections, a live set.
            exempt: networks of proxies, whose connections carry the requests of many clients.
            limit: of all connections; None: as many as the limit of open files permits.
        """
        self._protocols, self._exempt = protocols, [ipaddress.ip_network(each) for each in exempt]
        self.limit = connection_limit() if limit is None else limit
        self._accepted: list[_Accepted] = []
        self._of_network: Counter[str] = Counter()
        self._closings = RareWarning(log, CLOSINGS)

    def admit(self, socket_: socket.socket, peer: Peer) -> bool:
        """Return whether a new connection is accepted; close others where it would exceed a limit."""
        new = _Accepted(socket_, peer, time.monotonic())
        if self._rivals(new):
            self._drop(each for each in self._accepted if each.socket.fileno() < 0)
            rivals = self._rivals(new)
            if rivals and not self._close_longest_waiting(rivals, peer):
                return False
        self._accepted.append(new)
        self._of_network[new.network] += 1
        return True

    def close_overdue(self) -> None:
        """Close the connections that have waited too long for their clients, and the slowest readers of too much."""
        now = time.monotonic()
        self._drop(each for each in self._accepted if each.socket.fileno() < 0)
        self._observe(now)
        for each in self._accepted:
            if now - each.since > SECONDS.get(each.phase, float("inf")):
                each.close()
        self._close_slowest_readers()

    def _close_slowest_readers(self) -> None:
        unread = sum(each.unread for each in self._accepted)
        for each in sorted(self._accepted, key=lambda each: each.since):
            if unread <= MAX_UNREAD_BYTES:
                break
            if each.unread:
                unread -= each.unread
                each.close()

    def _rivals(self, new: _Accepted) -> list[_Accepted]:
        """Return the connections that share a limit that is reached, the closed ones included; none: there is room."""
        if self._of_network[new.network] >= max(1, self.limit // ADDRESSES) and not self._is_exempt(new.peer[0]):
            return [each for each in self._accepted if each.network == new.network]
        return self._accepted if len(self._accepted) >= self.limit else []

    def _is_exempt(self, host: str) -> bool:
        return any(ipaddress.ip_address(host.partition("%")[0]) in each for each in self._exempt)

    def _close_longest_waiting(self, rivals: list[_Accepted], newest: Peer) -> bool:
        """Make room for a new connection; return whether there is any that waits for its client."""
        self._closings.count(newest[0])
        self._observe(time.monotonic())
        waiting = [each for each in rivals if each.phase is not Phase.SERVER]
        number = max(1, len(rivals) // CLOSED_AT_ONCE)
        longest = nsmallest(number, waiting, key=lambda each: (each.phase, each.since))
        for each in longest:
            each.close()
        self._drop(longest)
        return bool(longest)

    def _drop(self, connections: Iterable[_Accepted]) -> None:
        dropped = set(connections)
        self._accepted = [each for each in self._accepted if each not in dropped]
        self._of_network = Counter(each.network for each in self._accepted)

    def _observe(self, now: float) -> None:
        by_peer = {protocol.client: protocol for protocol in self._protocols}
        for each in self._accepted:
            each.observe(by_peer.get(each.peer), now)


class LimitedListener(socket.socket):
    """A listening socket that accepts a connection only as ``Connections`` permits. Also before a TLS handshake."""

    connections: Connections
    _accepted = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        asyncio accepts until there is none left. After some, this interrupts it: the event loop must close the files of
        connections that were closed for new ones, and serve the others.
        """
        while self._accepted < max(1, self.connections.limit // CLOSED_AT_ONCE):
            socket_, address = super().accept()
            self._accepted += 1
            if self.connections.admit(socket_, address[:2]):
                return socket_, address
            socket_.close()
        self._accepted = 0
        raise BlockingIOError


def limit_tls_memory() -> None:
    """Let TLS connections have small buffers: with asyncio's own ones, 2,000 silent clients occupy 500 MiB."""
    sslproto.SSLProtocol.max_size = TLS_READ_BYTES


def phase_of(protocol: Any) -> Phase:
    """Return the phase of one of uvicorn's connections."""
    cycle = protocol.cycle
    if cycle is None or cycle.response_complete:
        return Phase.READER if protocol.transport.get_write_buffer_size() else Phase.HEAD
    if cycle.response_started:
        return Phase.READER if protocol.flow.write_paused else Phase.SERVER
    return Phase.BODY if cycle.more_body else Phase.SERVER


def connection_limit() -> int:
    """Return how many connections the process may have: the other files are for the database and the threads."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = files == resource.RLIM_INFINITY
    return MAX_CONNECTIONS if unlimited else max(ADDRESSES, min(MAX_CONNECTIONS, files // FILES_FOR_CONNECTIONS))
