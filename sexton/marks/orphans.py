"""Decide how many marks of orphans a round may delete without an operator's approval. Pure."""

ORPHAN = "orphan"
"""The kind of the marks that a repair makes of objects that no record names."""
MAX_ORPHAN_SHARE = 0.01
"""The largest share of a vault's objects that is deleted without approval: more indicates a fault of the check or of
the metadata."""


def too_many(vault: str, orphans: int, objects: int) -> str:
    """Return why this number of orphans of a vault needs an operator's approval; empty: it does not."""
    if orphans <= objects * MAX_ORPHAN_SHARE:
        return ""
    share = f"{100 * orphans / objects:.1f} %" if objects else "all"
    return (
        f"{orphans:,} orphans are {share} of the {objects:,} objects of vault {vault}; "
        f"without approval at most {100 * MAX_ORPHAN_SHARE:g} % are deleted"
    )
