"""Refusals because of the caller, not because of the request."""

from sexton.kernel.errors import SextonError


class Unauthenticated(SextonError):
    """The request has no token, or one that is unknown or no longer valid."""

    def __init__(self, text: str, caller: str = "") -> None:
        """Store the message; ``caller``: the name of the ended token that was sent; empty: an unknown one."""
        super().__init__(text)
        self.caller = caller


class Forbidden(SextonError):
    """The token is valid, but does not permit this request."""


class UnknownToken(SextonError):
    """No token has that id."""


class NotAuthorized(SextonError):
    """Unknown user or wrong password; the message does not tell which."""

    def __init__(self) -> None:
        super().__init__("user and password do not go together; an operator makes users: sexton user add NAME")


class LoginsThrottled(SextonError):
    """Too many logins from this source failed recently."""

    name = "THROTTLED"

    def __init__(self, retry_seconds: int) -> None:
        super().__init__(f"too many logins failed; try again in {retry_seconds} s")
        self.retry_seconds = retry_seconds


class LoginsBusy(SextonError):
    """The process is already verifying as many passwords as it may at the same time."""

    passes = True
    retry_seconds = 1


class IssuerAway(SextonError):
    """The keys of the issuer of JWTs are not known now."""

    passes = True


class UnknownUser(SextonError):
    """No user has that name."""


class UserExists(SextonError):
    """A user has that name."""


class NoArgon2(SextonError):
    """The argon2 library is not installed."""
