"""Cut the listing of a vault into parts that can be listed side by side. Pure.

Parts follow folders, whose keys are neighbours in every store's order, or keys, where a store lists in byte order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from sexton.storage.model import RESERVED_PREFIX, Probe, Shard


def in_bytes(probe: Probe | None) -> bool:
    """Tell whether a probe showed that a store lists in byte order from any key on, so any key can cut a listing."""
    return probe is not None and probe.order == "byte" and probe.start_after is True


def cut(shard: Shard, points: Iterable[str]) -> list[Shard]:
    """Cut a part into ranges of keys, at the points that are within it; for stores that are ``in_bytes``."""
    low, high = shard.after, shard.until
    inner = sorted(p for p in set(points) if p.startswith(shard.prefix) and p > low and (not high or p < high))
    return [shard._replace(after=after, until=until) for after, until in pairwise([low, *inner, high])]


def spread(folders: Callable[[str], Sequence[str] | None], count: int) -> list[Shard]:
    """Cut a vault along its folders, from the top, into about ``count`` parts.

    Args:
        folders: returns the folders directly in one, as paths that end with ``/``; None where it has too many
            folders, or too many other keys, to list them.
        count: the number of parts; there are fewer where folders are few or flat, more where one has many.
    """
    parts: list[Shard] = []
    uncut = deque([""])
    for _ in range(2 * count):  # a chain of folders gives no parts, however long it is
        if not uncut or len(parts) + len(uncut) >= count:
            break
        folder = uncut.popleft()
        inner = folders(folder)
        parts.append(Shard(folder, loose=bool(inner)))
        uncut.extend(path for path in inner or () if path != RESERVED_PREFIX)
    return sorted([*parts, *map(Shard, uncut)])
