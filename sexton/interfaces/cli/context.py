"""What a command works with: settings, the checked database, Temporal, and the forms that words on the line have."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sexton.kernel.errors import SextonError
from sexton.marks.model import Ref

if TYPE_CHECKING:
    from temporalio.client import Client

    from config.settings import Settings
    from sexton.database.engine import Database
    from sexton.operators.controls.store import ControlStore

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
_UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class WrongUsage(SextonError):
    """The words on the command line do not go together, or one is not of its form: exit code 64."""


@contextmanager
def opened() -> Iterator[tuple["Settings", "Database"]]:
    """Yield the settings and the database, its schema and deployment checked."""
    from config.settings import load
    from sexton.database import schema
    from sexton.database.engine import Database

    settings = load()
    deployment = settings.require_deployment()
    db = Database.open(settings.database_url)
    try:
        schema.check(db, deployment)
        yield settings, db
    finally:
        db.close()


def recorded(
    db: "Database", action: str, instance: str = "", subject: str = "", reason: str = "", *, keeps: bool = False
) -> AbstractContextManager[None]:
    """Write down what is about to be done, by whom, and how it ended: see ``sexton calls``.

    ``keeps``: it only keeps something, and is done whether it can be written down or not.
    """
    from sexton.operators.access.model import CallRecord
    from sexton.operators.call_log.store import CallStore
    from sexton.operators.controls.store import whoami

    source = f"cli@{socket.gethostname()}"
    called = CallRecord(who=whoami(), source=source, action=action, instance=instance, subject=subject, reason=reason)
    return CallStore(db).recorded(called, keeps=keeps)


def controls(settings: "Settings", db: "Database") -> "ControlStore":
    """Return the controls, with those of the settings."""
    from sexton.operators.controls.store import ControlStore

    return ControlStore(db, settings.controls())


def one_instance(db: "Database", named: str | None) -> str:
    """Return the instance named, or the only one there is; see ``Registry.one``."""
    from sexton.operators.registry.store import Registry

    return Registry(db).one(named)


def ask_temporal(settings: "Settings", call: Callable[["Client"], Awaitable[T]]) -> T:
    """Connect and return what the call returns; what Temporal refuses is a ``SextonError``."""
    from temporalio.service import RPCError

    from sexton.runtime.temporal.client import connect

    async def asked() -> T:
        return await call(await connect(settings))

    try:
        return asyncio.run(asked())
    except RPCError as e:
        raise SextonError(f"Temporal refused: {e.message}") from e


def seconds(text: str) -> int:
    """Return the seconds of ``30m``, ``12h``, ``7d`` or ``2w``."""
    found = re.fullmatch(r"([0-9]{1,9})([mhdw])", text)
    if found is None:
        raise WrongUsage(f"{text!r} is no length of time; write a number and m, h, d or w, e.g. 30m, 12h, 7d, 2w")
    return int(found[1]) * _UNITS[found[2]]


def ref(text: str) -> Ref:
    """Return the mark that ``KIND/ID`` names."""
    kind, _, id_ = text.partition("/")
    if not (kind and id_):
        raise WrongUsage(f"{text!r} names no mark; write KIND/ID, e.g. dropped/t12")
    return Ref(kind, id_)


def said(reason: str) -> str:
    """Return a reason, or refuse an empty one: others must know why."""
    if not reason.strip():
        raise WrongUsage("say why: --reason takes a few words that others will read")
    # A terminal of another encoding may send bytes that are no text; a stop must not fail for that.
    return reason.strip().encode(errors="replace").decode()
