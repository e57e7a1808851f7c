"""Cuts that are granted to a storage node, their results, and its meta store's entries. Versions are inclusive. Pure.

An entry has two keys, ``binlog_meta_{tablet uid}_{version, 20 digits}_{rowset}`` and ``binlog_data_…``; its files are
``{tablet's path}/_binlog/{rowset}_{segment}.dat``. Any other form is ``Malformed``: nothing is guessed, and no parsed
path leads out of the data directory.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message, StrictMessage

ID = r"[A-Za-z0-9.-]{1,128}"
"""A uid of a tablet or an id of a rowset: without ``_``, so that a key is unambiguous, and without ``/``."""
MAX_VERSION = 2**62
MAX_SEGMENTS = 10_000
"""Segments of one rowset; an entry that names more is damaged."""
NOTHING = -1
"""The version up to which everything is deleted, if no version is known to be deleted."""
MAX_MESSAGES = 5


def number_as_text(value: object) -> object:
    """Accept numbers as ids: many databases number their objects."""
    return str(value) if type(value) is int else value


Id = Annotated[str, BeforeValidator(number_as_text), Field(pattern=rf"^{ID}$")]
Version = Annotated[int, Field(ge=0, le=MAX_VERSION)]


class GrantedCut(Message):
    """All binlogs of a tablet up to a version may be deleted."""

    uid: Id
    tablet: Id
    version: Version


class SweepOutcome(StrEnum):
    """The outcome of deleting one tablet's binlogs."""

    DONE = "done"
    UNKNOWN = "unknown"
    """The node has no tablet of that uid."""
    QUARANTINED = "quarantined"
    """An entry is unreadable or contradictory: it stays until an operator has reviewed it; the others were deleted."""
    FAILED = "failed"
    """A file could not be deleted; the next sweep tries again."""


class CutDone(StrictMessage):
    """A backend's acknowledgement: all binlogs up to ``version`` are deleted, whatever the outcome; -1: not known."""

    uid: str
    version: int
    outcome: str = SweepOutcome.DONE.value
    """A ``SweepOutcome``; any other text counts as a problem, too."""
    detail: str = ""


class GrantedCutPage(NamedTuple):
    """A page of cuts in the order of their uids. ``next``: the cursor of the next page; empty: this was the last."""

    cuts: Sequence[GrantedCut]
    next: str = ""
    refused: Sequence[str] = ()
    """Items that could not be read as a cut, in words; nothing is deleted for them."""


class SweepOrder(Message):
    """The tablets to sweep: uids after ``after``, up to and including ``until``. Empty: no bound."""

    instance: str = ""
    after: str = ""
    until: str = ""


class Swept(Message):
    """The result of a sweep, in numbers; the result of each tablet is acknowledged to the API."""

    tablets: int = 0
    files: int = 0
    keys: int = 0
    bytes: int = 0
    unknown: int = 0
    quarantined: int = 0
    failed: int = 0
    """Tablets whose files could not be deleted, and cuts that could not be read."""
    pages: int = 0
    said: tuple[str, ...] = ()
    """The first few problems, in words."""

    def __add__(self, other: "Swept") -> "Swept":
        """Return the sum of both results."""
        counts = {name: getattr(self, name) + getattr(other, name) for name in Swept.model_fields if name != "said"}
        return Swept(**counts, said=(self.said + other.said)[:MAX_MESSAGES])


class BinlogMeta(Message):
    """The value of a ``binlog_meta_…`` key, in JSON."""

    version: Version
    tablet_id: Id
    num_segments: Annotated[int, Field(ge=0, le=MAX_SEGMENTS)]
    creation_time: int = 0
    """In seconds since 1970. Nothing needs it, but an entry whose time is damaged is damaged."""
    rowset_id_v2: Id | None = None
    """None: an old entry; its rowset is the last part of the key."""


class TabletEntry(Message):
    """The value of a ``tablet_{uid}`` key, in JSON. ``path``: below the data directory."""

    tablet: Id
    path: Annotated[str, Field(max_length=1024)]


META, DATA, TABLET = b"binlog_meta_", b"binlog_data_", b"tablet_"
BACKEND_KEY = b"backend_id"
"""The key under which the store has the id of its backend."""
FOLDER = "_binlog"
MAX_VALUE_BYTES = 65_536
"""Bytes of an entry's value; a longer value is damaged."""
MAX_FOLDERS = 16

_ID = ID.encode()
_KEY = re.compile(rb"binlog_meta_(%s)_([0-9]{20})_(%s)" % (_ID, _ID))
_VERSION = re.compile(rb"binlog_meta_%s_([0-9]{20})_" % _ID)
_UID = re.compile(ID)
_PART = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,255}")
M = TypeVar("M", bound=Message)


class Malformed(SextonError):
    """A key, a value or an id has the wrong form. ``version``: the version in the key, if it can be read."""

    def __init__(self, why: str, version: int | None = None) -> None:
        super().__init__(why)
        self.version = version


class BinlogKey(NamedTuple):
    """The parts of an entry's key."""

    uid: str
    version: int
    rowset: str


class BinlogFiles(NamedTuple):
    """An entry whose files may be deleted: its key, its rowset, and how many segments that has."""

    key: bytes
    rowset: str
    segments: int

    def both_keys(self) -> tuple[bytes, bytes]:
        """Return the two keys of the entry, which are deleted together."""
        return self.key, DATA + self.key.removeprefix(META)

    def files(self) -> Iterator[str]:
        """Yield the names of the entry's files in the tablet's binlog folder."""
        return (f"{self.rowset}_{n}.dat" for n in range(self.segments))


def tablet_key(uid: str) -> bytes:
    """Return the key under which a tablet is registered."""
    return TABLET + _uid(uid)


def prefix(uid: str) -> bytes:
    """Return the common prefix of a tablet's ``binlog_meta_`` keys."""
    return META + _uid(uid) + b"_"


def key_range(uid: str, version: int) -> tuple[bytes, bytes]:
    """Return the bounds of the keys of all entries up to a version: the first key, and the key after the last."""
    return prefix(uid), prefix(uid) + b"%020d_" % (version + 1)


def stray_key_range(uid: str) -> tuple[bytes, bytes]:
    """Return the bounds of keys that no version can have: a version begins with 0, unless the zeros were left out."""
    return prefix(uid) + b"1", META + _uid(uid) + b"`"  # the character after "_"


def parse_key(key: bytes) -> BinlogKey:
    """Return the parts of an entry's key; raise ``Malformed``."""
    match = _KEY.fullmatch(key)
    if match is None or int(match[2]) > MAX_VERSION:
        version = _VERSION.match(key)
        raise Malformed(f"{_printable(key)} is not a key of a binlog", int(version[1]) if version else None)
    return BinlogKey(match[1].decode(), int(match[2]), match[3].decode())


def parse_entry(key: bytes, value: bytes, uid: str, tablet: str) -> BinlogFiles:
    """Return the files of an entry; ``uid`` and ``tablet``: of the registered tablet that it must belong to.

    Raises:
        Malformed: the entry cannot be read, or key, value and registration contradict one another.
    """
    parts = parse_key(key)
    try:
        entry = _parse_value(BinlogMeta, value)
        if parts.uid != uid:
            raise Malformed(f"it belongs to tablet {parts.uid}, not {uid}")
        if entry.version != parts.version:
            raise Malformed(f"its value has version {entry.version}")
        if entry.tablet_id != tablet:
            raise Malformed(f"its value belongs to tablet {entry.tablet_id}, not {tablet}")
        # With two rowsets for one binlog, the other rowset's files may belong to an entry that stays.
        if entry.rowset_id_v2 not in (None, parts.rowset):
            raise Malformed(f"its value has rowset {entry.rowset_id_v2}")
    except Malformed as e:
        raise Malformed(f"{_printable(key)}: {e}", parts.version) from None
    return BinlogFiles(key, parts.rowset, entry.num_segments)


def parse_tablet(value: bytes) -> tuple[str, list[str]]:
    """Return the id of a registered tablet, and the folders that lead to it from the data directory.

    Raises:
        Malformed: the value cannot be read, or its path leads out of the data directory.
    """
    entry = _parse_value(TabletEntry, value)
    folders = entry.path.split("/")
    if len(folders) > MAX_FOLDERS or not all(_PART.fullmatch(part) for part in folders):
        raise Malformed(f"{entry.path!r} is not a path below the data directory; write a/b/c")
    return entry.tablet, folders


def _parse_value(kind: type[M], value: bytes) -> M:
    if len(value) > MAX_VALUE_BYTES:
        raise Malformed(f"its value is longer than {MAX_VALUE_BYTES} bytes")
    try:
        return kind.model_validate_json(value, strict=True)
    except ValidationError as e:
        first = e.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"its value cannot be read: {where + ': ' if where else ''}{first['msg']}") from None


def _uid(uid: str) -> bytes:
    if not _UID.fullmatch(uid):
        raise Malformed(f"{uid[:130]!r} is not a uid of a tablet")
    return uid.encode()


def _printable(key: bytes) -> str:
    return ascii(key.decode(errors="backslashreplace"))[1:-1][:300]
