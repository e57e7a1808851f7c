"""Sexton connects only to addresses where a node may be, whatever the node has reported."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from config.sections import WalSection
from config.settings import Settings
from sexton.kernel.trust import Trust
from sexton.operations.topics import Heartbeat
from sexton.wal.messages import NodeAddresses
from sexton.wal.nodes import HttpFlushClient
from sexton.wal.port import NodeSilent
from tests.integration.wal.flushing_node import FlushedRegions, flushing_node
from tests.integration.wal.test_flushing import lagging_region
from tests.servers.certificate import certificate

Answers = Callable[[str], list[str]]
LOOPBACK = ("127.0.0.0/8",)


@contextmanager
def _names(monkeypatch: pytest.MonkeyPatch, answers: Answers) -> Iterator[None]:
    """Let names have other addresses; numbers keep theirs."""
    resolve = socket.getaddrinfo

    def answer(host: str, port: Any, *more: Any, **named: Any) -> Any:
        return [found for address in answers(host) for found in resolve(address, port, *more, **named)]

    with monkeypatch.context() as m:
        m.setattr(socket, "getaddrinfo", answer)
        yield


def _flush(addresses: NodeAddresses, url: str, trust: Trust | None = None) -> None:
    client = HttpFlushClient(addresses, 5.0, trust or Trust(insecure_http=True))
    client.flush(url, [lagging_region("n")])


PERMITTED: dict[tuple[str, ...], tuple[str, ...]] = {
    (): ("10.1.2.3", "2001:db8::1", "64:ff9b::10.1.2.3", "64:ff9b:1::10.1.2.3", "2002:a01:203::1"),
    ("10.1.0.0/16",): ("10.1.2.3", "64:ff9b::10.1.2.3"),
    ("64:ff9b::/96",): ("64:ff9b::10.1.2.3",),
    ("node.example",): ("10.1.2.3",),
    ("*.example",): ("10.1.2.3",),
    LOOPBACK: ("127.0.0.1", "::ffff:127.0.0.1"),
    ("::1/128",): ("::1",),
}
"""What an operator allows, and addresses of ``node.example`` that may be a node's then."""
WITHOUT_RULES = {
    "this machine": ("127.0.0.1", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "0.0.0.0", "0.1.2.3"),
    "this link": ("169.254.169.254", "::169.254.169.254", "fe80::1", "fe80::1%lo"),
    "this link, mapped": ("::ffff:169.254.169.254", "::ffff:0:169.254.169.254"),
    "many machines or none": ("224.0.0.1", "240.0.0.1", "255.255.255.255", "64:ff9b::255.255.255.255"),
    "behind NAT64": ("64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::169.254.169.254", "64:ff9b:1::"),
    "behind NAT64 of another length": (
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9:fe:a9fe::",
        "64:ff9b:1:0:a9:fea9:fe00:0",
    ),
    "behind 6to4": ("2002:a9fe:a9fe::1", "2002:7f00:1::1"),
    "behind Teredo": ("2001:0:4136:e378:8000:63bf:5601:5601", "2001:0:a9fe:a9fe:8000:63bf:3fff:fdd2"),
}
REFUSED: dict[tuple[str, ...], tuple[str, ...]] = {
    (): tuple(address for addresses in WITHOUT_RULES.values() for address in addresses),
    ("10.2.0.0/16",): ("64:ff9b::10.1.2.3",),
    ("64:ff9b::/96",): ("64:ff9b::169.254.169.254",),
    ("169.254.0.0/16",): ("169.254.169.254",),
    ("node.example",): ("127.0.0.1",),
    ("10.1.0.0/16",): ("10.2.0.1",),
    ("other.example", "*.other"): ("10.1.2.3",),
    ("*.node.example",): ("10.1.2.3",),
}


def test_only_a_permitted_address_of_a_node_is_used(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for allowed, address in ((allowed, address) for allowed, addresses in PERMITTED.items() for address in addresses):
        with subtests.test(allowed=allowed, address=address):
            with _names(monkeypatch, lambda _, address=address: [address]):
                node = NodeAddresses(allowed).resolve("http://node.example:4000/base")

            assert (node.host, node.port) == ("node.example", 4000)
            assert [ip_address(each) for each in node.addresses] == [ip_address(address)]
    for allowed, address in ((allowed, address) for allowed, addresses in REFUSED.items() for address in addresses):
        with (
            subtests.test(allowed=allowed, refused=address),
            _names(monkeypatch, lambda _, address=address: [address]),
            pytest.raises(NodeSilent, match="where no node may be"),
        ):
            NodeAddresses(allowed).resolve("http://node.example:4000")


def _own_addresses() -> list[str]:
    """Return the addresses from which this machine sends into a network. Nothing is sent."""
    own: list[str] = []
    for family, far in ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            own.append(probe.getsockname()[0])
    return own


def test_an_own_address_of_this_machine_needs_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    own = _own_addresses()
    if not own:
        pytest.skip("needs a network")
    own += [str(ip_address(f"64:ff9b::{address}")) for address in own if "." in address]

    for address in own:
        with _names(monkeypatch, lambda _, address=address: [address]):
            for refusing in ((), ("other.example",), ("10.99.0.0/16",)):
                with pytest.raises(NodeSilent, match="where no node may be"):
                    NodeAddresses(refusing).resolve("http://node.example")
            for permitting in (("node.example",), (address,)):
                assert NodeAddresses(permitting).resolve("http://node.example").addresses == (address,)
            assert NodeAddresses(loopback=True).resolve("http://node.example").addresses == (address,)


def test_a_url_with_more_than_host_and_path_is_refused(subtests: pytest.Subtests) -> None:
    refused_on_arrival = [
        "http://n\x1b[2Jode",
        "http://n\x1b]0;x\x07",
        "http://node/<b>",
        "http://n/[a](b)",
        "ftp://node",
        "node:4000",
        "http://user:password@node",
        "http://user@node",
        "http://node/?a=b",
        "http://node/#a",
        "http:///path",
    ]
    others = ["http://[fe80::1%25eth0]", "http://node:99999", "http://[::1", "http://127.0.0.1\\@node"]
    for url in [*refused_on_arrival, *others]:
        with subtests.test(url=url), pytest.raises(NodeSilent, match="is not an address of a node"):
            _flush(NodeAddresses(loopback=True), url)
    for url in refused_on_arrival:
        with subtests.test(heartbeat=url), pytest.raises(ValidationError, match="url"):
            Heartbeat(url=url, reports=())
    assert Heartbeat(url="https://node:4000/base", reports=()).url == "https://node:4000/base"


def test_only_the_first_answer_for_a_name_counts_and_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[FlushedRegions] = []

    with flushing_node(lambda regions: taken.append(regions) or 202) as url:
        for permitted, first in ((("127.0.0.1/32",), ["127.0.0.1"]), (LOOPBACK, ["127.0.0.2", "127.0.0.1"])):
            answers = iter([first])
            with _names(monkeypatch, lambda host, a=answers: next(a, ["127.0.0.9"]) if "example" in host else [host]):
                _flush(NodeAddresses(permitted), f"http://node.example:{url.rpartition(':')[2]}")

    assert len(taken) == 2


def test_a_node_with_a_certificate_of_a_private_authority(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    taken: list[FlushedRegions] = []
    trusting = Trust(ca_certs=str(files.authority))

    with flushing_node(lambda regions: taken.append(regions) or 202, files) as url:
        port = url.rpartition(":")[2]
        with pytest.raises(NodeSilent, match="CERTIFICATE_VERIFY_FAILED"):
            _flush(NodeAddresses(LOOPBACK), f"https://localhost:{port}", Trust())
        _flush(NodeAddresses(LOOPBACK), f"https://localhost:{port}", trusting)
        _flush(NodeAddresses(LOOPBACK), f"https://127.0.0.1:{port}", trusting)
        with (
            _names(monkeypatch, lambda host: ["127.0.0.1"]),
            pytest.raises(NodeSilent, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            _flush(NodeAddresses(LOOPBACK), f"https://node.example:{port}", trusting)

        with (
            _names(monkeypatch, lambda _: ["127.0.0.1"]),
            pytest.raises(NodeSilent, match="insecure_http"),
        ):
            _flush(NodeAddresses(LOOPBACK), f"http://node.example:{port}", trusting)

    assert len(taken) == 2


def test_nodes_on_this_machine_are_for_development() -> None:
    wal = WalSection(flush_nodes=["*.example", "10.0.0.0/8"])
    for deployment, loopback in [("demo-1", True), ("test-1", True), ("shop-1", False)]:
        settings = Settings(deployment=deployment, wal=wal).wal_settings()

        assert (settings.flushes_loopback, settings.flush_nodes) == (loopback, ("*.example", "10.0.0.0/8"))
