"""Translate errors of the domain and of the database into Temporal's application errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from sexton.kernel.errors import SextonError

DATABASE_ERROR = "DatabaseError"
"""Error type of a database driver's error; Temporal retries it."""


@contextmanager
def refusals() -> Iterator[None]:
    """Raise a ``SextonError`` with its class name as error type; it is retried only where it ``passes``.

    Of a database driver's error only the first line is kept: histories and reports must hold no statement and no
    object's key.
    """
    try:
        yield
    except SextonError as e:
        # Benign: a refusal is an answer, not a fault of the worker: no traceback in its log.
        benign = ApplicationErrorCategory.BENIGN
        raise ApplicationError(str(e), type=type(e).__name__, non_retryable=not e.passes, category=benign) from e
    except Exception as e:
        driver = getattr(e, "orig", None)  # a database driver's error, wrapped with its statement and parameters
        if driver is None:
            raise
        first_line = str(driver).strip().splitlines()[0]
        raise ApplicationError(f"the database answered: {first_line}", type=DATABASE_ERROR) from None
