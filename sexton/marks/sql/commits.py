"""Commits under way: what a committer is about to name is neither claimed meanwhile, nor committed once it is fenced.

A committer stores the names of its objects, commits that transaction, and only then looks at their marks; it is refused
if one is fenced, claimed or gone (``sexton.admit``). A round does the reverse: its marks are fenced, then it reads the
names under way, then its owner's records, and then it claims. Each stores before it looks, so the second sees the
first. There is no lock, and no clock but the end of a commit whose outcome is not reported.
"""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, delete, select, text

from sexton.database.contract_errors import check_text, translate_errors
from sexton.database.engine import Database
from sexton.database.rows import in_list
from sexton.kernel.crash_points import reached
from sexton.marks.kept import Event, KeepReason, Kept
from sexton.marks.model import Candidate, Ref, Span, WriteToken
from sexton.marks.policy import covering_prefixes
from sexton.marks.sql.keeper import Keeper

OLD_ROWS = 5_000
"""Names of ended commits that one round deletes."""


class Named(NamedTuple):
    """A name of a commit under way. ``until``: its end, if none is reported, in ms since 1970."""

    commit: str
    key: str
    until: int


class CommitStore:
    """Stores the names of commits under way."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def admit(self, instance: str, objects: Collection[tuple[str, str]], seconds: int) -> str:
        """Admit a commit that names these objects (vault, key), for at most so many seconds; return its id.

        Raises:
            Collected: one of them is being deleted, or is deleted: nothing may be committed.
            InstanceNotRegistered: there is no such instance.
        """
        check_text(*(part for each in objects for part in each))
        id_ = secrets.token_hex(16)
        ordered = sorted(set(objects))
        order = {
            "i": instance,
            "c": id_,
            "v": [vault for vault, _ in ordered],
            "k": [key for _, key in ordered],
            "s": seconds,
        }
        call = text("SELECT sexton.admit(:i, :c, CAST(:v AS text[]), CAST(:k AS text[]), make_interval(secs => :s))")
        try:
            with translate_errors(), self._db.write() as c:
                c.execute(call, order)
            reached("commit.stored")
            with translate_errors(), self._db.write() as c:
                c.execute(call, order)
            reached("commit.admitted")
        except Exception:
            self.end(instance, id_)
            raise
        return id_

    def end(self, instance: str, commit: str) -> None:
        """Remove the names of a commit that has succeeded or failed; repeatable."""
        t = self._db.t.commit_under_way
        with self._db.write() as c:
            c.execute(delete(t).where(t.c.instance == instance, t.c.commit == commit))

    def naming(self, c: Connection, instance: str, candidates: Collection[Candidate]) -> dict[Ref, Named]:
        """Return which of these marks have a file that a commit under way names, each with one such name."""
        t, now = self._db.t.commit_under_way, self._db.now(c)
        under_way = and_(t.c.instance == instance, t.c.until > now)
        if not candidates or c.execute(select(t.c.commit).where(under_way).limit(1)).first() is None:
            return {}
        by_key: dict[tuple[str, str], list[Ref]] = {}
        by_prefix: dict[tuple[str, str], list[Ref]] = {}
        for candidate in candidates:
            for place in candidate.places:
                for key in place.keys or ():
                    by_key.setdefault((place.vault, key), []).append(candidate.ref)
                if place.prefix is not None:
                    by_prefix.setdefault((place.vault, place.prefix), []).append(candidate.ref)
        names = select(t.c.vault, t.c.key, t.c.commit, t.c.until).where(under_way)
        if not by_prefix:
            names = names.where(in_list(t.c.key, sorted({key for _, key in by_key})))
        found: dict[Ref, Named] = {}
        for row in c.execute(names.execution_options(yield_per=OLD_ROWS)):
            refs = [*by_key.get((row.vault, row.key), ())]
            for prefix in covering_prefixes(row.key) if by_prefix else ():
                refs += by_prefix.get((row.vault, prefix), ())
            found |= dict.fromkeys(refs, Named(row.commit, row.key, row.until))
        return found

    def keep_reasons(self, instance: str, candidates: Collection[Candidate]) -> Mapping[Ref, Kept]:
        """Return the marks that a commit under way keeps. A round asks again once they are fenced: see above."""
        with self._db.read() as c:
            return _kept(self.naming(c, instance, candidates))


def _kept(names: Mapping[Ref, Named]) -> Mapping[Ref, Kept]:
    return {ref: Kept(KeepReason.COMMIT, name.commit) for ref, name in names.items()}


class CommitKeeper(Keeper):
    """Judges candidates by the commits under way, also of owners whose marks are not fenced."""

    def __init__(self, db: Database) -> None:
        self._db, self._commits = db, CommitStore(db)

    def blocking(
        self,
        tx: Connection,
        token: WriteToken,
        candidates: Sequence[Candidate],
        _files: Span,
        _now: int,
        _snapshot: Any,
    ) -> Mapping[Ref, Kept]:
        """Return the candidates with a file that a commit under way names."""
        return _kept(self._commits.naming(tx, token.instance, candidates))

    def delete_ended_rows(self) -> None:
        """Delete some names of commits whose time is over."""
        t = self._db.t.commit_under_way
        key = (t.c.instance, t.c.vault, t.c.key, t.c.commit)
        with self._db.write() as c:
            ended = select(*key).where(t.c.until <= self._db.now(c)).limit(OLD_ROWS).subquery()
            c.execute(delete(t).where(*(column == ended.c[column.name] for column in key)))

    def explain(self, instance: str, mark: Candidate) -> Iterator[Event]:
        """Yield the commit under way that names a file of the mark."""
        with self._db.read() as c:
            names = self._commits.naming(c, instance, [mark])
        for name in names.values():
            yield Event(event="commit", text=f"kept: commit {name.commit} under way names {name.key}", blocks=True)
            yield Event(at=name.until, event="commit_ends", text=f"commit {name.commit} ends at the latest")
