"""What is known of a replica's versions, and what an update makes of it: the five cases of Doris' ``Replica``.

Pure. Versions have no hashes here: case 5, a failed version that is V with an unknown hash, is one of case 4.

After any update, whatever was there before: V has not fallen; there is no failed version, or it is above V; the
succeeded version is V, or, while a version failed, above that one.
"""

from typing import NamedTuple

NONE = -1


class VersionState(NamedTuple):
    """The versions of one replica, as far as reports and commits have told."""

    version: int
    """V: all up to here can be read."""
    failed: int
    """LFV, the last failed version: one above V is missing; -1: none."""
    succeeded: int
    """LSV, the last version that was written: what is between V and it has holes as long as a version failed."""


def updated(
    state: VersionState,
    *,
    version: int | None = None,
    failed: int | None = None,
    succeeded: int | None = None,
    committed: int | None = None,
) -> VersionState:
    """Return what becomes of a replica; what is not given is as it was.

    Args:
        version: V as it is now. Below the known one it is a late answer, and nothing changes, whatever else is given.
        failed: a version that is missing; it replaces a lower one only. A found gap is V + 1.
        succeeded: a version that was written.
        committed: the partition's committed version. Give it when a clone is done, not with a gap that was just found:
            a replica that has all that was committed misses nothing, and what failed above it never came to be.
    """
    now = state.version if version is None else version
    if now < state.version:
        return state
    said = state.failed if failed is None else failed
    wrote = max(now, state.succeeded, state.succeeded if succeeded is None else succeeded)
    lost = max(said, state.failed)
    # cases 1 to 3: what was written counts only above what failed, and not at all when that is told anew
    if said != state.failed or lost >= wrote:
        wrote = now
    if now >= lost:  # cases 4 and 5: it has caught up, and what was written behind the failed version counts again
        return VersionState(wrote, NONE, wrote)
    if now == committed:  # what failed lies above it
        return VersionState(now, NONE, now)
    return VersionState(now, lost, wrote)
