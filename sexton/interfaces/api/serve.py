"""Serve the API until SIGTERM or Ctrl-C."""

import logging
import socket

import uvicorn

from config.settings import Settings
from sexton.database.engine import Database
from sexton.interfaces.api.app import create
from sexton.kernel.errors import SextonError

log = logging.getLogger(__name__)
SHUTDOWN_SECONDS = 10
MAX_CONNECTIONS = 500
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class CannotListen(SextonError):
    """The address is in use or is not an address of this machine, or the certificate cannot be used."""


def serve(settings: Settings, db: Database) -> None:
    """Answer requests at the settings' address.

    Raises:
        CannotListen: the address or the certificate cannot be used.
    """
    api = settings.api
    host, _, port = api.listen.rpartition(":")
    host = host.strip("[]")
    if host not in LOOPBACK and not api.tls_cert:
        log.warning(
            "tokens are sent to %s in clear text: set api.tls_cert and api.tls_key, or put a TLS proxy in front", host
        )
    if bool(api.tls_cert) < bool(api.tls_key):
        raise CannotListen("api.tls_key is set and api.tls_cert is not: set both, or neither")
    config = uvicorn.Config(
        create(settings, db),
        host=host,
        port=int(port),
        ssl_certfile=api.tls_cert or None,
        ssl_keyfile=api.tls_key or None,
        access_log=False,  # its lines would contain keys and job names; the call log has every change
        log_config=None,
        server_header=False,
        proxy_headers=False,  # the call log stores the real peer address, not the one in a header
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    try:
        config.load()
    except OSError as e:
        raise CannotListen(f"api.tls_cert {api.tls_cert} and api.tls_key {api.tls_key} cannot be used: {e}") from e
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, int(port)), family=family, backlog=config.backlog)
    except (OSError, OverflowError) as e:
        raise CannotListen(
            f"cannot listen on {api.listen} ({e}); set SEXTON_API__LISTEN to a free HOST:PORT of this machine"
        ) from e
    log.info("the API is listening on %s://%s", "https" if api.tls_cert else "http", api.listen)
    uvicorn.Server(config).run(sockets=[listening])
