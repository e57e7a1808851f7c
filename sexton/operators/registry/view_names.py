"""The names that live views may have. Pure."""

import re

from sexton.kernel.errors import BadInput

NO_VIEW = "none"
"""In place of a view's name: an operator has said that the instance has no live view."""
_NAME = "[A-Za-z_][A-Za-z0-9_$]{0,62}"
_VIEW_NAME = re.compile(rf"(?!pg_|information_schema\.|sexton(_[a-z0-9_]+)?\.){_NAME}\.{_NAME}")


def check_view_name(view: str) -> None:
    """Raise ``BadInput`` if a database can have no live view of this name; ``NO_VIEW`` is accepted."""
    if view != NO_VIEW and not _VIEW_NAME.fullmatch(view):
        raise BadInput(f"{view!r} is no name of a live view; write SCHEMA.VIEW, in a schema of the owner, or {NO_VIEW}")
