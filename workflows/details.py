"""Show in the Temporal UI what a workflow does: as Markdown, though names and errors come from other programs."""

import re
from collections.abc import Iterable

from temporalio import workflow

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
