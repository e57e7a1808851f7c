"""The message of an error, for reports and the Temporal UI."""

from temporalio.exceptions import ActivityError


def error_message(error: BaseException) -> str:
    """Return the message of an error; of an activity's error, that of its cause."""
    cause = error.cause if isinstance(error, ActivityError) else None
    return str(getattr(cause, "message", None) or cause or error)
