"""Read the errors of activities: the message for reports and the Temporal UI, and the type."""

from temporalio.exceptions import ActivityError, ApplicationError


def error_message(error: BaseException) -> str:
    """Return the message of an error; of an activity's error, that of its cause."""
    cause = error.cause if isinstance(error, ActivityError) else None
    return str(getattr(cause, "message", None) or cause or error)


def error_type(error: ActivityError) -> str:
    """Return the type of the application error inside an activity's error; empty where there is none."""
    return error.cause.type or "" if isinstance(error.cause, ApplicationError) else ""


def is_permanent(error: ActivityError) -> bool:
    """Return whether an activity failed with an application error that no retry can cure."""
    return isinstance(error.cause, ApplicationError) and error.cause.non_retryable
