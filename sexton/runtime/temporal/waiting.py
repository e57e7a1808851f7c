"""Wait for a workflow that somebody asked for, and say in words how it ended otherwise than well."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ActivityError
from temporalio.exceptions import CancelledError as TemporalCancelled
from temporalio.service import RPCError

from sexton.kernel.errors import SextonError
from sexton.runtime.temporal.client import taken

T = TypeVar("T")
PATIENCE_SECONDS = 5.0
"""After this long without an end whoever waits hears whether any worker is there."""


class Words(NamedTuple):
    """What is waited for, in words: ``the check of shop``; where to look; how to end it."""

    what: str
    look: str
    end: str


async def ended(handle: WorkflowHandle[Any, T], words: Words, tell: Callable[[str], None]) -> T:
    """Return the result; ``tell`` is told what a person should know. Ctrl-C ends the waiting, not the workflow.

    Raises:
        SextonError: it failed or was cancelled, or Temporal does not answer any more.
    """
    waiting = asyncio.ensure_future(handle.result())
    try:
        await asyncio.wait({waiting}, timeout=PATIENCE_SECONDS)
        if not waiting.done() and not await taken(handle):
            tell(f"no worker has taken {words.what} yet; see doctor, or start one: python -m worker")
        return await waiting
    except WorkflowFailureError as e:
        cause: BaseException | None = e.cause
        if isinstance(cause, TemporalCancelled):
            raise SextonError(f"{words.what} was cancelled") from e
        if isinstance(cause, ActivityError):
            cause = cause.cause
        raise SextonError(str(getattr(cause, "message", cause) or e)) from e
    except RPCError as e:
        raise SextonError(f"lost Temporal ({e.message}); {words.what} goes on when it is back") from e
    except (asyncio.CancelledError, KeyboardInterrupt):
        tell(f"{words.what} goes on without us; see: {words.look}; to end it: {words.end}")
        raise
