"""Errors that the owner's contract raises, and the translation of a driver's error into one of them.

The codes SX001 to SX006 are SQLSTATEs, and the first word of each message.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from sexton.kernel.errors import Conflict, SextonError, WrongUsage


class ContractError(SextonError):
    """The contract refuses a statement; the owner's transaction must roll back."""


class Collected(Conflict, ContractError):
    """SX001: the mark to be committed is fenced, claimed or gone, or was never prepared; or a prefix above is claimed.

    Its files may be deleted.
    """


class NotFirst(ContractError):
    """SX002: ``undrop`` decides, so it must come before every write of its transaction."""


class Refused(Conflict, ContractError):
    """SX003: the mark to be undropped is claimed, gone or not marked, or its ancestor is marked."""


class InstanceNotRegistered(ContractError):
    """SX004: no instance of that name is registered, or it is not granted to the role that logged in."""

    name = "UNKNOWN_INSTANCE"


class AlreadyMarked(ContractError):
    """This id is already marked, or named twice."""


class Gone(ContractError):
    """SX005: this id was marked before and its files are gone; ids are never used again."""


_CODES: dict[str, type[ContractError]] = {
    "SX001": Collected,
    "SX002": NotFirst,
    "SX003": Refused,
    "SX004": InstanceNotRegistered,
    "SX005": Gone,
}


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate a driver's error with one of our codes into its class; other errors pass unchanged."""
    try:
        yield
    except Exception as error:
        typed_error = _translate(error.orig or error) if isinstance(error, DBAPIError) else _translate(error)
        if typed_error is None:
            raise
        raise typed_error from error


def _translate(driver_error: BaseException) -> SextonError | None:
    """Return the error of the contract that a driver's error stands for, None where it stands for none."""
    text = str(driver_error).splitlines()[0] if str(driver_error) else ""
    code = getattr(driver_error, "sqlstate", None) or text[:5]
    if code == "SX006":
        return WrongUsage(text)
    if code in _CODES:
        return _CODES[code](text)
    if code == "23505":
        return AlreadyMarked(f"already marked, or named twice: {text}")
    constraint = re.search(r"violates check constraint \"(\w+)\"", text)
    if constraint is not None:
        return WrongUsage(f"refused: {constraint[1].replace('_', ' ')}")
    return None


def check_text(*texts: str) -> None:
    """Refuse text that a database cannot store, or would cut short.

    Raises:
        BadInput: a value is not a string, or has a NUL or a lone surrogate.
    """
    for value in texts:
        try:
            is_text = isinstance(value, str) and b"\0" not in value.encode()
        except UnicodeEncodeError:
            is_text = False
        if not is_text:
            raise WrongUsage(f"{value!r} cannot be stored as text; remove NUL characters and lone surrogates")
