"""What went wrong, in the words of whoever saw it."""

from temporalio.exceptions import ActivityError


def words(error: BaseException) -> str:
    """Return the message of an error, of an activity's the one inside it."""
    cause = error.cause if isinstance(error, ActivityError) else None
    return str(getattr(cause, "message", None) or cause or error)
