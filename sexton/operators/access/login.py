"""Exchange passwords for tokens. Neither answers nor their timing reveal which names exist."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sexton.database.engine import Database
from sexton.kernel.errors import code_of
from sexton.operators.access import credentials, passwords
from sexton.operators.access.errors import LoginsBusy, NotAuthorized
from sexton.operators.access.model import Token, TokenScope
from sexton.operators.access.sql.login_throttle import LoginThrottle
from sexton.operators.access.sql.users import UserStore
from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.store import CallStore

PASSWORDS_AT_ONCE = 2
"""How many passwords one process verifies at the same time: each takes 64 MiB."""


class Logins:
    """Issue tokens for passwords. One per process, because it limits concurrent verifications."""

    def __init__(self, db: Database, calls: CallStore) -> None:
        self._users, self._throttle, self._calls = UserStore(db), LoginThrottle(db), calls
        self._slots = threading.BoundedSemaphore(PASSWORDS_AT_ONCE)

    def login(
        self, name: str, password: str, source: str, scope: TokenScope | None = None, ttl_seconds: int | None = None
    ) -> tuple[Token, str]:
        """Return a new token, and its text for the holder.

        Args:
            name: of the user, as it was sent; perhaps a password in the wrong field.
            password: of the user, as it was sent.
            source: the caller's address.
            scope: of the token; None: the user's own.
            ttl_seconds: 60 to 3600; None: 900.

        Raises:
            NotAuthorized: unknown user or wrong password.
            LoginsThrottled: too many logins from this source failed recently; the password was not verified.
            LoginsBusy: too many logins at this moment.
            Forbidden: the scope permits more than the user's own.
        """
        self._throttle.check(source, name)
        with self._verification_slot():
            user_and_hash = self._users.secret(name)
            matches = passwords.matches(None if user_and_hash is None else user_and_hash[1], password)
            if user_and_hash is None or not matches:
                self._throttle.failed(source, name)
                # An unknown name is not logged: it may be a password.
                subject = "" if user_and_hash is None else f"user {user_and_hash[0].name}"
                call = CallRecord(who="unknown", source=source, action="token", subject=subject)
                self._calls.refused(call, code_of(NotAuthorized()))
                raise NotAuthorized
        user, hash_ = user_and_hash
        self._throttle.succeeded(source, name)
        call = CallRecord(who=f"user {user.name}", source=source, action="token", subject=str(scope or user.scope))
        with self._calls.recorded(call):
            token_scope = credentials.granted(user.scope, scope)
            return self._users.give(user, hash_, token_scope, ttl_seconds or credentials.TTL_SECONDS)

    @contextmanager
    def _verification_slot(self) -> Iterator[None]:
        """Take one of the few slots, or refuse at once: a waiting login would block a thread of the API."""
        if not self._slots.acquire(blocking=False):
            raise LoginsBusy("too many logins at this moment; try again in a second")
        try:
            yield
        finally:
            self._slots.release()
