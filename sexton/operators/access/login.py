"""A password for a token. Whoever guesses learns nothing: neither which names exist, nor by how long it takes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sexton.database.engine import Database
from sexton.operators.access import credentials, passwords
from sexton.operators.access.errors import LoginsBusy, NotAuthorized
from sexton.operators.access.model import CallRecord, Token, TokenScope
from sexton.operators.access.sql.login_throttle import Throttle
from sexton.operators.access.sql.users import UserStore
from sexton.operators.call_log.store import CallStore

AT_ONCE = 2
"""Passwords that one process looks at together: each takes 64 MiB."""


class Logins:
    """Gives tokens for passwords. One per process: it bounds how many are looked at together."""

    def __init__(self, db: Database) -> None:
        self._users, self._throttle, self._calls = UserStore(db), Throttle(db), CallStore(db)
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def login(
        self, name: str, password: str, source: str, scope: TokenScope | None = None, ttl_seconds: int | None = None
    ) -> tuple[Token, str]:
        """Return a new token, and the text that its holder keeps.

        Args:
            name: of the user; whatever was sent, also a password in the wrong field.
            password: of the user; whatever was sent.
            source: the caller's address.
            scope: of the token; None: the user's own.
            ttl_seconds: 60 to 3600; None: 900.

        Raises:
            NotAuthorized: no such user, or another password.
            Throttled: too many failed from there lately; the password was not looked at.
            LoginsBusy: too many at this moment.
            Forbidden: the scope is more than the user's own.
        """
        self._throttle.check(source, name)
        with self._place():
            found = self._users.secret(name)
            right = passwords.matches(None if found is None else found[1], password)
            if found is None or not right:
                self._throttle.failed(source, name)
                # A name that is no user's is written down nowhere: it may be a password.
                subject = "" if found is None else f"user {found[0].name}"
                with self._calls.recorded(CallRecord(who="unknown", source=source, action="token", subject=subject)):
                    raise NotAuthorized
        user, hash_ = found
        self._throttle.succeeded(source, name)
        called = CallRecord(who=f"user {user.name}", source=source, action="token", subject=str(scope or user.scope))
        with self._calls.recorded(called):
            allowed = credentials.granted(user.scope, scope)
            return self._users.give(user, hash_, allowed, ttl_seconds or credentials.TTL_SECONDS)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Have one of the few places, or refuse at once: who waits would keep a thread of the API from others."""
        if not self._places.acquire(blocking=False):
            raise LoginsBusy("other passwords are being looked at; try again in a second")
        try:
            yield
        finally:
            self._places.release()
