"""The owner ``http``: a system elsewhere that answers over HTTP."""

from sexton.owners.plugin import CallOptions, OwnerContext, OwnerPlugin
from sexton.owners.port import Owner


def _build(context: OwnerContext) -> Owner:
    from sexton.owners.http.owner import HttpOwner

    return HttpOwner(context)


PLUGIN = OwnerPlugin(
    about="a system elsewhere that answers over HTTP, in any language",
    build=_build,
    options=CallOptions,
    knows_live=True,
)
