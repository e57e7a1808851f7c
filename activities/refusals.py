"""How a refusal of the domain becomes an error of Temporal."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from sexton.errors import SextonError


@contextmanager
def refusals() -> Iterator[None]:
    """Give refusals their class name as error type; retrying them as they are would not change the answer."""
    try:
        yield
    except SextonError as e:
        # Benign: a refusal is an answer, not a fault of the worker, and needs no traceback in its log.
        benign = ApplicationErrorCategory.BENIGN
        raise ApplicationError(str(e), type=type(e).__name__, non_retryable=not e.passes, category=benign) from e
