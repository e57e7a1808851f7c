"""Why the API or the console does not execute a request."""

from sexton.kernel.errors import SextonError


class TooManyRequests(SextonError):
    """One token has as many requests under way as it may, or others wait for its place."""

    passes = True


class BodyTooLarge(SextonError):
    """A body has more bytes than its route accepts."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is too large: this request may have {limit:,} bytes")


class SlowBody(SextonError):
    """A large body arrives so slowly that others would wait for its place."""


class OtherChange(SextonError):
    """What an operator agreed to is something else by now than the page said."""
