"""The owner ``ducklake``: a DuckLake in Sexton's own database."""

from pydantic import Field

from sexton.kernel.message import Message
from sexton.owners.ducklake.model import KEY_PATTERN
from sexton.owners.plugin import OwnerContext, OwnerPlugin
from sexton.owners.port import Owner


class LakeOptions(Message):
    """Where a lake is. `sexton ducklake attach` sets them."""

    data_path: str = Field(min_length=2)
    vault: str
    schema_: str = Field(min_length=1, alias="schema")


def _build(context: OwnerContext) -> Owner:
    from sexton.owners.ducklake.owner import DuckLakeOwner

    return DuckLakeOwner(context)


PLUGIN = OwnerPlugin(
    about="a DuckLake whose catalog is in Sexton's database; connect it with: sexton ducklake attach",
    build=_build,
    options=LakeOptions,
    key_pattern=KEY_PATTERN,
)
