"""Refusals of who asks, not of what is asked."""

from sexton.errors import SextonError


class Unauthenticated(SextonError):
    """No token, or none that is known and valid."""


class Forbidden(SextonError):
    """The token is good, but not for this."""


class UnknownToken(SextonError):
    """No token has that id."""
