"""A served API closes a connection whose client does not send its request."""

import socket
from pathlib import Path

import pytest

from tests.servers.api_process import ApiProcess
from tests.support.rig import Rig


@pytest.mark.slow
def test_served_api_closes_a_silent_connection(rig: Rig, tmp_path: Path) -> None:
    with ApiProcess(rig, tmp_path) as api, socket.create_connection(api.address, timeout=60) as silent:
        silent.sendall(b"GET /healthz HTT")

        assert silent.recv(1) == b""
