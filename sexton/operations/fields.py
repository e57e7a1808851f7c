"""The types of values that several operations take, with their bounds and what the help says of them."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, FailFast, Field, StringConstraints

from sexton.kernel.message import Message, in_units
from sexton.kernel.printable import PRINTABLE
from sexton.protection.model import CHUNK_ITEMS

MAX_BODY_BYTES = 1 << 20
MAX_ITEMS_BYTES = 16 << 20
"""For requests that carry objects, or a filter of eight million objects."""
MAX_NAME = 4_096
"""Characters of a name: a key of 1,024 bytes, and its vault or URL."""
MAX_NUMBER = 2**63 - 1
ROWS = 1_000
"""How many items an answer has at most, where the order does not limit them."""


class Flag(NamedTuple):
    """How a command calls an option, where that is not the name of the value; and its value in the help."""

    name: str = ""
    shown: str = ""


class StartedWork(Message):
    """What was started. ``plan``: the one that a round applies; ``topic``: of a purge."""

    instance: str = ""
    workflow: str
    run: str
    plan: int | None = None
    topic: str = ""


class ProblemDocument(Message):
    """An RFC 9457 problem document. ``code`` is for programs; ``number`` is MatrixOne's error number, if it has one."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    number: int | None = None
    first: int | None = None
    """For TOO_OLD: the first record or entry that still exists."""


def page(rows: Sequence[object], limit: int, key: str = "id") -> dict[str, Any]:
    """Return the fields of a page; one row more than ``limit`` was read, if there are so many.

    ``key``: the field of a row with which the next page is asked for.
    """
    shown, more = tuple(rows[:limit]), len(rows) > limit
    return {"items": shown, "more": more, "next": str(getattr(shown[-1], key)) if more else ""}


def number(value: object) -> object:
    """Return a value, unless it is true or false, which Python counts as numbers."""
    if isinstance(value, bool):
        raise ValueError("write a whole number")
    return value


def parse_duration(value: object) -> object:
    """Return a value in seconds; refuse a text that is neither a length of time nor a number."""
    seconds = in_units(number(value), "seconds")
    if isinstance(seconds, str) and not seconds.isdigit():
        raise ValueError(f"{value!r} is not a duration; write a number and m, h, d or w, e.g. 30m, 12h, 7d, 2w")
    return seconds


def _stripped(value: object) -> object:
    """Strip a reason. A terminal of another encoding may send bytes that are not text; nothing must fail for them."""
    return value.strip().encode(errors="replace").decode() if isinstance(value, str) else value


ONE, EVERY = "about one instance", "about one instance, or all"
Instance = Annotated[
    str, ONE, Field(max_length=63, description="The instance; default: the only one, or that of the token.")
]
Covered = Annotated[
    str | None, EVERY, Field(max_length=63, description="Only this instance; default: all, or that of the token.")
]
Whole = Annotated[int, BeforeValidator(number)]
Reason = Annotated[
    str,
    BeforeValidator(_stripped),
    StringConstraints(min_length=1, max_length=500, pattern=PRINTABLE),
    Field(description="Why; other operators will read it."),
]
Remark = Annotated[
    str,
    BeforeValidator(_stripped),
    StringConstraints(max_length=500, pattern=PRINTABLE),
    Flag("--reason"),
    Field(description="Why; recorded in sexton log."),
]
Before = Annotated[
    Whole | None, Flag("--after", "N"), Field(ge=1, le=MAX_NUMBER, description="`next` of the page before.")
]
"""Of lists with the newest first: the number of the last row of the page before."""
After = Annotated[Whole, Field(ge=0, le=MAX_NUMBER, description="Only those with higher numbers.")]
Limit = Annotated[Whole, Flag("--last", "N"), Field(ge=1, le=1_000, description="How many at most, the newest first.")]
Text = Annotated[str, Field(min_length=1, max_length=2_048, pattern=PRINTABLE)]
MarkName = Annotated[
    str,
    Flag(shown="KIND/ID"),
    Field(pattern=r"^[^\x00-\x1f\x7f/]{1,64}/[^\x00-\x1f\x7f]{1,1024}$", description="The mark: KIND/ID."),
]
DURATION = "a duration"
"""Of values that a person writes with a unit."""
Length = Annotated[
    int,
    DURATION,
    BeforeValidator(parse_duration),
    Flag("--for", "LENGTH"),
    Field(description="How long: 30m, 12h, 7d, 2w; in JSON also seconds."),
]
Names = Annotated[tuple[Annotated[str, Field(max_length=MAX_NAME)], ...], FailFast(), Field(max_length=CHUNK_ITEMS)]
Seconds = Annotated[int, Field(strict=True, description="from now")]
SignedInteger = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)]
"""A whole number that a BIGINT column can store."""
