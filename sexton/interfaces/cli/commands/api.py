"""`sexton api`: serve the HTTP API until Ctrl-C or SIGTERM."""

from typing import Annotated

import typer

from sexton.interfaces.cli.context import open_database


def api(
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address to listen on; default: the setting api.listen.")
    ] = None,
) -> None:
    """Serve operators, meta services and sync jobs over HTTP. Each request needs a token: sexton token create.

    Example: sexton api --listen 127.0.0.1:8470
    """
    import logging

    from config.settings import load
    from sexton.interfaces.api.serve import serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    with open_database() as service:
        serve(service.settings if listen is None else load(**{"api.listen": listen}), service.db)
