"""Connections to an S3 store: whom they trust, and that one which took too long to make is not used."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sexton.kernel.trust import Trust
from sexton.storage.model import KeyOutcome, VaultSpec
from sexton.storage.port import VaultFault
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import Results, Target, delete
from sexton.storage.vaults import open_vault
from tests.servers.certificate import certificate
from tests.servers.proxy import tls_proxy
from tests.servers.s3 import RunningS3


def _spec(bucket: str) -> VaultSpec:
    return VaultSpec(instance="shop", name="v", kind="s3", location=bucket)


def test_a_private_authority_of_the_settings_is_trusted(s3_server: RunningS3, tmp_path: Path) -> None:
    files, spec = certificate(tmp_path), _spec(s3_server.create_bucket())
    parts = urlsplit(s3_server.endpoint_url)

    with tls_proxy((str(parts.hostname), int(parts.port or 0)), files) as url:
        marker = open_vault(spec, endpoint_url=url, trust=Trust(ca_certs=str(files.authority))).read_marker()
        with pytest.raises(VaultFault, match=r"CERTIFICATE_VERIFY_FAILED.*for a private authority set ca_certs"):
            open_vault(spec, endpoint_url=url).read_marker()

    assert marker is None


def test_a_store_on_this_machine_is_called_without_a_proxy(
    s3_server: RunningS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(s3_server.create_bucket())
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    assert open_vault(spec, endpoint_url=s3_server.endpoint_url).read_marker() is None


@pytest.mark.parametrize("own", [True, False], ids=["of the row", "of the settings"])
def test_plain_http_to_another_machine_is_a_fault(own: bool) -> None:
    endpoint = "http://s3.invalid:9000"
    spec = _spec("b").model_copy(update={"endpoint": endpoint if own else ""})

    with pytest.raises(VaultFault, match=r"http://s3.invalid is not encrypted.*insecure_http = true") as refused:
        open_vault(spec, endpoint_url="" if own else endpoint).read_marker()
    assert refused.value.reason == "DENIED"


def test_insecure_http_permits_another_machine() -> None:
    trust = Trust(insecure_http=True)

    with pytest.raises(VaultFault) as unreachable:
        open_vault(_spec("b"), endpoint_url="http://s3.invalid:9000", trust=trust).read_marker()
    assert "is not encrypted" not in str(unreachable.value)


BACKLOG = 4
"""Connections after which a socket that accepts none answers no more."""
Delete = Callable[[int], Results]


class Store(BaseHTTPRequestHandler):
    """Answers DeleteObjects without failures."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'<?xml version="1.0"?><DeleteResult></DeleteResult>'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def delete_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Delete]:
    """Delete an object of a store at whose name so many addresses drop packets before one answers."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    look_up = socket.getaddrinfo
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with ExitStack() as sockets:

        def delete_with(silent: int) -> Results:
            hosts = [f"127.0.0.{n}" for n in range(2, 2 + silent)]
            for host in hosts:
                listening = sockets.enter_context(socket.socket())
                listening.bind((host, port))
                listening.listen(0)
                for _ in range(BACKLOG):
                    waiting = sockets.enter_context(socket.socket())
                    waiting.setblocking(False)
                    waiting.connect_ex((host, port))
            addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in [*hosts, "127.0.0.1"]]
            monkeypatch.setattr(
                socket, "getaddrinfo", lambda host, *rest: addresses if host == "store.test" else look_up(host, *rest)
            )
            spec = VaultSpec(instance="shop", name="cold", kind="s3", location=f"bucket-{silent}")
            return delete(
                S3Bucket(spec, f"http://store.test:{port}", trust=Trust(insecure_http=True)), [Target("a.dat")]
            )

        yield delete_with
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("silent", [0, 1])
def test_a_silent_address_is_passed_over(delete_at: Delete, silent: int) -> None:
    [result] = delete_at(silent).values()

    assert result.outcome is KeyOutcome.DELETED


@pytest.mark.slow
def test_after_two_silent_addresses_no_delete_is_sent(delete_at: Delete, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[str] = []
    monkeypatch.setattr(Store, "do_POST", lambda request: received.append(request.path))
    with pytest.raises(VaultFault, match="Connect timeout"):
        delete_at(2)

    assert received == []
