"""Show in the Temporal UI what a workflow does, as Markdown, and read the errors of activities for it."""

import re
from collections.abc import Iterable

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from workflows.search_attributes import show_state

_MARKUP = re.compile(r"[\\`*_\[\]<>~|#&!]")
_NOT_PRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def show(state: str, subject: str = "", lines: Iterable[str] = ()) -> None:
    """Show the state of a workflow in bold, its subject beside it, and a list of lines; nothing in them is markup.

    The state is also its search attribute.
    """
    show_state(state)
    title = " ".join([f"**{plain(state)}**", *([plain(subject)] if subject else [])])
    workflow.set_current_details("\n".join([title, *(f"- {plain(line)}" for line in lines)]))


def plain(text: str) -> str:
    """Return a text that Markdown renders as one line, as it is: no link, no image, no markup, no control character."""
    return _MARKUP.sub(r"\\\g<0>", _NOT_PRINTABLE.sub(" ", text))


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
