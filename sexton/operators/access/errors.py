"""Refusals because of the caller, not because of the request."""

from sexton.kernel.errors import NotFound, SextonError


class Unauthenticated(SextonError):
    """The request has no token, or one that is unknown or no longer valid."""

    def __init__(self, text: str, caller: str = "") -> None:
        """Store the message; ``caller``: the name of the ended token that was sent; empty: an unknown one."""
        super().__init__(text)
        self.caller = caller


class Forbidden(SextonError):
    """The token is valid, but does not permit this request."""


class UnknownToken(NotFound):
    """No token has that id."""


class IssuerAway(SextonError):
    """The keys of the issuer of JWTs are not known now."""

    passes = True
