"""Field types for the names, ids and versions of the owner's databases."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from sexton.replication.binlog.model import MAX_COMMIT_SEQ

NAME = r"^[^\x00-\x1f\x7f\u0085\u2028\u2029/]{1,128}$"
"""The name of a database, a table or a consumer. It is a segment of a URL path."""
ID = r"^[A-Za-z0-9.-]{1,128}$"


def _number_as_text(value: object) -> object:
    """Accept numbers as ids: many databases number their objects."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Name = Annotated[str, BeforeValidator(_number_as_text), Field(pattern=NAME)]
Id = Annotated[str, BeforeValidator(_number_as_text), Field(pattern=ID)]
Seq = Annotated[int, Field(strict=True, ge=0, lt=MAX_COMMIT_SEQ)]
"""A commit_seq."""
Size = Annotated[int, Field(strict=True, ge=0, le=MAX_COMMIT_SEQ)]
"""A number of bytes, rows or records; also a boot or sequence number."""
Version = Annotated[int, Field(strict=True, ge=0, le=MAX_COMMIT_SEQ)]
