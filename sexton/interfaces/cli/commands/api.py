"""`sexton api` and `sexton console`: serve the HTTP API, with or without the console, until Ctrl-C or SIGTERM."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import open_database

Listen = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="The address to listen on; default: the setting api.listen.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Listen beyond loopback without TLS: tokens are sent in clear text.")
]


def api(listen: Listen = None, insecure: Insecure = False) -> None:
    """Serve operators, meta services and sync jobs over HTTP. Each request needs a token: sexton token create.

    Example: sexton api --listen 127.0.0.1:8470
    """
    _serve(listen, insecure=insecure, console=False)


def console(listen: Listen = None, insecure: Insecure = False) -> None:
    """Serve the console at /console, and the API beside it. Log in with a token: sexton token create.

    Example: sexton console --listen 127.0.0.1:8470
    """
    _serve(listen, insecure=insecure, console=True)


def _serve(listen: str | None, *, insecure: bool, console: bool) -> None:
    from config.settings import load
    from sexton.interfaces.api.serve import serve
    from sexton.kernel import logs

    with open_database() as service:
        log = service.settings.log
        logs.configure(log.format, log.level, deployment=service.settings.deployment, role="api")
        given = {"api.listen": listen, "api.insecure": "true" if insecure else None}
        settings = load(**{key: value for key, value in given.items() if value is not None})
        if console:
            from sexton.interfaces.console.app import beside

            serve(settings, service.db, beside)
        else:
            serve(settings, service.db)


COMMANDS = {"api": api, "console": console}
