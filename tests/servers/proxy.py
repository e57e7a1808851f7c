"""A server on loopback with TLS that forwards every byte to a plain server."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.servers.certificate import Certificate

Address = tuple[str, int]


@contextmanager
def tls_proxy(address: Address, files: Certificate) -> Iterator[str]:
    """Serve with a certificate; yield the URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_serve, args=(listening, context, address), daemon=True).start()
        host, port = listening.getsockname()
        yield f"https://{host}:{port}"
        listening.shutdown(socket.SHUT_RDWR)


def _serve(listening: socket.socket, context: ssl.SSLContext, address: Address) -> None:
    with suppress(OSError):  # closed at the end of the test
        while True:
            plain, _ = listening.accept()
            threading.Thread(target=_forward, args=(plain, context, address), daemon=True).start()


def _forward(plain: socket.socket, context: ssl.SSLContext, address: Address) -> None:
    with (
        suppress(OSError),
        context.wrap_socket(plain, server_side=True) as client,
        socket.create_connection(address) as server,
    ):
        threading.Thread(target=_copy, args=(server, client), daemon=True).start()
        _copy(client, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
