"""How a refusal of the domain becomes an error of Temporal."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from sexton.kernel.errors import SextonError

DATABASE_ERROR = "DatabaseError"
"""Error type of what a driver said; retried."""


@contextmanager
def refusals() -> Iterator[None]:
    """Give refusals their class name as error type; retrying them as they are would not change the answer.

    Of a driver's error only its own first line goes on: histories and reports keep no statement and no object's key.
    """
    try:
        yield
    except SextonError as e:
        # Benign: a refusal is an answer, not a fault of the worker, and needs no traceback in its log.
        benign = ApplicationErrorCategory.BENIGN
        raise ApplicationError(str(e), type=type(e).__name__, non_retryable=not e.passes, category=benign) from e
    except Exception as e:
        driver = getattr(e, "orig", None)  # a database driver's error, wrapped with its statement and parameters
        if driver is None:
            raise
        told = str(driver).strip().splitlines()[0]
        raise ApplicationError(f"the database answered: {told}", type=DATABASE_ERROR) from None
