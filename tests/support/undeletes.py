"""What an undelete waits for."""

from sexton.operators.registry.undelete import UndeleteUnsafe, find_deletion, hold_on, hold_place
from tests.support.rig import Rig


def what_deletes(rig: Rig, prefix: str, vault: str = "disk") -> str:
    """Hold a place as an undelete does; return why it waits, or is refused; empty: the objects would stay."""
    try:
        return find_deletion(rig.db, hold_place(rig.holds, hold_on("shop", vault, prefix)))
    except UndeleteUnsafe as e:
        return str(e)
