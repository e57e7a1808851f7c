"""Store tokens as rows. A secret is shown once, when it is created; only its digest is stored."""

import logging
import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, insert, or_, select, update

from sexton.database.contract_errors import check_text
from sexton.database.engine import AWAY, Database, first_line, now_once
from sexton.kernel.errors import WrongUsage
from sexton.operators.access import policy
from sexton.operators.access.model import Token, TokenScope, Unauthenticated, UnknownToken
from sexton.operators.access.policy import (
    DAY_MS,
    EXPIRES_SOON_MS,
    ID_CHARACTERS,
    MAX_DAYS,
    SECRET_BYTES,
    UNKNOWN_TOKEN_DIGEST,
    USE_INTERVAL_MS,
    USED_LATELY_MS,
    Presented,
)

log = logging.getLogger(__name__)
NOTE_CHARACTERS = 500


class TokenStore:
    """Tokens of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, scope: TokenScope, days: int, by: str, note: str = "") -> tuple[Token, str]:
        """Return a new token, and its text for the holder. ``WrongUsage``: an invalid duration, note or name."""
        check_text(note, by)
        _check_days(days)
        if len(note) > NOTE_CHARACTERS:
            raise WrongUsage(f"a note has up to {NOTE_CHARACTERS} characters, this one has {len(note)}")
        with self._db.write() as c:
            id_, secret = secrets.token_hex(ID_CHARACTERS // 2), secrets.token_urlsafe(SECRET_BYTES)
            now = self._db.now(c)
            times = {"created_at": now, "expires_at": now + days * DAY_MS}
            token = Token(id=id_, scope=scope, note=note, created_by=by, **times)
            values = token.model_dump(exclude={"scope", "revoked_by"}) | {"scope": str(scope)}
            c.execute(insert(self._db.t.token).values(**values, digest=policy.digest(secret)))
        return token, policy.token_text(id_, secret)

    def verify(self, presented: Sequence[Presented]) -> tuple[list[Token | Unauthenticated], int]:
        """Return, for each of these, the valid token or why there is none; and the time (ms since 1970)."""
        t = self._db.t.token
        with self._db.read() as c:
            rows = c.execute(select(t).where(t.c.id.in_({sent.id for sent in presented})))
            known: dict[str, tuple[Token | None, str]] = {row.id: (_token(row), row.digest) for row in rows}
            now = self._db.now(c)
        verdicts = []
        for sent in presented:
            token, digest = known.get(sent.id, (None, UNKNOWN_TOKEN_DIGEST))
            verdicts.append(policy.verdict(token, digest, sent, now))
        return verdicts, now

    def record_use(self, token: Token) -> None:
        """Store that an authenticated token was used, at most once a minute. A request never fails because of it."""
        t = self._db.t.token
        try:
            with self._db.write() as c:
                now = self._db.now(c)
                is_due = or_(t.c.last_used_at.is_(None), t.c.last_used_at <= now - USE_INTERVAL_MS)
                c.execute(update(t).where(t.c.id == token.id, is_due).values(last_used_at=now))
        except AWAY as e:
            log.warning("the use of token %s was not stored: %s", token.id, first_line(e))

    def renew(self, id_: str, days: int) -> Token:
        """Let a valid token end ``days`` from now; its secret stays.

        Raises:
            UnknownToken: there is none.
            WrongUsage: the duration is invalid, or the token has ended, or ends later already.
        """
        _check_days(days)
        t = self._db.t.token
        with self._db.write() as c:
            now = self._db.now(c)
            row = c.execute(select(t).where(t.c.id == id_).with_for_update()).one_or_none()
            if row is None:
                raise _unknown(id_)
            token = policy.renewed(_token(row), now, days)
            c.execute(update(t).where(t.c.id == id_).values(expires_at=token.expires_at))
        return token

    def ending(self) -> tuple[Sequence[Token], Sequence[Token]]:
        """Return tokens that were used lately: those that have ended, and those that end within two weeks."""
        t = self._db.t.token
        with self._db.read() as c:
            query = select(t, (t.c.expires_at <= now_once()).label("has_ended")).where(_ends_soon(self._db))
            rows = c.execute(query.order_by(t.c.expires_at, t.c.id)).all()
        return [_token(row) for row in rows if row.has_ended], [_token(row) for row in rows if not row.has_ended]

    def revoke(self, id_: str, by: str) -> Token:
        """Revoke a token at once; repeating it changes nothing. Raise ``UnknownToken`` if there is none."""
        t = self._db.t.token
        with self._db.write() as c:
            valid = update(t).where(t.c.id == id_, t.c.revoked_at.is_(None))
            c.execute(valid.values(revoked_at=self._db.now(c), revoked_by=by))
            row = c.execute(select(t).where(t.c.id == id_)).one_or_none()
        if row is None:
            raise _unknown(id_)
        return _token(row)

    def all(self) -> Sequence[Token]:
        """Return the tokens, the newest first."""
        t = self._db.t.token
        with self._db.read() as c:
            query = select(t).order_by(t.c.created_at.desc(), t.c.id)
            return [_token(row) for row in c.execute(query)]


def is_expiring(db: Database) -> ColumnElement[bool]:
    """Return the condition that a token was used lately, and ends soon."""
    return and_(_ends_soon(db), db.t.token.c.expires_at > now_once())


def _ends_soon(db: Database) -> ColumnElement[bool]:
    """Return the condition that a token was used lately, and ends soon, or has ended; a revoked one is meant to."""
    t = db.t.token
    ends_soon = and_(t.c.revoked_at.is_(None), t.c.expires_at < now_once(EXPIRES_SOON_MS))
    return and_(ends_soon, t.c.last_used_at >= now_once(-USED_LATELY_MS))


def _check_days(days: int) -> None:
    if not 0 < days <= MAX_DAYS:
        remedy = "; renew it before it ends: sexton token renew TOKEN" if days > 0 else ""
        raise WrongUsage(f"a token is valid for 1 to {MAX_DAYS} days, not for {days}{remedy}")


def _unknown(id_: str) -> UnknownToken:
    return UnknownToken(f"there is no token {id_}; see: sexton token list")


def _token(row: Row[Any]) -> Token:
    fields = {name: value for name, value in row._mapping.items() if name in Token.model_fields and name != "scope"}
    return Token(scope=policy.stored_scope(row.scope), **fields)
