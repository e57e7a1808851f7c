"""The owner ``sql``: a database whose own transactions mark, and which may show its live objects in a view."""

from sexton.owners.plugin import FrontEndOptions, OwnerContext, OwnerPlugin
from sexton.owners.port import Owner


def _build(context: OwnerContext) -> Owner:
    from sexton.owners.sql.owner import SqlOwner

    return SqlOwner(context)


PLUGIN = OwnerPlugin(
    about="SQL transactions of a database in PostgreSQL mark their own garbage", build=_build, options=FrontEndOptions
)
