"""Decisions about one mark, pure: may it be resolved, and what becomes of it after a sweep."""

from sexton.errors import BadInput
from sexton.marks.model import DueMark, Reason, Standing, Verdict
from sexton.storage.policy import ID_CHARACTERS, check_key, check_prefix


def problem(mark: DueMark) -> tuple[Reason, str] | None:
    """Return why a due mark cannot be turned into files, or None. What is unclear is kept."""
    if mark.prefix is None and mark.keys is None:
        return Reason.UNEXPANDED, "it names neither a prefix nor keys, and its owner expands it to nothing"
    if mark.vault is None:
        return Reason.NO_VAULT, "it names no vault"
    try:
        if mark.prefix is not None:
            check_prefix(mark.prefix)
    except BadInput as e:
        return Reason.BAD_PREFIX, str(e)
    try:
        for key in mark.keys or ():
            check_key(key)
    except BadInput as e:
        return Reason.BAD_KEY, str(e)
    return None


def after_sweep(standing: Standing) -> Verdict:
    """Return what becomes of a claimed mark once every file was tried.

    A record goes only when each of its files is confirmed gone. A prefix is listed once more after the upload grace
    (a PUT may land after list and delete), so its first clean sweep leaves it SWEPT.
    """
    if standing.failed:
        return Verdict.FAILED
    if standing.done < standing.files:
        return Verdict.WAITING
    if standing.prefix is not None and standing.swept_at is None:
        return Verdict.SWEPT
    return Verdict.GONE


def covering_prefixes(name: str) -> list[str]:
    """Return every prefix of a key or prefix that ends at a separator, itself included.

    A live prefix that covers the name is among them; so "is anything of this live?" is a test for equality.
    """
    return [name[: i + 1] for i, c in enumerate(name) if c not in ID_CHARACTERS or i + 1 == len(name)]
