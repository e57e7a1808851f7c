"""Read an owner's records in Sexton's database: within a limit of time, and an error is the owner's silence."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from sexton.database.engine import first_line
from sexton.owners.port import OwnerSilent

STATEMENT_SECONDS = 3_600
"""How long a part of a live side may take to be read: of a view without an index it reads every row."""


@contextmanager
def silent_on_error(what: str) -> Iterator[None]:
    """Raise ``OwnerSilent`` for an error of the database; ``what``: what then cannot be done, in words."""
    try:
        yield
    except SQLAlchemyError as e:
        raise OwnerSilent(f"{what}: {first_line(e)}") from e
