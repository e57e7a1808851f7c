"""Decide when a mark is due, and where its files are. Pure; instants in ms since 1970."""

from sexton.kernel.errors import BadInput, SextonError
from sexton.marks.model import Cutoff, DueMark, Expansion, Place, Reason
from sexton.storage.policy import ID_CHARACTERS, check_key, check_prefix


def due_by(retention_seconds: int, now: int) -> Cutoff:
    """Return which marks are due at ``now``: those whose retention, of so many seconds, is over."""
    return Cutoff(now - 1000 * retention_seconds)


def is_due(retention_starts_at: int, cutoff: Cutoff) -> bool:
    """Return whether a mark is due. Its extra retention counts: ``retention_starts_at`` contains it."""
    return retention_starts_at <= cutoff


def goes_beyond(cutoff: Cutoff, other: Cutoff) -> bool:
    """Return whether a mark can be due by a cutoff and not by the other."""
    return cutoff > other


def earlier(first: Cutoff, second: Cutoff) -> Cutoff:
    """Return the cutoff of the marks that are due by both."""
    return min(first, second)


class Unplaced(SextonError):
    """A mark cannot be resolved to files: it is kept."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def as_named(mark: DueMark, *, fence: bool = True) -> Expansion:
    """Return the expansion of a mark that names its own vault and files; it has a problem where it names none."""
    if mark.prefix is None and mark.keys is None:
        problem = "it names neither a prefix nor keys, and its owner expands it to nothing"
        return Expansion(problem=(Reason.UNEXPANDED, problem))
    if mark.vault is None:
        return Expansion(problem=(Reason.NO_VAULT, "it names no vault"))
    place = Place(vault=mark.vault, prefix=mark.prefix, keys=mark.keys, etags=mark.etags)
    return Expansion(places=(place,), fence=fence)


def places(mark: DueMark, expansion: Expansion | None) -> tuple[Place, ...]:
    """Return where a due mark's files are, by its owner's expansion or its own names; raise ``Unplaced`` if unknown."""
    expansion = as_named(mark) if expansion is None else expansion
    if expansion.problem is not None:
        raise Unplaced(*expansion.problem)
    mark_places = tuple(p if p.keys is None else p._replace(keys=tuple(p.keys)) for p in expansion.places)
    for place in mark_places:
        try:
            if place.prefix is not None:
                check_prefix(place.prefix)
        except BadInput as e:
            raise Unplaced(Reason.BAD_PREFIX, str(e)) from e
        try:
            for key in place.keys or ():
                check_key(key)
        except BadInput as e:
            raise Unplaced(Reason.BAD_KEY, str(e)) from e
    return mark_places


def known_places(mark: DueMark, expansion: Expansion | None) -> tuple[Place, ...]:
    """Return where a mark's files are; nothing, where it cannot be resolved to files: then it is kept for that."""
    try:
        return places(mark, expansion)
    except Unplaced:
        return ()


def covering_prefixes(name: str) -> list[str]:
    """Return every prefix of a key or prefix that ends at a separator, itself included.

    A live prefix covers the name only if it is one of these, so liveness is tested by equality.
    """
    return [name[: i + 1] for i, c in enumerate(name) if c not in ID_CHARACTERS or i + 1 == len(name)]


def end_of_prefix(prefix: str) -> str:
    """Return the first name in byte order after all that begin with a prefix, which ends with an ASCII separator."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
