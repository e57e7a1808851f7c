"""The reference catalog as an owner: implements ``owner.port.Owner`` over its tables, which share Sexton's database."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.engine import Database, first_line
from sexton.marks.model import DueMark, Expansion, Fenced, Place, Ref
from sexton.owners.catalog import ancestors, barrier, named, parents
from sexton.owners.catalog.count import live_objects
from sexton.owners.catalog.due import FIRST, expand_parents, forget_versions, time_out
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.kinds import KINDS
from sexton.owners.catalog.layout import parse
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.port import COUNT_SECONDS, Heartbeat, OwnerSilent


class CatalogOwner:
    """Answers for every instance that the catalog owns. ``tables.create`` must have been called once."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def due(self, instance: str, cutoffs: Mapping[str, int], heartbeat: Heartbeat) -> None:
        """Mark the tablets of parents that are due."""
        for kind in parents.PARENTS:
            at = FIRST if kind in cutoffs else None
            while at is not None:
                heartbeat()
                with self._write(instance) as s:
                    at = expand_parents(s, kind, cutoffs[kind], at)

    def grows(self, instance: str) -> Mapping[str, Collection[str]]:
        """Return tablets, below all that is dropped with tablets in it."""
        del instance
        return {"tablet": parents.PARENTS}

    def time_out(self, instance: str, heartbeat: Heartbeat) -> None:
        """Abort loads whose time is up."""
        more = True
        while more:
            heartbeat()
            with self._write(instance) as s:
                more = time_out(s)
        with self._write(instance) as s:
            forget_versions(s)

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        """Name the files of the catalog's kinds; a mark of another kind is not in the answer."""
        found: dict[Ref, Expansion] = {}
        for kind, some in _by_kind(marks):
            heartbeat()
            with self._read(instance) as s:
                above = ancestors.above(s, kind.name, [m.id for m in some])
                for ref, told in kind.expand(s, some).items():
                    found[ref] = told.model_copy(update={"above": above.get(ref.id, ())})
        if orphans := {m.ref: (m, file.tablet) for m in marks if m.etags and (file := parse((m.keys or ("",))[0]))}:
            heartbeat()
            with self._read(instance) as s:  # a hold on its tablet, or on what is above it, keeps it too
                above = ancestors.above(s, "tablet", [tablet for _, tablet in orphans.values()])
            for ref, (m, tablet) in orphans.items():
                place = Place(vault=m.vault or "", keys=m.keys, etags=m.etags)
                found[ref] = Expansion(places=(place,), above=above.get(tablet, ()))
        return found

    def fence(
        self, instance: str, batch: int, marks: Sequence[Ref], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Abort who writes them, in batches, then look again; a mark committed between is not in the answer."""
        del batch  # two rounds that ask at once get the same answers
        answers: dict[Ref, tuple[Fenced, str]] = {}
        if strange := {m.kind for m in marks} - {"prepared"}:
            raise ValueError(f"no {', '.join(sorted(strange))} can be fenced: a kind that asks for it needs it here")
        ids = [m.id for m in marks]
        for start in range(0, len(ids), barrier.FENCE_BATCH):
            heartbeat()
            some = ids[start : start + barrier.FENCE_BATCH]
            with self._write(instance) as s:
                barrier.abort(s, barrier.fenced(s, some))
            with self._read(instance) as s:  # only what is committed counts
                judged = barrier.judge(s, barrier.fenced(s, some))
            answers.update({Ref("prepared", i): answer for i, answer in judged.items()})
        return answers

    def forget(self, instance: str, batch: int, refs: Sequence[Ref]) -> None:
        """Remove the catalog's records of marks whose files are gone; what is gone already is no matter."""
        del batch
        ids: dict[str, list[str]] = defaultdict(list)
        for ref in refs:
            ids[ref.kind].append(ref.id)
        with self._write(instance) as s:
            for kind in KINDS.values():
                if kind.name in ids:
                    kind.forget(s, ids[kind.name])

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> frozenset[Ref]:
        """Return those that can be read, or that something visible cannot do without."""
        found: set[Ref] = set()
        for kind, some in _by_kind(marks):
            heartbeat()
            with self._read(instance) as s:
                found.update(Ref(kind.name, i) for i in kind.live(s, [m.id for m in some]))
        if others := [m for m in marks if m.kind not in KINDS or m.kind == "prepared"]:
            heartbeat()
            with self._read(instance) as s:
                found |= named.live(s, others)
        return frozenset(found)

    def live_objects(self, instance: str) -> int | None:
        """Return how many files the visible rowsets have, by one statement; silent where that takes too long."""
        with self._read(instance) as s:
            if self._db.dialect == "postgresql":
                s.c.execute(text(f"SET LOCAL statement_timeout = {COUNT_SECONDS * 1000}"))
                # It reads whole tables; a planner that takes them for empty would read them once for each row.
                s.c.execute(text("SET LOCAL enable_nestloop = off"))
            return live_objects(s)

    def mended(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        """Return those whose transaction's status, or whose schema, can be read again."""
        with self._read(instance) as s:
            return {Ref(k.name, i) for k, some in _by_kind(marks) for i in k.mended(s, [m.id for m in some])}

    @contextmanager
    def _read(self, instance: str) -> Iterator[CatalogTransaction]:
        with _spoken(), self._db.read() as c:
            yield CatalogTransaction(self._db, c, instance)

    @contextmanager
    def _write(self, instance: str) -> Iterator[CatalogTransaction]:
        with _spoken(), self._db.write() as c:
            yield CatalogTransaction(self._db, c, instance)


@contextmanager
def _spoken() -> Iterator[None]:
    """Say that the catalog is silent where its tables cannot be read or written now."""
    try:
        yield
    except SQLAlchemyError as e:
        raise OwnerSilent(f"the catalog's tables cannot be used now: {first_line(e)}") from e


def _by_kind(marks: Sequence[DueMark]) -> Iterator[tuple[CatalogKind, Sequence[DueMark]]]:
    some: dict[str, list[DueMark]] = defaultdict(list)
    for m in marks:
        some[m.kind].append(m)
    return ((KINDS[name], each) for name, each in some.items() if name in KINDS)
