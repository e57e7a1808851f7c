"""Cut the listing of a vault into parts that can be listed side by side. Pure.

Parts follow folders, whose keys are neighbours in every store's order, or keys, where a store lists in byte order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from sexton.storage.model import RESERVED_PREFIX, Probe, VaultPart

FIRST_CODE, CODES = ord("!"), ord("~") - ord("!") + 1
"""The characters with which names are halved: visible ASCII."""
LAST_ASCII = "~~"


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


def cut_in_bytes(
    folders: Callable[[str], Sequence[str] | None], first_key: Callable[[VaultPart], str | None], count: int
) -> list[VaultPart]:
    """Cut a vault whose store lists in byte order into about ``count`` parts, whatever its folders are.

    Args:
        folders: as for ``spread``.
        first_key: returns the first key of a part; None: the part is empty.
        count: the number of parts; there are fewer where keys are few.
    """
    parts = spread(folders, count)
    paths = [part.prefix for part in parts if part.prefix]
    if len(paths) >= count:  # ranges of neighbouring folders
        return cut(VaultPart(), (paths[len(paths) * n // count] for n in range(1, count)))
    each = count // len(parts)
    return [piece for part in parts for piece in cut(part, find_points(part, first_key, each))]


def find_points(part: VaultPart, first_key: Callable[[VaultPart], str | None], count: int) -> list[str]:
    """Return points that cut a part into about ``count`` pieces, each with a key at least.

    The names between two keys are halved again and again, so keys that are spread evenly over their alphabet give
    pieces of about the same size. Each try is one request, and there are at most about three for each piece.
    """
    first = first_key(part) if count > 1 else None
    if first is None:
        return []
    points: list[str] = []
    intervals = deque([(first, _end_of_all(part, first, first_key))])
    for _ in range(3 * count):
        if not intervals or len(points) >= count - 1:
            break
        low, high = intervals.popleft()
        middle = _between(low, high)
        if middle is None:
            continue
        key = first_key(part._replace(after=middle))
        if key is None or key >= high:
            intervals.appendleft((low, middle))
        else:
            points.append(middle)
            intervals += [(low, middle), (key, high)]
    return points


def _end_of_all(part: VaultPart, first: str, first_key: Callable[[VaultPart], str | None]) -> str:
    """Return a name beyond the keys of a part, with the characters that all of them begin with; a few requests."""
    least, most = len(part.prefix), max(len(part.prefix), len(first) - 1)
    while least < most:
        middle = (least + most + 1) // 2
        if first_key(part._replace(after=first[:middle] + LAST_ASCII)) is None:
            least = middle
        else:
            most = middle - 1
    return first[:least] + LAST_ASCII


def _between(low: str, high: str) -> str | None:
    """Return a name between two others, by the first characters in which they differ; None: they are neighbours."""
    shared = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    # The next two characters as a number; a missing one is the smallest, one beyond ASCII the largest.
    codes = [
        [min(max(ord(c) - FIRST_CODE, 0), CODES - 1) for c in n[shared : shared + 2]] + [0, 0] for n in (low, high)
    ]
    middle = sum(first * CODES + second for first, second, *_ in codes) // 2
    name = low[:shared] + chr(FIRST_CODE + middle // CODES) + chr(FIRST_CODE + middle % CODES)
    return name if low < name < high else None
