"""Refusals of who asks, not of what is asked."""

from sexton.kernel.errors import SextonError


class Unauthenticated(SextonError):
    """No token, or none that is known and valid."""


class Forbidden(SextonError):
    """The token is good, but not for this."""


class UnknownToken(SextonError):
    """No token has that id."""


class NotAuthorized(SextonError):
    """No such user, or another password: one sentence for both."""

    def __init__(self) -> None:
        super().__init__("user and password do not go together; an operator makes users: sexton user add NAME")


class LoginsThrottled(SextonError):
    """Too many logins failed from there lately."""

    name = "THROTTLED"

    def __init__(self, retry_seconds: int) -> None:
        super().__init__(f"too many logins failed; try again in {retry_seconds} s")
        self.retry_seconds = retry_seconds


class LoginsBusy(SextonError):
    """As many passwords as this process looks at together are being looked at."""

    passes = True
    retry_seconds = 1


class UnknownUser(SextonError):
    """No user has that name."""


class UserExists(SextonError):
    """A user has that name."""


class NoArgon2(SextonError):
    """What hashes passwords is not installed."""
