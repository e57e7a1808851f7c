"""Store users with hashes of their passwords. A new password or a removal revokes the user's tokens at once."""

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
        """Add a user, or a removed user again, and return the user.

        Raises:
            BadInput: the name or the password is not acceptable.
            UserExists: the name is taken.
        """
        credentials.check_name(name)
        credentials.check_password(name, password)
        check_text(by)
        hash_ = passwords.hash_password(password)
        t = self._db.t.api_user
        with self._db.write() as c:
            now = self._db.now(c)
            user = User(name=name, scope=scope, created_at=now, created_by=by, changed_at=now)
            values = user.model_dump(exclude={"scope"}) | {"scope": str(scope), "hash": hash_}
            restore = update(t).where(t.c.name == name, t.c.removed_at.is_not(None)).values(**values)
            if not c.execute(restore).rowcount:
                if c.execute(select(t.c.name).where(t.c.name == name)).one_or_none() is not None:
                    raise UserExists(f"there is a user {name}; another password: sexton user password {name}")
                c.execute(insert(t).values(**values))
        return user

    def change(self, name: str, password: str, by: str) -> User:
        """Set a user's password and revoke the user's tokens. Raise ``UnknownUser`` or ``BadInput``."""
        credentials.check_password(name, password)
        hash_ = passwords.hash_password(password)
        return self._set(name, by, hash=hash_)

    def remove(self, name: str, by: str) -> User:
        """Remove a user and revoke the user's tokens at once. Raise ``UnknownUser`` if there is none."""
        return self._set(name, by, hash="", removed_by=by)

    def all(self) -> Sequence[User]:
        """Return every user in the order of their names, removed ones included."""
        t = self._db.t.api_user
        with self._db.read() as c:
            return [_user(row) for row in c.execute(select(t).order_by(t.c.name))]

    def secret(self, name: str) -> tuple[User, str] | None:
        """Return a user and the hash of the password; None if there is no such user."""
        t = self._db.t.api_user
        # A database may refuse text that is no name. The query runs all the same, so that it takes as long.
        has_name = t.c.name == (name if credentials.is_name(name) else "")
        with self._db.read() as c:
            row = c.execute(select(t).where(has_name, t.c.removed_at.is_(None))).one_or_none()
        return None if row is None else (_user(row), row.hash)

    def give(self, user: User, hash_: str, scope: TokenScope, ttl_seconds: int) -> tuple[Token, str]:
        """Return a new token of a user whose password was verified, and its text for the holder.

        Raises:
            NotAuthorized: the password was changed meanwhile, or the user was removed.
        """
        t = self._db.t.api_user
        self._tokens.forget()
        with self._db.write() as c:
            # A shared lock: logins run together, and a change of the password waits and then revokes this token too.
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
            is_present = (t.c.name == name) & t.c.removed_at.is_(None)
            row = c.execute(update(t).where(is_present).values(**values, **times).returning(t)).one_or_none()
            if row is None:
                raise UnknownUser(f"there is no user {name}; see: sexton user list")
            self._tokens.revoke_of(c, name, by)
        return _user(row)


def _user(row: Row[Any]) -> User:
    fields = {name: value for name, value in row._mapping.items() if name in User.model_fields and name != "scope"}
    return User(scope=policy.stored_scope(row.scope), **fields)
