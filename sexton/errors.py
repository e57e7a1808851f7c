"""The root of every error Sexton raises on purpose.

Each says in one sentence what happened and what to do; the CLI prints that sentence and no traceback.
"""


class SextonError(Exception):
    """Something Sexton refuses or cannot do; ``str()`` is the sentence for the operator."""

    passes = False
    """Whether the cause goes away by itself, so that trying again later may help."""


class BadInput(SextonError):
    """A name, key, prefix or number from outside is not acceptable."""


class GuardBusy(SextonError):
    """An owner's transaction that undrops has been open for seconds; nothing can be decided about its instance."""

    passes = True
