"""Print the result of an operation: a list as a table, an object as lines of name and value, unless it has its own."""

from collections.abc import Callable, Mapping
from typing import Any

import typer
from pydantic import BaseModel

from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import utc, utc_column
from sexton.kernel.printable import printable

INSTANT = "_at"
"""The end of the names of instants, in ms since 1970."""


def show(operation: str, result: Any) -> None:
    """Print a result."""
    if operation in RENDERERS:
        RENDERERS[operation](result)
    elif hasattr(result, "items") and hasattr(result, "more"):
        _show_list(result.items)
    elif isinstance(result, BaseModel):
        for name, value in _shown(result).items():
            typer.echo(f"{_heading(name)}: {printable(str(utc(value) if name.endswith(INSTANT) else value))}")


def _show_list(rows: Any) -> None:
    names = list(rows[0].model_dump(by_alias=True)) if rows else []
    cells = [[_cell(name, value) for name, value in row.model_dump(by_alias=True).items()] for row in rows]
    used = [n for n in range(len(names)) if any(row[n] not in ("", None) for row in cells)]
    columns = [_heading(names[n]) for n in used]
    show_table("" if rows else "there is none", columns, [[row[n] for n in used] for row in cells])


def _shown(result: BaseModel) -> dict[str, Any]:
    return {name: value for name, value in result.model_dump(by_alias=True).items() if value not in (None, "")}


def _heading(name: str) -> str:
    words = name.removesuffix(INSTANT).replace("_", " ")
    return f"{words} (UTC)" if name.endswith(INSTANT) else words


def _cell(name: str, value: Any) -> object:
    return utc_column(value) if name.endswith(INSTANT) and value is not None else value


def _created_token(result: Any) -> None:
    """Print the secret alone, so that a script can read it, and the rest on stderr."""
    token = result.token
    typer.echo(result.secret)
    typer.echo(
        f"token {token.token}, scope {token.scope}, until {utc(token.expires_at)}; it is not shown again", err=True
    )
    typer.echo(f"to end it sooner: sexton token revoke {token.token}", err=True)


RENDERERS: Mapping[str, Callable[[Any], None]] = {"token create": _created_token}
"""The operations whose results people read in another form than that of their fields."""
