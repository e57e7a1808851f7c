"""The root of every error Sexton raises on purpose.

Each says in one sentence what happened and what to do; the CLI prints that sentence and no traceback.
"""

import re


def code_of(error: BaseException) -> str:
    """Return an error's name for programs: ``NOT_FOUND``, ``PLAN_REFUSED``, or ``FAILED`` of what is none of ours."""
    if not isinstance(error, SextonError):
        return "FAILED"
    named = getattr(error, "name", None)
    return named if isinstance(named, str) else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()


class SextonError(Exception):
    """Something Sexton refuses or cannot do; ``str()`` is the sentence for the operator."""

    passes = False
    """Whether the cause goes away by itself, so that trying again later may help."""


class BadInput(SextonError):
    """A name, key, prefix or number from outside is not acceptable."""


class GuardBusy(SextonError):
    """An owner's transaction that undrops has been open for seconds; nothing can be decided about its instance."""

    passes = True
