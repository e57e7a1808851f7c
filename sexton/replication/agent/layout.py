"""Parse the keys and values of a node's meta store, and build the names of its binlog files. Pure.

An entry has two keys, ``binlog_meta_{tablet uid}_{version, 20 digits}_{rowset}`` and ``binlog_data_…``; its files are
``{tablet's path}/_binlog/{rowset}_{segment}.dat``. Any other form is ``Malformed``: nothing is guessed, and no parsed
path leads out of the data directory.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.replication.agent.model import ID, MAX_VERSION, BinlogMeta, TabletEntry

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
    """Return the files of an entry.

    Args:
        key: the key of the entry.
        value: the value of the entry, in JSON.
        uid: the uid of the tablet that the entry must belong to.
        tablet: the id under which that tablet is registered.

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
