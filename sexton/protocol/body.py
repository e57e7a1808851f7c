"""What the bodies of all subjects share: the base class, field types and size limits. Instants are in ms since 1970."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, FailFast, Field

from sexton.protection.model import CHUNK_ITEMS

MAX_BODY_BYTES = 1 << 20
MAX_ITEMS_BYTES = 16 << 20
"""For requests that carry objects, or a filter of eight million objects."""
MAX_NAME = 4_096
"""Characters of a name: a key of 1,024 bytes, and its vault or URL."""
PRINTABLE = r"^[^\x00-\x1f\x7f\u0085\u2028\u2029]*$"
"""One line, because the text is written to logs."""

Names = Annotated[tuple[Annotated[str, Field(max_length=MAX_NAME)], ...], FailFast(), Field(max_length=CHUNK_ITEMS)]
Reason = Annotated[str, Field(min_length=1, max_length=500, pattern=PRINTABLE, description="shown to other operators")]
Seconds = Annotated[int, Field(strict=True, description="from now")]
SignedInteger = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)]
"""A whole number that a BIGINT column can store."""


class Body(BaseModel):
    """A request's body. An unknown field is refused: it is a typing error of the caller."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)
