"""How the listing of a vault is cut into parts that can be listed side by side. Pure.

Along folders, which every store keeps together in its order; or by keys, where a store lists in byte order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from sexton.storage.model import RESERVED_PREFIX, Probe, Shard


def in_bytes(probe: Probe | None) -> bool:
    """Tell whether a store was seen to list in byte order and from any key on: its listing can be cut anywhere."""
    return probe is not None and probe.order == "byte" and probe.start_after is True


def cut(shard: Shard, points: Iterable[str]) -> list[Shard]:
    """Cut a part in ranges of keys, at those of the points that lie within it; for stores that are ``in_bytes``."""
    low, high = shard.after, shard.until
    within = sorted(p for p in set(points) if p.startswith(shard.prefix) and p > low and (not high or p < high))
    return [shard._replace(after=a, until=b) for a, b in pairwise([low, *within, high])]


def spread(folders: Callable[[str], Sequence[str] | None], count: int) -> list[Shard]:
    """Cut a vault along its folders, from the top, into about so many parts.

    Args:
        folders: asked for the folders directly in one, as paths that end with ``/``; None where it has too many, or
            too much beside them, to be looked through.
        count: parts that are wanted; there are fewer where folders are few or flat, more where one has many.
    """
    parts: list[Shard] = []
    whole = deque([""])
    for _ in range(2 * count):  # a chain of folders gives no parts, however long it is
        if not whole or len(parts) + len(whole) >= count:
            break
        at = whole.popleft()
        inner = folders(at)
        parts.append(Shard(at, loose=bool(inner)))
        whole.extend(name for name in inner or () if name != RESERVED_PREFIX)
    return sorted([*parts, *map(Shard, whole)])
