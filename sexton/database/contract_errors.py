"""What the contract refuses, and how a driver's error becomes one of these classes.

The codes SX001 to SX006 are SQLSTATEs on PostgreSQL and the first word of the message on SQLite.
"""

import re
import sqlite3
from typing import Literal

from sqlalchemy.exc import DBAPIError

from sexton.kernel.errors import BadInput, SextonError


class ContractError(SextonError):
    """The contract refuses; the owner's transaction must roll back."""


class Collected(ContractError):
    """SX001: what was to be committed is claimed or gone. Its files are being deleted."""


class NotFirst(ContractError):
    """SX002: ``undrop`` decides, so it must come before anything its transaction writes."""


class Refused(ContractError):
    """SX003: what was to come back is claimed, gone or not marked, or its ancestor is marked."""


class InstanceNotRegistered(ContractError):
    """SX004: no instance of that name is registered."""

    name = "UNKNOWN_INSTANCE"


class AlreadyMarked(ContractError):
    """This id is marked already, or named twice."""


class Busy(ContractError):
    """The database is locked by another writer (SQLite); nothing was done: roll back and try again."""


class Gone(ContractError):
    """SX005: this id was marked before and its files are gone; ids are never used again."""


_CODES: dict[str, type[ContractError]] = {
    "SX001": Collected,
    "SX002": NotFirst,
    "SX003": Refused,
    "SX004": InstanceNotRegistered,
    "SX005": Gone,
}


class typed:
    """Turn a driver's error with one of our codes into its class; the rest passes as it is."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> Literal[False]:
        driver = error.orig if isinstance(error, DBAPIError) else error
        if driver is not None and error is not None:
            text = str(driver).splitlines()[0] if str(driver) else ""
            code = getattr(driver, "sqlstate", None) or text[:5]
            if code == "SX006":
                raise BadInput(text) from error
            if code in _CODES:
                raise _CODES[code](text) from error
            if isinstance(driver, sqlite3.OperationalError) and re.search("locked|busy", text):
                raise Busy(f"{text}; roll back and try again") from error
            if code == "23505" or text.startswith("UNIQUE constraint failed: sexton_mark"):
                raise AlreadyMarked(f"already marked, or named twice: {text}") from error
            broken = re.search(r"CHECK constraint failed: (\w+)|violates check constraint \"(\w+)\"", text)
            if broken:
                rule = (broken[1] or broken[2]).replace("_", " ")
                raise BadInput(f"refused: {rule}") from error
        return False


def check_text(*texts: str) -> None:
    """Refuse what a database cannot hold as text, or would cut short."""
    for value in texts:
        if not isinstance(value, str) or "\0" in value or (not value.isprintable() and _unencodable(value)):
            raise BadInput(f"{value!r} is not text that a database can hold: no NUL, no lone surrogate")


def _unencodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False
