"""Translate errors of the domain and of the database into Temporal's application errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from sexton.kernel.errors import SextonError

DATABASE_ERROR = "DatabaseError"
"""Error type of a database driver's error; Temporal retries it."""


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a ``SextonError`` into an application error with its class name as type, retried only if it ``passes``.

    Of a database driver's error only the first line is kept, because histories and reports must contain neither
    statements nor objects' keys.
    """
    try:
        yield
    except SextonError as e:
        # Benign: a refusal is not a fault of the worker, which must log no traceback.
        benign = ApplicationErrorCategory.BENIGN
        raise ApplicationError(str(e), type=type(e).__name__, non_retryable=not e.passes, category=benign) from e
    except Exception as e:
        driver = getattr(e, "orig", None)  # a database driver's error, wrapped with its statement and parameters
        if driver is None:
            raise
        first_line = str(driver).strip().splitlines()[0]
        raise ApplicationError(f"the database answered: {first_line}", type=DATABASE_ERROR) from None
