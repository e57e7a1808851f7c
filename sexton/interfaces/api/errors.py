"""Why the API or the console does not execute a request."""

from sexton.kernel.errors import SextonError


class BodyTooLarge(SextonError):
    """A body has more bytes than its route accepts."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is too large: this request may have {limit:,} bytes")


class OtherChange(SextonError):
    """What an operator agreed to is something else by now than the page said."""
