"""Users as rows. Of a password its hash is kept; a new password, or none any more, ends the user's tokens at once."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, insert, select, update

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.operators.access import credentials, passwords, policy
from sexton.operators.access.errors import NotAuthorized, UnknownUser, UserExists
from sexton.operators.access.model import Token, TokenScope, User
from sexton.operators.access.sql.tokens import TokenStore


class UserStore:
    """Users of one deployment."""

    def __init__(self, db: Database) -> None:
        self._db, self._tokens = db, TokenStore(db)

    def add(self, name: str, password: str, scope: TokenScope, by: str) -> User:
        """Return a new user; one that was removed may come back.

        Raises:
            BadInput: a bad name or password.
            UserExists: the name is taken.
        """
        credentials.check_name(name)
        credentials.check_password(name, password)
        check_text(by)
        hash_ = passwords.hashed(password)
        t = self._db.t.api_user
        with self._db.write() as c:
            now = self._db.now(c)
            made = User(name=name, scope=scope, created_at=now, created_by=by, changed_at=now)
            values = made.model_dump(exclude={"scope"}) | {"scope": str(scope), "hash": hash_}
            again = update(t).where(t.c.name == name, t.c.removed_at.is_not(None)).values(**values)
            if not c.execute(again).rowcount:
                if c.execute(select(t.c.name).where(t.c.name == name)).one_or_none() is not None:
                    raise UserExists(f"there is a user {name}; another password: sexton user password {name}")
                c.execute(insert(t).values(**values))
        return made

    def change(self, name: str, password: str, by: str) -> User:
        """Set a user's password, which ends the user's tokens. ``UnknownUser``, ``BadInput``."""
        credentials.check_password(name, password)
        hash_ = passwords.hashed(password)
        return self._set(name, by, hash=hash_)

    def remove(self, name: str, by: str) -> User:
        """End a user and the user's tokens at once. ``UnknownUser``."""
        return self._set(name, by, hash="", removed_by=by)

    def all(self) -> Sequence[User]:
        """Return every user by name, removed ones too."""
        t = self._db.t.api_user
        with self._db.read() as c:
            return [_user(r) for r in c.execute(select(t).order_by(t.c.name))]

    def secret(self, name: str) -> tuple[User, str] | None:
        """Return a user and the hash of the password; None where there is no such user."""
        t = self._db.t.api_user
        # What is no name may be what no database holds; it is asked all the same, for the time it takes.
        its = t.c.name == (name if credentials.is_name(name) else "")
        with self._db.read() as c:
            row = c.execute(select(t).where(its, t.c.removed_at.is_(None))).one_or_none()
        return None if row is None else (_user(row), row.hash)

    def give(self, user: User, hash_: str, scope: TokenScope, ttl_seconds: int) -> tuple[Token, str]:
        """Return a new token of a user whose password was right, and what its holder keeps.

        Raises:
            NotAuthorized: the password has changed since, or the user is gone.
        """
        t = self._db.t.api_user
        self._tokens.forget()
        with self._db.write() as c:
            # Shared with other logins; whoever changes the password waits, and then ends this token too.
            row = c.execute(select(t).where(t.c.name == user.name).with_for_update(read=True)).one_or_none()
            if row is None or row.removed_at is not None or row.hash != hash_:
                raise NotAuthorized
            return self._tokens.give(c, scope, ttl_seconds * 1000, f"user {user.name}", of_user=user.name)

    def _set(self, name: str, by: str, **values: str) -> User:
        check_text(name, by)
        t = self._db.t.api_user
        with self._db.write() as c:
            now = self._db.now(c)
            times = {"removed_at": now} if "removed_by" in values else {"changed_at": now}
            its = (t.c.name == name) & t.c.removed_at.is_(None)
            row = c.execute(update(t).where(its).values(**values, **times).returning(t)).one_or_none()
            if row is None:
                raise UnknownUser(f"there is no user {name}; see: sexton user list")
            self._tokens.revoke_of(c, name, by)
        return _user(row)


def _user(row: Row[Any]) -> User:
    kept = {n: v for n, v in row._mapping.items() if n in User.model_fields and n != "scope"}
    return User(scope=policy.scope(row.scope), **kept)
