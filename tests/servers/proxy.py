"""Servers on loopback that forward every byte to a plain server: behind TLS, or slowly."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.servers.certificate import Certificate

Address = tuple[str, int]


@contextmanager
def tls_proxy(address: Address, files: Certificate) -> Iterator[str]:
    """Serve with a certificate; yield the URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    with _listening(address, context, 0) as (host, port):
        yield f"https://{host}:{port}"


@contextmanager
def slow_proxy(address: Address, pause_seconds: float) -> Iterator[Address]:
    """Serve without TLS, and pause after each 64 KiB; yield the address."""
    with _listening(address, None, pause_seconds) as own:
        yield own


@contextmanager
def _listening(address: Address, context: ssl.SSLContext | None, pause_seconds: float) -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        arguments = (listening, context, address, pause_seconds)
        threading.Thread(target=_serve, args=arguments, daemon=True).start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)


def _serve(listening: socket.socket, context: ssl.SSLContext | None, address: Address, pause_seconds: float) -> None:
    with suppress(OSError):  # closed at the end of the test
        while True:
            plain, _ = listening.accept()
            threading.Thread(target=_forward, args=(plain, context, address, pause_seconds), daemon=True).start()


def _forward(plain: socket.socket, context: ssl.SSLContext | None, address: Address, pause_seconds: float) -> None:
    with (
        suppress(OSError),
        context.wrap_socket(plain, server_side=True) if context else plain as client,
        socket.create_connection(address) as server,
    ):
        threading.Thread(target=_copy, args=(server, client, pause_seconds), daemon=True).start()
        _copy(client, server, pause_seconds)


def _copy(source: socket.socket, target: socket.socket, pause_seconds: float) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
            time.sleep(pause_seconds)
        target.shutdown(socket.SHUT_WR)
