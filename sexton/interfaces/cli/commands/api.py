"""`sexton api`: serve the HTTP API until Ctrl-C or SIGTERM."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import open_database


def api(
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address to listen on; default: the setting api.listen.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond loopback without TLS: tokens are sent in clear text.")
    ] = False,
) -> None:
    """Serve operators, meta services and sync jobs over HTTP. Each request needs a token: sexton token create.

    Example: sexton api --listen 127.0.0.1:8470
    """
    from config.settings import load
    from sexton.interfaces.api.serve import serve
    from sexton.kernel import logs

    with open_database() as service:
        log = service.settings.log
        logs.configure(log.format, log.level, deployment=service.settings.deployment, role="api")
        given = {"api.listen": listen, "api.insecure": "true" if insecure else None}
        serve(load(**{key: value for key, value in given.items() if value is not None}), service.db)
