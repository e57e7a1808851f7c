"""Cut the listing of a vault into parts that can be listed side by side. Pure.

Parts follow folders, whose keys are neighbours in every store's order, or keys, where a store lists in byte order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from sexton.storage.model import RESERVED_PREFIX, Probe, VaultPart


def in_bytes(probe: Probe | None) -> bool:
    """Tell whether a probe showed that a store lists in byte order from any key on, so any key can cut a listing."""
    return probe is not None and probe.order == "byte" and probe.start_after is True


def cut(part: VaultPart, points: Iterable[str]) -> list[VaultPart]:
    """Cut a part into ranges of keys, at the points that are within it; for stores that are ``in_bytes``."""
    low, high = part.after, part.until
    inner = sorted(p for p in set(points) if p.startswith(part.prefix) and p > low and (not high or p < high))
    return [part._replace(after=after, until=until) for after, until in pairwise([low, *inner, high])]


def spread(folders: Callable[[str], Sequence[str] | None], count: int) -> list[VaultPart]:
    """Cut a vault along its folders, from the top, into about ``count`` parts.

    Args:
        folders: returns the folders directly in one, as paths that end with ``/``; None where it has too many
            folders, or too many other keys, to list them.
        count: the number of parts; there are fewer where folders are few or flat, more where one has many.
    """
    parts: list[VaultPart] = []
    uncut = deque([""])
    for _ in range(2 * count):  # a chain of folders gives no parts, however long it is
        if not uncut or len(parts) + len(uncut) >= count:
            break
        folder = uncut.popleft()
        inner = folders(folder)
        parts.append(VaultPart(folder, loose=bool(inner)))
        uncut.extend(path for path in inner or () if path != RESERVED_PREFIX)
    return sorted([*parts, *map(VaultPart, uncut)])
