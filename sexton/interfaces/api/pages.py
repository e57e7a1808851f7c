"""Pages of lists: how many rows a request wants, and behind which place."""

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Query

from sexton.protocol.operating import MAX_PAGE

Row = TypeVar("Row")
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
Before = Annotated[int | None, Query(alias="after", ge=1, le=2**63 - 1, description="`next` of the page before")]
"""Of lists with the newest first: the number of the last row of the page before."""


def page(rows: Sequence[Row], limit: int) -> tuple[tuple[Row, ...], str]:
    """Return the rows of a page and its ``next``; one more than ``limit`` were read, if there are so many.

    Each row has an ``id``, in descending order.
    """
    shown = tuple(rows[:limit])
    return shown, str(shown[-1].id) if len(rows) > limit else ""  # type: ignore[attr-defined]
