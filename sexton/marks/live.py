"""Live entries: objects that the owner's records or marks name, and the parts in which they are read. Pure values."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from sexton.storage.policy import ID_CHARACTERS, MAX_KEY_BYTES, canonical

MOST_SHOWN = 1_000
"""Characters of an owner's text that are read where people will read it."""
MOST_KEY = 4_097
"""Characters of a live key that are read: more than any object's key has."""


def names_prefix(key: str, size: int | None) -> bool:
    """Return whether a live row names a prefix. A row with a size is an object, whatever its key ends with."""
    return size is None and key[-1] not in ID_CHARACTERS


def short_key(key: str) -> str:
    """Return a key of at most 1,024 bytes: a longer one is cut, and ends with a digest of the whole."""
    data = key.encode(errors="surrogatepass")
    if len(data) <= MAX_KEY_BYTES:
        return key
    return f"{data[:1_000].decode(errors='ignore')}…{hashlib.sha256(data).hexdigest()[:16]}"


class LiveEntry(NamedTuple):
    """An object that a record or mark names, or with ``prefix`` every object whose key begins with ``key``.

    ``live``: the object must exist; otherwise it may exist (waiting garbage, or a file being written).
    ``bytes``: the object's size, None if the owner does not record it. ``record``: ``KIND/ID`` of the record that
    names it, or of the mark.
    """

    vault: str
    key: str
    prefix: bool
    live: bool
    bytes: int | None = None
    record: str = ""

    @property
    def name(self) -> str:
        """Return the canonical form of the key, in which keys are compared."""
        return canonical(self.key)


LivePage: TypeAlias = Sequence[LiveEntry] | Any
"""Entries, or an Arrow record batch of them: columns with the names and types of the fields, and no object for each."""


class Part(NamedTuple):
    """A part of the live side that is read on its own: the rows of one source in a range of ids."""

    source: str = ""
    """Name of the source."""
    after: str = ""
    until: str = ""
