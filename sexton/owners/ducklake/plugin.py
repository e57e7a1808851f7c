"""The owner ``ducklake``: a DuckLake in Sexton's own database."""

from pydantic import Field
from sqlalchemy import Connection, select

from sexton.database.tables import TABLES
from sexton.kernel.message import Message
from sexton.operators.registry.add_remove import InUse
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


def _refuse_attached(c: Connection, instance: str) -> None:
    """Refuse the removal of a lake that is attached: its triggers would refuse every commit that adds files."""
    from sexton.owners.ducklake import catalog

    options = c.execute(select(TABLES.instance.c.owner_options).where(TABLES.instance.c.id == instance)).scalar_one()
    if catalog.triggers(c, options["schema"]):
        raise InUse(f"lake {instance} is attached; first: sexton ducklake detach {instance}")


PLUGIN = OwnerPlugin(
    about="a DuckLake whose catalog is in Sexton's database; connect it with: sexton ducklake attach",
    build=_build,
    options=LakeOptions,
    forget_records=_refuse_attached,
    key_pattern=KEY_PATTERN,
)
