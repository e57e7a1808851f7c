"""What a registration must be told: which of its objects are being deleted at this moment."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, and_, false, func, literal, or_, select, tuple_

from sexton.database.rows import in_list
from sexton.marks.policy import covering_prefixes
from sexton.protection.model import NAMED, Item
from sexton.protection.sql.lifetimes import Lifetimes

FILES_AT_ONCE = 5_000


class ClaimedObjects(Lifetimes):
    """Asked after ``part``: no more of what is registered will be claimed then."""

    def claimed(
        self, instance: str, job: str, items: Sequence[Item], *, of: int | None = None
    ) -> Sequence[tuple[str, str]]:
        """Return (vault, key) of what is being deleted of the objects and below the prefixes.

        After ``part`` no more of them will be. A prefix that is looked at a last time may lose what is found below it.

        What is gone already has no row any more: whether it is there only its store can tell, and only after this.
        """
        file, mark, item = self._db.t.mark_file, self._db.t.mark, self._db.t.protection_item
        keys: dict[str, list[str]] = {}
        for i in items:
            if not i.prefix:
                keys.setdefault(i.vault, []).append(i.key)
        within = [and_(item.c.vault == v, item.c.key.between(min(ks), max(ks))) for v, ks in keys.items()]
        with self._db.read() as c:
            row = self._row(c, instance, job, of)
            names = and_(item.c.instance == file.c.instance, item.c.vault == file.c.vault, item.c.key == file.c.key)
            its = and_(mark.c.instance == file.c.instance, mark.c.kind == file.c.kind, mark.c.id == file.c.id)
            ours = and_(item.c.protection == row.id, item.c.prefix.is_(False), or_(false(), *within))
            found = select(item.c.vault, item.c.key).join(file, names).join(mark, its)
            found = found.where(ours, file.c.instance == instance, mark.c.state == "CLAIMED").distinct()
            there = {(r.vault, r.key) for r in c.execute(found)}
            wanted = {(i.vault, i.key) for i in items if not i.prefix}
            sizes: dict[int, set[str]] = {}  # there are few lengths of prefixes, however many prefixes there are
            for i in items:
                if i.prefix:
                    sizes.setdefault(len(i.key), set()).add(i.key)
            asked = (self._below(row.id, instance, sorted(prefixes), size) for size, prefixes in sizes.items())
            below = {(r.vault, r.key) for one in asked for r in c.execute(one)}
            swept = self._swept(c, instance, [key for _, key in wanted])
        late = {(vault, key) for vault, key in wanted if any((vault, p) in swept for p in covering_prefixes(key))}
        return sorted((there & wanted) | below | late)

    def _below(self, protection: int, instance: str, prefixes: Sequence[str], size: int) -> Any:
        """Select what is being deleted below the prefixes of one length, a few of it: there may be millions."""
        file, mark, item = self._db.t.mark_file, self._db.t.mark, self._db.t.protection_item
        its = and_(mark.c.instance == file.c.instance, mark.c.kind == file.c.kind, mark.c.id == file.c.id)
        begins = func.substr(file.c.key, 1, literal(size)) == item.c.key
        names = and_(item.c.instance == file.c.instance, item.c.vault == file.c.vault, begins)
        ours = and_(item.c.protection == protection, item.c.prefix, in_list(self._db, item.c.key, prefixes))
        found = select(file.c.vault, file.c.key).join(item, names).join(mark, its)
        return found.where(ours, file.c.instance == instance, mark.c.state == "CLAIMED").limit(NAMED)

    def _swept(self, c: Connection, instance: str, keys: Sequence[str]) -> set[tuple[str, str]]:
        """Return (vault, prefix) of marks that cover one of the keys and are looked at a last time.

        What was found in that look may be under way in a worker that lost its lease, and its rows be gone.
        """
        mark = self._db.t.mark
        prefixes = sorted({p for key in keys for p in covering_prefixes(key)})
        late = and_(mark.c.instance == instance, mark.c.state == "CLAIMED", mark.c.swept_at.is_not(None))
        found = select(mark.c.vault, mark.c.prefix).where(late, in_list(self._db, mark.c.prefix, prefixes))
        return {(r.vault, r.prefix) for r in c.execute(found)}

    def claimed_files(self, instance: str) -> Iterator[Sequence[tuple[str, str]]]:
        """Yield (vault, key) of all that is being deleted, some thousands at a time: what a filter is asked about."""
        file, mark, after = self._db.t.mark_file, self._db.t.mark, (-1, -1)
        its = and_(mark.c.instance == file.c.instance, mark.c.kind == file.c.kind, mark.c.id == file.c.id)
        wanted = select(file.c.batch, file.c.seq, file.c.vault, file.c.key).join(mark, its)
        wanted = wanted.where(file.c.instance == instance, mark.c.state == "CLAIMED").order_by(file.c.batch, file.c.seq)
        while True:
            beyond = tuple_(file.c.batch, file.c.seq) > tuple_(literal(after[0]), literal(after[1]))
            with self._db.read() as c:
                rows = c.execute(wanted.where(beyond).limit(FILES_AT_ONCE)).all()
            if rows:
                yield [(r.vault, r.key) for r in rows]
            if len(rows) < FILES_AT_ONCE:
                return
            after = (rows[-1].batch, rows[-1].seq)
