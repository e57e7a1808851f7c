"""Update the versions of one replica: the five cases of Doris' ``Replica``. Pure.

Versions have no hashes here, so case 5, a failed version that equals V with an unknown hash, falls under case 4.

After any update, whatever the state before: V has not decreased; there is no failed version, or it is above V; and the
succeeded version is V, or is above the failed version while there is one.
"""

from typing import NamedTuple

from sexton.replication.replicas.model import NO_VERSION


class VersionState(NamedTuple):
    """The versions of one replica, as far as reports and commits are known."""

    version: int
    """V: all versions up to this one can be read."""
    failed: int
    """LFV, the last failed version: a version above V that is missing; -1: none."""
    succeeded: int
    """LSV, the last written version: while a version failed, there are holes between V and this one."""


def updated(
    state: VersionState,
    *,
    version: int | None = None,
    failed: int | None = None,
    succeeded: int | None = None,
    committed: int | None = None,
) -> VersionState:
    """Return the state of a replica after an update; an argument that is None leaves its part unchanged.

    Args:
        state: the state before.
        version: V now. If it is below the known V, the answer is late, and nothing changes, whatever else is given.
        failed: a missing version; it replaces only a lower one. For a gap that was found it is V + 1.
        succeeded: a version that was written.
        committed: the partition's committed version. Pass it when a clone is done, not with a gap that was just found:
            a replica that has all committed versions lacks none, and a failed version above them was never committed.
    """
    new_version = state.version if version is None else version
    if new_version < state.version:
        return state
    reported_failed = state.failed if failed is None else failed
    new_succeeded = max(new_version, state.succeeded, state.succeeded if succeeded is None else succeeded)
    new_failed = max(reported_failed, state.failed)
    # Cases 1 to 3: a written version counts only above the failed one, and not at all if that one is new.
    if reported_failed != state.failed or new_failed >= new_succeeded:
        new_succeeded = new_version
    if new_version >= new_failed:  # cases 4 and 5: it has caught up, and versions written after the failed one count
        return VersionState(new_succeeded, NO_VERSION, new_succeeded)
    if new_version == committed:  # the failed version lies above the committed ones
        return VersionState(new_version, NO_VERSION, new_version)
    return VersionState(new_version, new_failed, new_succeeded)
