"""How a node names binlogs in its meta store and on its disk: key and value → what it is, and back.

Pure. ``binlog_meta_{tablet uid}_{version, 20 digits}_{rowset}`` and ``binlog_data_…`` alike; the files are
``{tablet's path}/_binlog/{rowset}_{segment}.dat``. What is not exactly so is ``Malformed``: nothing is guessed, and
nothing read here leads out of the data directory.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message
from sexton.replication.agent.model import ID, MOST_VERSION, BinlogMeta, TabletEntry

META, DATA, TABLET = b"binlog_meta_", b"binlog_data_", b"tablet_"
BACKEND_KEY = b"backend_id"
"""Under it the store keeps whose it is."""
FOLDER = "_binlog"
MOST_VALUE = 65_536
"""Bytes of an entry's value; a longer one is damaged."""
MOST_FOLDERS = 16

_ID = ID.encode()
_KEY = re.compile(rb"binlog_meta_(%s)_([0-9]{20})_(%s)" % (_ID, _ID))
_VERSION = re.compile(rb"binlog_meta_%s_([0-9]{20})_" % _ID)
_UID = re.compile(ID)
_PART = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,255}")
M = TypeVar("M", bound=Message)


class Malformed(SextonError):
    """A key, a value or an id is not as it must be. ``version``: of the key, where that much can be read."""

    def __init__(self, why: str, version: int | None = None) -> None:
        super().__init__(why)
        self.version = version


class BinlogKey(NamedTuple):
    """What the key of an entry says."""

    uid: str
    version: int
    rowset: str


class BinlogFiles(NamedTuple):
    """One entry whose files may go: its two keys, and of which rowset how many segments."""

    key: bytes
    rowset: str
    segments: int

    def both(self) -> tuple[bytes, bytes]:
        """Return the keys that go together."""
        return self.key, DATA + self.key.removeprefix(META)

    def files(self) -> Iterator[str]:
        """Yield the names of its files in the tablet's folder of binlogs."""
        return (f"{self.rowset}_{n}.dat" for n in range(self.segments))


def meta_key(uid: str, version: int, rowset: str) -> bytes:
    """Return the key of an entry."""
    key = prefix(uid) + b"%020d_%s" % (version, rowset.encode())
    if parse_key(key) != (uid, version, rowset):
        raise Malformed(f"version {version} of rowset {rowset!r} cannot be part of a key")
    return key


def data_key(uid: str, version: int, rowset: str) -> bytes:
    """Return the key beside it."""
    return DATA + meta_key(uid, version, rowset).removeprefix(META)


def tablet_key(uid: str) -> bytes:
    """Return the key under which a tablet is registered."""
    return TABLET + _uid(uid)


def prefix(uid: str) -> bytes:
    """Return what the keys of all entries of a tablet begin with."""
    return META + _uid(uid) + b"_"


def bounds(uid: str, version: int) -> tuple[bytes, bytes]:
    """Return the first key, and the one behind the last, of all entries up to a version."""
    return prefix(uid), prefix(uid) + b"%020d_" % (version + 1)


def strays(uid: str) -> tuple[bytes, bytes]:
    """Return the bounds of keys that no version can have: each begins with 0, unless somebody left the zeros out."""
    return prefix(uid) + b"1", META + _uid(uid) + b"`"  # the character behind "_"


def parse_key(key: bytes) -> BinlogKey:
    """Return what the key of an entry says, or raise ``Malformed``."""
    found = _KEY.fullmatch(key)
    if found is None or int(found[2]) > MOST_VERSION:
        some = _VERSION.match(key)
        raise Malformed(f"{_shown(key)} is no key of a binlog", int(some[1]) if some else None)
    return BinlogKey(found[1].decode(), int(found[2]), found[3].decode())


def binlog(key: bytes, value: bytes, uid: str, tablet: str) -> BinlogFiles:
    """Return what an entry names.

    Args:
        key: its key.
        value: in JSON.
        uid: whose it must be.
        tablet: the id under which that is registered.

    Raises:
        Malformed: it cannot be read, or key, value and registration contradict one another.
    """
    its = parse_key(key)
    try:
        entry = _read(BinlogMeta, value)
        if its.uid != uid:
            raise Malformed(f"it is of tablet {its.uid}, not {uid}")
        if entry.version != its.version:
            raise Malformed(f"its value is of version {entry.version}")
        if entry.tablet_id != tablet:
            raise Malformed(f"its value is of tablet {entry.tablet_id}, not {tablet}")
        # Two rowsets for one binlog: the other one's files may belong to an entry that stays.
        if entry.rowset_id_v2 not in (None, its.rowset):
            raise Malformed(f"its value is of rowset {entry.rowset_id_v2}")
    except Malformed as e:
        raise Malformed(f"{_shown(key)}: {e}", its.version) from None
    return BinlogFiles(key, its.rowset, entry.num_segments)


def tablet(value: bytes) -> tuple[str, list[str]]:
    """Return the id of a registered tablet and the folders that lead to it from the data directory.

    Raises:
        Malformed: it cannot be read, or leads somewhere else.
    """
    its = _read(TabletEntry, value)
    folders = its.path.split("/")
    if len(folders) > MOST_FOLDERS or not all(_PART.fullmatch(part) for part in folders):
        raise Malformed(f"{its.path!r} is no path below the data directory; write a/b/c")
    return its.tablet, folders


def _read(kind: type[M], value: bytes) -> M:
    if len(value) > MOST_VALUE:
        raise Malformed(f"its value is longer than {MOST_VALUE} bytes")
    try:
        return kind.model_validate_json(value, strict=True)
    except ValidationError as e:
        first = e.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"its value cannot be read: {where + ': ' if where else ''}{first['msg']}") from None


def _uid(uid: str) -> bytes:
    if not _UID.fullmatch(uid):
        raise Malformed(f"{uid[:130]!r} is no uid of a tablet")
    return uid.encode()


def _shown(key: bytes) -> str:
    return ascii(key.decode(errors="backslashreplace"))[1:-1][:300]
