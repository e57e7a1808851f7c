"""List the exact files of marks. Several prefixes are listed in parallel, ahead of the mark being resolved."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.marks.policy import Unplaced, known_places
from sexton.recycle.pacing.policy import THROTTLED
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.storage.model import ListedObject
from sexton.storage.policy import is_rewritten, rewritten_text
from sexton.storage.port import UNREACHABLE, UnknownVault, Vault, VaultFault, Vaults

GIVEN_UP = (UNREACHABLE, THROTTLED)
"""Faults of vaults for which a range waits only once."""
FirstPage = tuple[Sequence[ListedObject], Iterator[Sequence[ListedObject]]]
"""The first page of a listing, and the rest."""
FirstPages = Mapping[Place, "Future[FirstPage]"]
MeantObject = tuple[str, int | None, str, str]
"""Key, bytes, ETag and last write of an object to be deleted; empty, where any ETag or last write is meant."""


class Lister:
    """Lists prefixes for one worker, with a pool that all ranges of the process share."""

    def __init__(self, vaults: Vaults, listings: int) -> None:
        """``listings``: prefixes whose first page is requested at the same time."""
        self._vaults = vaults
        self._listings = listings
        self._pool = ThreadPoolExecutor(listings, thread_name_prefix="list")

    def list_ahead(
        self,
        instance: str,
        active_lease: ActiveLease,
        marks: Sequence[DueMark],
        expansions: Mapping[Ref, Expansion],
        skipped: Set[Ref],
    ) -> Iterator[tuple[DueMark, FirstPages]]:
        """Yield the marks, each with the first pages of its prefixes; these are requested some marks ahead."""
        waiting: deque[tuple[DueMark, FirstPages]] = deque()
        unusable = {name for name, reason in active_lease.faults.items() if reason in GIVEN_UP}
        for mark in marks:
            first_pages: dict[Place, Future[FirstPage]] = {}
            names_keys = mark.ref not in expansions and mark.prefix is None
            is_listed = mark.ref not in skipped and not names_keys
            # A place that is unknown or unusable is reported when the mark is resolved.
            for place in known_places(mark, expansions.get(mark.ref)) if is_listed else ():
                if place.prefix is None or place.vault in unusable:
                    continue
                try:
                    vault = self._vaults.get(instance, place.vault)
                except (UnknownVault, VaultFault):
                    unusable.add(place.vault)  # waiting for it once is enough
                else:
                    first_pages[place] = self._pool.submit(_first_page, vault, place.prefix)
            waiting.append((mark, first_pages))
            if len(waiting) > self._listings:
                yield waiting.popleft()
        yield from waiting


def pages_of(
    vault: Vault, mark: DueMark, place: Place, first_page: "Future[FirstPage] | None"
) -> Iterator[Sequence[MeantObject]]:
    """Yield the objects of one place of a mark, page by page: as listed now, or by their names alone.

    A conditional vault deletes no object without its ETag, so its objects are looked up by name.
    """
    if place.etags:
        yield from _unchanged_objects(vault, mark)
        return
    if place.prefix is None and not vault.spec.conditional:
        yield [(key, None, "", "") for key in place.keys or ()]
        return
    pages: Iterable[Sequence[ListedObject]]
    if place.prefix is None:
        pages = (vault.stat(place.keys or ()),)
    elif first_page is None:
        pages = vault.list(place.prefix)
    else:
        page, rest = first_page.result()
        pages = chain((page,), rest)
    for objects in pages:
        yield [(o.key, o.bytes, o.etag, "") for o in objects]


def _first_page(vault: Vault, prefix: str) -> FirstPage:
    pages = iter(vault.list(prefix))
    return next(pages, ()), pages


def _unchanged_objects(vault: Vault, mark: DueMark) -> Iterator[Sequence[MeantObject]]:
    """Yield the objects that a check found, if all are unchanged; raise ``Unplaced`` if one has changed."""
    etags = dict(zip(mark.keys or (), mark.etags, strict=True))
    written = dict(zip(mark.keys or (), mark.written, strict=True)) if mark.written else {}
    objects = vault.stat(mark.keys or ())
    for listed in objects:
        seen = written.get(listed.key, "")
        if etags[listed.key] and listed.etag != etags[listed.key]:
            change = f"was found with ETag {etags[listed.key]} and has {listed.etag} now"
            raise Unplaced(Reason.CHANGED, f"{listed.key!r} {change}")
        if is_rewritten(listed.written, seen):
            raise Unplaced(Reason.CHANGED, f"{listed.key!r} {rewritten_text(listed.written, seen)}")
    if len(objects) == len(etags) and (size := sum(o.bytes for o in objects)) != mark.bytes:
        raise Unplaced(Reason.CHANGED, f"{objects[0].key!r} was found with {mark.bytes} bytes and has {size} now")
    yield [(o.key, o.bytes, o.etag, written.get(o.key, "")) for o in objects]
