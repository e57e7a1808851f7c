"""Store the answers to requests with an idempotency key, so that a repetition receives the answer of the first."""

from typing import NamedTuple

from sqlalchemy import delete, func, select, update

from sexton.database.engine import Database
from sexton.database.rows import upsert
from sexton.operators.access.errors import KeyOfAnotherRequest, TooManyKeys, UnknownOutcome

KEPT_MS = 86_400_000
MOST_KEYS = 10_000
"""Keys of one caller within a day."""


class KeyedRequest(NamedTuple):
    """A request. ``digest``: half of the SHA-256 of what it asks for, and half of that of the caller's scopes."""

    who: str
    key: str
    digest: str


class StoredAnswer(NamedTuple):
    """The answer to an earlier request. ``body``: None if it was shown only once."""

    status: int
    body: str | None


class AnswerStore:
    """The answers of one deployment; each is kept for a day."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def begin(self, request: KeyedRequest) -> StoredAnswer | None:
        """Return the answer that the same request has received; None: it is the first, and may be done now.

        Raises:
            KeyOfAnotherRequest: the caller has sent another request with this key.
            TooManyKeys: the caller has used as many keys as are kept.
            UnknownOutcome: the first one is being done, or its process died.
        """
        t = self._db.t.answer
        with self._db.write() as c:
            now = self._db.now(c)
            c.execute(delete(t).where(t.c.at < now - KEPT_MS))
            row = {"who": request.who, "key": request.key, "request": request.digest, "at": now}
            insertion = upsert(self._db, t).values(**row).on_conflict_do_nothing().returning(t.c.key)
            if c.execute(insertion).one_or_none() is not None:
                keys = select(t.c.key).where(t.c.who == request.who).limit(MOST_KEYS + 1).subquery()
                if c.execute(select(func.count()).select_from(keys)).scalar_one() > MOST_KEYS:
                    raise TooManyKeys(f"{MOST_KEYS:,} idempotency keys of a day are kept for one caller")
                return None
            first = c.execute(select(t).where(t.c.who == request.who, t.c.key == request.key)).one_or_none()
        if first is None:
            raise UnknownOutcome("an equal request was refused just now; send this one again")
        if first.request != request.digest and first.request[:32] == request.digest[:32]:
            raise UnknownOutcome(
                "this request was sent with a token of other scopes, which may have done it; look what it has done "
                "before you send it with another key"
            )
        if first.request != request.digest:
            raise KeyOfAnotherRequest("this Idempotency-Key belongs to another request; use a new one for each")
        if first.status is None:
            raise UnknownOutcome(
                "a request with this Idempotency-Key is being done, or was cut off; look what it has done before you "
                "send it with another key"
            )
        return StoredAnswer(first.status, first.body)

    def end(self, request: KeyedRequest, answer: StoredAnswer) -> None:
        """Store the answer to a request."""
        t = self._db.t.answer
        with self._db.write() as c:
            c.execute(update(t).where(t.c.who == request.who, t.c.key == request.key).values(**answer._asdict()))

    def forget(self, request: KeyedRequest) -> None:
        """Forget a request that was refused: it may be sent again."""
        t = self._db.t.answer
        with self._db.write() as c:
            c.execute(delete(t).where(t.c.who == request.who, t.c.key == request.key, t.c.status.is_(None)))
