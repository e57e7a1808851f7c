"""Decisions about one mark, pure: may it be resolved, and what becomes of it after a sweep."""

from sexton.kernel.errors import BadInput, SextonError
from sexton.marks.model import DeletionCounts, DueMark, Expansion, Place, Reason, Settlement
from sexton.storage.policy import ID_CHARACTERS, check_key, check_prefix


class Unplaced(SextonError):
    """A mark cannot be turned into files; what is unclear is kept."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def places(mark: DueMark, told: Expansion | None) -> tuple[Place, ...]:
    """Return where the files of a due mark are, by its owner's word or its own, or raise ``Unplaced``."""
    if told is not None and told.problem is not None:
        raise Unplaced(*told.problem)
    if told is not None:
        found = told.places
    elif mark.prefix is None and mark.keys is None:
        raise Unplaced(Reason.UNEXPANDED, "it names neither a prefix nor keys, and its owner expands it to nothing")
    elif mark.vault is None:
        raise Unplaced(Reason.NO_VAULT, "it names no vault")
    else:
        found = (Place(vault=mark.vault, prefix=mark.prefix, keys=mark.keys, etags=mark.etags),)
    for place in found:
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
    return found


def after_sweep(standing: DeletionCounts) -> Settlement:
    """Return what becomes of a claimed mark once every file was tried.

    A record goes only when each of its files is confirmed gone. A prefix is listed once more after the upload grace
    (a PUT may land after list and delete), so its first clean sweep leaves it SWEPT.
    """
    if standing.changed:
        return Settlement.CHANGED
    if standing.failed:
        return Settlement.FAILED
    if standing.done < standing.files:
        return Settlement.WAITING
    if standing.lacking:
        return Settlement.LACKING
    if standing.prefix is not None and standing.swept_at is None:
        return Settlement.SWEPT
    return Settlement.GONE


def covering_prefixes(name: str) -> list[str]:
    """Return every prefix of a key or prefix that ends at a separator, itself included.

    A live prefix that covers the name is among them; so "is anything of this live?" is a test for equality.
    """
    return [name[: i + 1] for i, c in enumerate(name) if c not in ID_CHARACTERS or i + 1 == len(name)]
