"""Clients that are silent cost a served API little memory, and not for long."""

import re
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers.api_process import ApiProcess
from tests.servers.certificate import certificate
from tests.support.rig import Rig

CLIENTS, BYTES_OF_CLIENT = 200, 200_000


@pytest.mark.slow
def test_served_api_closes_a_silent_connection(rig: Rig, tmp_path: Path) -> None:
    with ApiProcess(rig, tmp_path) as api, socket.create_connection(api.address, timeout=60) as silent:
        silent.sendall(b"GET /healthz HTT")

        assert silent.recv(1) == b""


@pytest.mark.slow
def test_silent_tls_connections_cost_little_memory(rig: Rig, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    environment = {"SEXTON_API__TLS_CERT": str(files.cert), "SEXTON_API__TLS_KEY": str(files.key)}
    with ApiProcess(rig, tmp_path, **environment) as api, ExitStack() as silent:
        before = resident_bytes(api.pid)

        for _ in range(CLIENTS):
            silent.enter_context(socket.create_connection(api.address, timeout=60))
        with socket.create_connection(api.address, timeout=60) as last:  # its turn comes after all others
            last.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            last.recv(1)

        assert resident_bytes(api.pid) - before < CLIENTS * BYTES_OF_CLIENT


def resident_bytes(pid: int) -> int:
    """Return the memory of a process."""
    (kibibytes,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kibibytes) << 10
