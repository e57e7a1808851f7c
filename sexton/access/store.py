"""Tokens as rows. A secret is shown once, when it is made; its hash is kept."""

import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, insert, select, update

from sexton.access import policy
from sexton.access.errors import UnknownToken
from sexton.access.model import Scope, Token
from sexton.access.policy import ID_CHARACTERS, MAX_DAYS, NOBODY, SECRET_BYTES
from sexton.db.engine import Database
from sexton.errors import BadInput
from sexton.refusals import check_text

DAY_MS = 86_400_000
NOTE_CHARACTERS = 500


class TokenStore:
    """Tokens of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, scope: Scope, days: int, by: str, note: str = "") -> tuple[Token, str]:
        """Return a new token, and the text that its holder keeps; ``BadInput`` of a bad time or text."""
        check_text(note, by)
        if not 0 < days <= MAX_DAYS:
            raise BadInput(f"a token is valid for 1 to {MAX_DAYS} days, not for {days}")
        if len(note) > NOTE_CHARACTERS:
            raise BadInput(f"a note has up to {NOTE_CHARACTERS} characters, this one has {len(note)}")
        id_, secret = secrets.token_hex(ID_CHARACTERS // 2), secrets.token_urlsafe(SECRET_BYTES)
        t = self._db.t.token
        with self._db.write() as c:
            now = self._db.now(c)
            times = {"created_at": now, "expires_at": now + days * DAY_MS}
            made = Token(id=id_, scope=scope, note=note, created_by=by, **times)
            values = made.model_dump(exclude={"scope", "revoked_by"}) | {"scope": str(scope)}
            c.execute(insert(t).values(**values, digest=policy.digest(secret)))
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
        """Return every token, the newest first."""
        t = self._db.t.token
        with self._db.read() as c:
            return [_token(r) for r in c.execute(select(t).order_by(t.c.created_at.desc(), t.c.id))]


def _token(row: Row[Any]) -> Token:
    kept = {n: v for n, v in row._mapping.items() if n in Token.model_fields and n != "scope"}
    return Token(scope=policy.scope(row.scope), **kept)
