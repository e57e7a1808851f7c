"""Tokens as rows. A secret is shown once, when it is made; its hash is kept."""

import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.operators.access import policy
from sexton.operators.access.errors import UnknownToken
from sexton.operators.access.model import Token, TokenScope
from sexton.operators.access.policy import ID_CHARACTERS, MAX_DAYS, NOBODY, SECRET_BYTES

DAY_MS = 86_400_000
NOTE_CHARACTERS = 500
FORGOTTEN_AT_ONCE = 100


class TokenStore:
    """Tokens of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, scope: TokenScope, days: int, by: str, note: str = "") -> tuple[Token, str]:
        """Return a new token, and the text that its holder keeps; ``BadInput`` of a bad time or text."""
        check_text(note, by)
        if not 0 < days <= MAX_DAYS:
            raise BadInput(f"a token is valid for 1 to {MAX_DAYS} days, not for {days}")
        if len(note) > NOTE_CHARACTERS:
            raise BadInput(f"a note has up to {NOTE_CHARACTERS} characters, this one has {len(note)}")
        with self._db.write() as c:
            return self.give(c, scope, days * DAY_MS, by, note)

    def give(
        self, c: Connection, scope: TokenScope, lasts_ms: int, by: str, note: str = "", of_user: str | None = None
    ) -> tuple[Token, str]:
        """Return a new token as ``create`` does, in the caller's transaction."""
        id_, secret = secrets.token_hex(ID_CHARACTERS // 2), secrets.token_urlsafe(SECRET_BYTES)
        now = self._db.now(c)
        times = {"created_at": now, "expires_at": now + lasts_ms}
        made = Token(id=id_, scope=scope, note=note, created_by=by, of_user=of_user, **times)
        values = made.model_dump(exclude={"scope", "revoked_by"}) | {"scope": str(scope)}
        c.execute(insert(self._db.t.token).values(**values, digest=policy.digest(secret)))
        return made, policy.written(id_, secret)

    def authenticate(self, authorization: str) -> Token:
        """Return whose ``Authorization`` header this is; ``Unauthenticated`` where it is nobody's."""
        given = policy.presented(authorization)
        t = self._db.t.token
        with self._db.read() as c:
            row = c.execute(select(t).where(t.c.id == given.id)).one_or_none()
            now = self._db.now(c)
        if row is None:
            return policy.valid(None, NOBODY, given, now)
        return policy.valid(_token(row), row.digest, given, now)

    def revoke(self, id_: str, by: str) -> Token:
        """End a token at once; repeating it changes nothing. ``UnknownToken``."""
        t = self._db.t.token
        with self._db.write() as c:
            its = t.c.id == id_
            c.execute(update(t).where(its, t.c.revoked_at.is_(None)).values(revoked_at=self._db.now(c), revoked_by=by))
            row = c.execute(select(t).where(its)).one_or_none()
        if row is None:
            raise UnknownToken(f"there is no token {id_}; see: sexton token list")
        return _token(row)

    def all(self) -> Sequence[Token]:
        """Return every token, the newest first; those of users only while they count: there may be thousands."""
        t = self._db.t.token
        with self._db.read() as c:
            counts = t.c.of_user.is_(None) | (t.c.revoked_at.is_(None) & (t.c.expires_at > self._db.now(c)))
            wanted = select(t).where(counts).order_by(t.c.created_at.desc(), t.c.id)
            return [_token(r) for r in c.execute(wanted)]

    def revoke_of(self, c: Connection, user: str, by: str) -> None:
        """End every token of a user, in the caller's transaction."""
        t = self._db.t.token
        its = (t.c.of_user == user) & t.c.revoked_at.is_(None)
        c.execute(update(t).where(its).values(revoked_at=self._db.now(c), revoked_by=by))

    def forget(self) -> int:
        """Remove tokens of users that have been over for a day, some at a time; return how many."""
        t = self._db.t.token
        with self._db.write() as c:
            over = t.c.of_user.is_not(None) & (t.c.expires_at < self._db.now(c) - DAY_MS)
            some = select(t.c.id).where(over).order_by(t.c.expires_at).limit(FORGOTTEN_AT_ONCE)
            return c.execute(delete(t).where(t.c.id.in_(some.with_for_update(skip_locked=True)))).rowcount


def _token(row: Row[Any]) -> Token:
    kept = {n: v for n, v in row._mapping.items() if n in Token.model_fields and n != "scope"}
    return Token(scope=policy.scope(row.scope), **kept)
