"""Define what purge workflows and activities exchange: numbers, never lists of regions; and resolve nodes' addresses.

A node's token must not open other hosts through Sexton. A name is resolved once, for the connection that is then made:
a second answer of its DNS server counts for nothing.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit

from sexton.kernel.message import Message
from sexton.wal.model import Flushed, Purged
from sexton.wal.port import NodeSilent

NODE_URL = r"https?://[A-Za-z0-9._~:\[\]-]+(/[A-Za-z0-9._~:/%!$&'()*+,;=@-]*)?"
"""A host, perhaps a port and a path: no user, no query, no fragment, and no character that a URL must encode."""
_PORTS = {"http": 80, "https": 443}

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOWHERE = ipaddress.IPv4Address(0)
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
_IPV4_AT_THE_END = tuple(map(ipaddress.ip_network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
"""IPv4-compatible, IPv4-mapped and IPv4-translated addresses, and those of NAT64."""
_LOCAL_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")


class NodeAddress(NamedTuple):
    """Where a node's URL leads: the host of the URL, and its permitted addresses."""

    host: str
    port: int
    addresses: tuple[str, ...]


class NodeAddresses:
    """Resolves the URLs that nodes reported."""

    def __init__(self, allowed: Sequence[str] = (), *, loopback: bool = False) -> None:
        """``allowed``: hosts, ``*.`` before a domain for all in it, and networks; none: every host but this machine.

        ``loopback``: whether nodes may be on this machine, as in development. Without it a network in ``allowed``
        permits loopback, and a network or a host there permits this machine's other addresses.
        """
        self._hosts, self._networks, self._loopback = list[str](), list[Network](), loopback
        for each in allowed:
            try:
                self._networks.append(ipaddress.ip_network(each))
            except ValueError:
                self._hosts.append(each.lower())

    def resolve(self, url: str) -> NodeAddress:
        """Return where to connect. Raise ``NodeSilent`` if no address is permitted, or the name has none."""
        host, port = _host_and_port(url)
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as e:
            raise NodeSilent(f"{host} has no address: {e}") from e
        addresses = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
        permitted = tuple(each for each in addresses if self._permits(host, each))
        if not permitted:
            raise NodeSilent(
                f"{host} is at {addresses[0]}, where no node may be; if one is, name the host or its network in "
                "wal.flush_nodes (never a link-local address)"
            )
        return NodeAddress(host, port, permitted)

    def _permits(self, host: str, text: str) -> bool:
        if "%" in text:  # a zone: an address of one link
            return False
        address = ipaddress.ip_address(text)
        reached = _carried(address) or (address,)
        # An address of no host, of several, or of one link only is never a node's: clouds answer for machines there.
        for each in reached:
            no_host = each.is_unspecified or each.is_multicast or each.is_reserved or each in _THIS_NETWORK
            if not each.is_loopback and (no_host or each.is_link_local):
                return False
        named = {each for each in (address, *reached) if any(each in network for network in self._networks)}
        if address in named or named.issuperset(reached):
            return True
        if not self._loopback and any(each.is_loopback for each in reached):
            return False
        if any(host == name or (name.startswith("*.") and host.endswith(name[1:])) for name in self._hosts):
            return True
        if self._hosts or self._networks:
            return False
        return self._loopback or not any(_is_own(each) for each in (address, *reached))


def _carried(address: Address) -> tuple[Address, ...]:
    """Return the IPv4 addresses that an IPv6 address leads to by a translator or a tunnel.

    A network that uses ``64:ff9b:1::/48`` chooses one of four places for the address (RFC 6052); all of them count.
    """
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback or address.is_unspecified:
        return ()
    packed = address.packed
    if address in _LOCAL_NAT64:
        places = (packed[6:8] + packed[9:11], packed[7:8] + packed[9:12], packed[9:13], packed[12:])
        return tuple(ipaddress.IPv4Address(place) for place in places if place[0]) or (_NOWHERE,)
    if any(address in network for network in _IPV4_AT_THE_END):
        return (ipaddress.IPv4Address(packed[12:]),)
    return address.teredo or ((address.sixtofour,) if address.sixtofour is not None else ())


def _is_own(address: Address) -> bool:
    """Return whether an address is this machine's: a socket can have it. Nothing is sent.

    Where the system lets sockets have foreign addresses (``ip_nonlocal_bind``), every address counts as an own one.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _host_and_port(url: str) -> tuple[str, int]:
    with suppress(ValueError):  # an impossible port
        parts = urlsplit(url)
        if re.fullmatch(NODE_URL, url) and parts.hostname:
            return parts.hostname.rstrip("."), parts.port or _PORTS[parts.scheme]
    raise NodeSilent(f"{url!r} is not an address of a node: report http://HOST:PORT or https://HOST")


MAX_REASONS = 5
"""Reasons that a report of topics quotes; its numbers count all of them."""


class PurgeOutcome(StrEnum):
    """How the purge of one topic ended."""

    PURGED = "PURGED"
    """The floor rose, or the log deleted entries below it."""
    NOTHING = "NOTHING"
    """There was nothing to purge."""
    BLOCKED = "BLOCKED"
    QUARANTINED = "QUARANTINED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class PurgeRequest(Message):
    """Purge one topic. ``deployment``: whose workers do it; ``instance``: the topic's, shown to people."""

    topic: str
    deployment: str
    instance: str = ""
    requested_by: str = ""


class PurgePreview(Message):
    """What a purge of one topic would do now. ``behind``: regions that should flush first."""

    behind: int = 0
    flushes: bool = True
    """Whether the settings allow asking nodes to flush."""


class PurgeReport(Message):
    """How the purge of one topic ended."""

    topic: str
    outcome: PurgeOutcome
    purged: Purged | None = None
    flushed: Flushed = Flushed()
    error: str = ""


class PurgeProgress(Message):
    """What a purge of one topic is doing."""

    topic: str
    doing: str
    behind: int = 0
    flushed: Flushed = Flushed()
    tries: int = 0
    error: str = ""
    backoff_seconds: float = 0.0


class TopicWork(Message):
    """A topic of which a purge would delete something, or whose regions should flush."""

    topic: str
    instance: str = ""
    flushes: bool = False
    """Some of its regions should flush first."""


class PurgedPage(Message):
    """How a page of topics was purged.

    ``running``: those left alone, as their own purge runs or is paused. ``again``: those whose log had a fault, or that
    another transaction had locked; a purge of its own tries each again.
    """

    purged: int = 0
    running: int = 0
    again: tuple[str, ...] = ()


class TopicCounts(Message):
    """What a round found, in numbers; the database names the topics (``sexton wal list``)."""

    topics: int = 0
    """Topics that were due."""
    blocked: int = 0
    quarantined: int = 0
    losses: int = 0
    """Regions that need deleted entries."""
    faults: int = 0
    """Topics whose log refuses or does not answer."""
    purged: int = 0
    """Topics that the round purged itself, a page at a time."""
    started: int = 0
    """Purges that the round started, of topics whose regions should flush first, or whose log had a fault."""
    running: int = 0
    """Topics with work whose purge was running already, or is paused: the round leaves them alone."""
    reasons: tuple[str, ...] = ()
    """The first few faults, as sentences."""

    def __add__(self, other: "TopicCounts") -> "TopicCounts":
        """Return the sum of two counts."""
        numbers = {n: getattr(self, n) + getattr(other, n) for n in TopicCounts.model_fields if n != "reasons"}
        return TopicCounts(**numbers, reasons=(self.reasons + other.reasons)[:MAX_REASONS])


class TopicReview(Message):
    """The due topics that have work, in order of their names. ``more``: further ones follow after the last of them."""

    work: tuple[TopicWork, ...] = ()
    more: bool = False
    after: str = ""
    """The last topic that was reviewed."""
    counts: TopicCounts = TopicCounts()


class PurgeRoundRequest(Message):
    """Purge each topic that is due and has work.

    When a run continues another, ``done`` has its counts, and ``after`` is the last topic that it reviewed.
    """

    deployment: str
    instance: str = ""
    """Empty: a round serves the topics of every instance."""
    requested_by: str = ""
    after: str = ""
    done: TopicCounts = TopicCounts()


class PurgeRoundProgress(Message):
    """What a round is doing. ``remaining``: topics with work that are neither purged nor have a purge of their own."""

    doing: str
    remaining: int = 0
    counts: TopicCounts = TopicCounts()
    tries: int = 0
    error: str = ""
    backoff_seconds: float = 0.0


def purge_outcome(purged: Purged) -> PurgeOutcome:
    """Return how the purge of one topic ended."""
    if purged.fault:
        return PurgeOutcome.FAILED
    if purged.verdict.quarantine:
        return PurgeOutcome.QUARANTINED
    if purged.verdict.blocked:
        return PurgeOutcome.BLOCKED
    return PurgeOutcome.PURGED if purged.verdict.rose or purged.freed else PurgeOutcome.NOTHING
