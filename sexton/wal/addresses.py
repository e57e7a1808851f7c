"""Decide which addresses of nodes Sexton connects to: a node's token must not open other hosts through Sexton.

A name is resolved once, for the connection that is then made: a second answer of its DNS server counts for nothing.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from sexton.wal.port import NodeSilent

NODE_URL = r"https?://[A-Za-z0-9._~:\[\]-]+(/[A-Za-z0-9._~:/%!$&'()*+,;=@-]*)?"
"""A host, perhaps a port and a path: no user, no query, no fragment, and no character that a URL must encode."""
_PORTS = {"http": 80, "https": 443}

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class NodeAddress(NamedTuple):
    """Where a node's URL leads: the host of the URL, and its permitted addresses."""

    host: str
    port: int
    addresses: tuple[str, ...]


class NodeAddresses:
    """Resolves the URLs that nodes reported."""

    def __init__(self, allowed: Sequence[str] = (), *, loopback: bool = False) -> None:
        """Store the rules.

        Args:
            allowed: hosts, ``*.`` before a domain for all hosts in it, and networks; none: every host.
            loopback: whether nodes may be on this machine, as in development. A network in ``allowed`` permits it, too.
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
        address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(text.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if address.is_link_local or address.is_multicast or address.is_unspecified:
            return False
        if any(address in network for network in self._networks):
            return True
        if address.is_loopback and not self._loopback:
            return False
        return not (self._hosts or self._networks) or any(_names(pattern, host) for pattern in self._hosts)


def _names(pattern: str, host: str) -> bool:
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def _host_and_port(url: str) -> tuple[str, int]:
    with suppress(ValueError):  # an impossible port
        parts = urlsplit(url)
        if re.fullmatch(NODE_URL, url) and parts.hostname:
            return parts.hostname.rstrip("."), parts.port or _PORTS[parts.scheme]
    raise NodeSilent(f"{url!r} is not an address of a node: report http://HOST:PORT or https://HOST")
