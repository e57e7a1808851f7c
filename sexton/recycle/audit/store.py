"""Answers questions about objects that were tried, reading no more files of the audit than SQL says are needed."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import and_, or_, select

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.marks.model import LATE
from sexton.recycle.audit import naming, reader
from sexton.recycle.audit.locations import Places
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.naming import AuditFile
from sexton.recycle.audit.port import AuditUnreadable
from sexton.storage.port import UnknownVault, Vault, VaultFault

COUNTED_FILES = 10_000
"""Files after which counting them ends: a hint must not list millions."""


class Claim(NamedTuple):
    """When a mark was claimed and until when its files went, as SQL knows it; ``kinds``: under which it may have."""

    instance: str
    kinds: frozenset[str]
    batch: int
    claimed_at: int
    until: int


class Size(NamedTuple):
    """How much there is to read; ``whole`` is False where counting ended early."""

    files: int
    bytes: int
    whole: bool


class AuditReader:
    """What was written, in all places of an instance.

    Each answer yields all that can be read; then it raises what kept the rest from being read: ``VaultFault``,
    ``UnknownVault`` or ``AuditUnreadable``. So an answer that ends quietly is whole.
    """

    def __init__(self, db: Database, places: Places) -> None:
        self._db = db
        self._places = places

    def rows(self, round_: int) -> Iterator[AuditRow]:
        """Yield what one round tried: each outcome of each object once.

        An object that failed and went in another attempt of the round is there twice. A round that finishes what was
        written before a crash tells it again, under its own number.

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

    def about(self, claim: Claim, names: Collection[str]) -> Iterator[AuditRow]:
        """Yield rows of these keys or mark ids from the files that may hold what became of one claimed mark.

        A prefix is listed once more, under another batch than it was claimed in: so all batches are read that the
        round of the claim had for such marks, and those of second looks since.
        """
        t = self._db.t
        spans, claimed_in = {}, []
        with self._db.read() as c:
            wanted = select(t.round.c.id, t.round.c.started_at, t.round.c.ended_at).where(
                t.round.c.instance == claim.instance,
                t.round.c.started_at <= claim.until,
                or_(t.round.c.ended_at.is_(None), t.round.c.ended_at >= claim.claimed_at),
            )
            for row in c.execute(wanted):
                ended = claim.until if row.ended_at is None else row.ended_at
                spans[row.id] = (max(row.started_at, claim.claimed_at), min(ended, claim.until))
                if row.started_at <= claim.claimed_at:
                    claimed_in.append(row.id)
            looks = and_(t.batch.c.round.in_(spans), t.batch.c.kind == LATE)
            its = or_(looks, and_(t.batch.c.round.in_(claimed_in), t.batch.c.kind.in_(claim.kinds)))
            batches = {claim.batch, *c.execute(select(t.batch.c.id).where(its)).scalars()}
        return self._read(claim.instance, lambda vault: _of_rounds(vault, claim.instance, spans, batches), names)

    def search(self, instance: str, names: Collection[str], since: int, until: int) -> Iterator[AuditRow]:
        """Yield rows of these keys or mark ids from every file of some days; for what SQL has forgotten."""
        return self._read(instance, lambda vault: _of_days(vault, instance, since, until), names)

    def size(self, instance: str, since: int, until: int) -> Size:
        """Return how much a search reads; places that cannot be read count nothing here."""
        count = size = 0
        for opened in self._places.to_read(instance):
            try:
                for file in _of_days(opened(), instance, since, until):
                    if count == COUNTED_FILES:
                        return Size(count, size, whole=False)
                    count, size = count + 1, size + file.bytes
            except (VaultFault, UnknownVault):
                continue  # the search names them
        return Size(count, size, whole=True)

    def _read(
        self, instance: str, wanted: Callable[[Vault], Iterable[AuditFile]], names: Collection[str] = ()
    ) -> Iterator[AuditRow]:
        faults: list[VaultFault | UnknownVault | AuditUnreadable] = []
        for opened in self._places.to_read(instance):
            try:
                vault = opened()
                yield from reader.once(reader.rows(vault, wanted(vault), names))
            except (VaultFault, UnknownVault, AuditUnreadable) as e:
                faults.append(e)
        if faults:
            raise faults[0]


def _of_rounds(
    vault: Vault, instance: str, spans: dict[int, tuple[int, int]], batches: Collection[int] = ()
) -> list[AuditFile]:
    """Return the files of rounds, each within its span of time; the batches in order, with ``batches`` only those."""
    found = []
    for round_, (first, last) in spans.items():
        for day in naming.days(first, last):
            listed = reader.files(vault, naming.round_folder(instance, day, round_))
            found += [f for f in listed if not batches or f.batch in batches]
    return sorted(found, key=lambda f: (f.batch, f.round, f.name))


def _of_days(vault: Vault, instance: str, since: int, until: int) -> Iterator[AuditFile]:
    """Yield the files of days, in order."""
    first, last = naming.day(since), naming.day(until)
    for file in reader.files(vault, naming.folder(instance)):
        if file.day > last:
            return
        if file.day >= first:
            yield file
