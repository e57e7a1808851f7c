"""Between rows of ``protection`` and values, and the sums by which a registration is known again."""

import hashlib
from collections.abc import Iterable
from typing import Any

from sexton.protection.model import Item, Protection, Sealed


def protection(row: Any) -> Protection:
    """Return the row as a value."""
    names = ("instance", "job", "owner", "description", "state", "valid_ts", "registered_at", "expires_at")
    more = {n: row._mapping[n] for n in (*names, "finished_at", "digest")}
    sealed = row._mapping["sealed"]
    return Protection(id=row.id, sealed=None if sealed is None else Sealed(**sealed), **more)


def digest(items: Iterable[Item], filter_: bytes = b"") -> str:
    """Return a sum of what is registered, whatever its order."""
    whole = hashlib.sha256(filter_)
    for item in sorted(items):
        whole.update(f"{item.vault}\0{item.key}\0{item.prefix:d}\n".encode())
    return whole.hexdigest()
