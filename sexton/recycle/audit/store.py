"""Search the log of deletions, reading only the files that SQL shows to be relevant.

A few files are read at once, never all of them in memory.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from sqlalchemy import and_, or_, select

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.marks.model import SECOND_PASS
from sexton.recycle.audit import writer
from sexton.recycle.audit.model import AuditFile, AuditRow, AuditUnreadable, day, days, folder, parse, round_folder
from sexton.recycle.audit.writer import AuditLocations
from sexton.storage.port import UnknownVault, Vault, VaultFault

AT_ONCE = 8
"""Files fetched at the same time; each has about 8,000 rows, 100 to 300 KB."""
COUNTED_FILES = 10_000
"""How many files are counted at most: an estimate must not list millions."""


class Claim(NamedTuple):
    """When a mark was claimed, by which batch, and until when its files were deleted, as SQL knows it.

    ``kinds``: the kinds of batch that may have claimed it; instants are in ms since 1970.
    """

    instance: str
    kinds: frozenset[str]
    batch: int
    claimed_at: int
    until: int


class Size(NamedTuple):
    """How much a search reads; ``whole`` is False where counting ended early."""

    files: int
    bytes: int
    whole: bool


class AuditReader:
    """Reads the log of deletions in all locations of an instance.

    Each answer yields all rows that can be read, and then raises the first error that made others unreadable:
    ``VaultFault``, ``UnknownVault`` or ``AuditUnreadable``. So an answer without an error is complete.
    """

    def __init__(self, db: Database, places: AuditLocations) -> None:
        self._db = db
        self._places = places

    def rows(self, round_: int) -> Iterator[AuditRow]:
        """Yield the objects that one round tried to delete: each outcome of each object once.

        An object that failed and was deleted in another attempt of the round has two rows. A round that finishes work
        from before a crash writes its rows again, under its own number.

        Raises:
            BadInput: there is no such round.
        """
        t = self._db.t.round
        with self._db.read() as c:
            row = c.execute(select(t.c.instance, t.c.started_at, t.c.ended_at).where(t.c.id == round_)).one_or_none()
            now = self._db.now(c)
        if row is None:
            raise BadInput(f"there is no round {round_}; see: sexton round list")
        spans = {round_: (row.started_at, row.ended_at or now)}
        return self._read(row.instance, lambda vault: _of_rounds(vault, row.instance, spans))

    def rows_of_mark(self, claim: Claim, names: Collection[str]) -> Iterator[AuditRow]:
        """Yield rows of these keys or mark ids from the files that may hold the deletion of one claimed mark.

        The second pass of a prefix has another batch than the claim. So the files of all batches are read that the
        round of the claim had for such marks, and of all second passes since.
        """
        t = self._db.t
        spans, claiming_rounds = {}, []
        with self._db.read() as c:
            rounds = select(t.round.c.id, t.round.c.started_at, t.round.c.ended_at).where(
                t.round.c.instance == claim.instance,
                t.round.c.started_at <= claim.until,
                or_(t.round.c.ended_at.is_(None), t.round.c.ended_at >= claim.claimed_at),
            )
            for row in c.execute(rounds):
                ended = claim.until if row.ended_at is None else row.ended_at
                spans[row.id] = (max(row.started_at, claim.claimed_at), min(ended, claim.until))
                if row.started_at <= claim.claimed_at:
                    claiming_rounds.append(row.id)
            second_passes = and_(t.batch.c.round.in_(spans), t.batch.c.kind == SECOND_PASS)
            claims = and_(t.batch.c.round.in_(claiming_rounds), t.batch.c.kind.in_(claim.kinds))
            batch_ids = select(t.batch.c.id).where(or_(second_passes, claims))
            batches = {claim.batch, *c.execute(batch_ids).scalars()}
        return self._read(claim.instance, lambda vault: _of_rounds(vault, claim.instance, spans, batches), names)

    def search(self, instance: str, names: Collection[str], since: int, until: int) -> Iterator[AuditRow]:
        """Yield rows of these keys or mark ids from every file of some days, for marks that SQL has forgotten."""
        return self._read(instance, lambda vault: _of_days(vault, instance, since, until), names)

    def size(self, instance: str, since: int, until: int) -> Size:
        """Return how much a search reads, without the locations that cannot be read: the search reports those."""
        count = size = 0
        for open_location in self._places.to_read(instance):
            try:
                for file in _of_days(open_location(), instance, since, until):
                    if count == COUNTED_FILES:
                        return Size(count, size, whole=False)
                    count, size = count + 1, size + file.bytes
            except (VaultFault, UnknownVault):
                continue
        return Size(count, size, whole=True)

    def _read(
        self, instance: str, files_in: Callable[[Vault], Iterable[AuditFile]], names: Collection[str] = ()
    ) -> Iterator[AuditRow]:
        faults: list[VaultFault | UnknownVault | AuditUnreadable] = []
        for open_location in self._places.to_read(instance):
            try:
                vault = open_location()
                yield from _without_repeats(_rows(vault, files_in(vault), names))
            except (VaultFault, UnknownVault, AuditUnreadable) as e:
                faults.append(e)
        if faults:
            raise faults[0]


def _of_rounds(
    vault: Vault, instance: str, spans: dict[int, tuple[int, int]], batches: Collection[int] = ()
) -> list[AuditFile]:
    """Return the files of an instance's rounds in a vault, in the order of batches.

    ``spans``: round → its first and last instant, in ms since 1970. ``batches``: only files of these; empty: of all.
    """
    files = []
    for round_, (first, last) in spans.items():
        for of_day in days(first, last):
            files_of_day = _files(vault, round_folder(instance, of_day, round_))
            files += [file for file in files_of_day if not batches or file.batch in batches]
    return sorted(files, key=lambda file: (file.batch, file.round, file.name))


def _of_days(vault: Vault, instance: str, since: int, until: int) -> Iterator[AuditFile]:
    """Yield the files from the day of one instant to the day of another, in order."""
    first, last = day(since), day(until)
    for file in _files(vault, folder(instance)):
        if file.day > last:
            return
        if file.day >= first:
            yield file


def _files(vault: Vault, folder: str) -> Iterator[AuditFile]:
    """Yield the files of the log below a folder, by day and round."""
    for page in vault.list_own(folder):
        yield from (file for listed in page if (file := parse(listed.key, listed.bytes)) is not None)


def _rows(vault: Vault, files: Iterable[AuditFile], names: Collection[str] = ()) -> Iterator[AuditRow]:
    """Yield the rows of files, with ``names`` only the rows of these keys or mark ids.

    Raises:
        VaultFault: the location cannot be read.
        AuditUnreadable: a file is damaged.
    """
    waiting, fetching = iter(files), deque[tuple[str, Future[bytes | None]]]()
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="audit") as pool:
        try:
            while True:
                for file in islice(waiting, AT_ONCE - len(fetching)):
                    fetching.append((file.name, pool.submit(vault.read_own, file.name)))
                if not fetching:
                    return
                name, future = fetching.popleft()
                data = future.result()
                if data is not None:  # None: its retention ended, and it was removed since it was listed
                    yield from writer.decode(data, name, names)
        finally:
            for _, future in fetching:
                future.cancel()


def _without_repeats(rows: Iterable[AuditRow]) -> Iterator[AuditRow]:
    """Yield each outcome of each object of a batch once, even if it was written again after a crash.

    Remembers 16 bytes for each row of one batch, so the rows of a batch must not be interrupted by another batch. A
    batch numbers its files again after their records were deleted, so ``seq`` does not identify them, but names do.
    """
    batch, seen = -1, set[bytes]()
    for row in rows:
        if row.batch != batch:
            batch, seen = row.batch, set()
        text = "\0".join((row.kind, row.id, row.vault, row.key, row.outcome))
        identity = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if identity not in seen:
            seen.add(identity)
            yield row
