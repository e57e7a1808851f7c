"""The followers of the journal of metadata."""

from typing import Annotated

from pydantic import Field

from sexton.kernel.message import Page
from sexton.operations.fields import Instance
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.replication.journal.model import Follower


class ShownFollower(Follower):
    """A follower of the journal. ``behind``: how many entries it has not applied."""

    behind: int = 0


class Followers(Page[ShownFollower]):
    """The followers of a journal, the slowest first, and the number of the journal's last entry."""

    head: int


@operation("binlog followers", "GET /v1/journal/followers", Grant.READ, READS)
def followers(call: Call, instance: Instance = "") -> Followers:
    """Print the followers of the journal, the slowest first. Entries that a follower still needs are kept for it.

    Example: sexton binlog followers
    """
    journal = call.stores.binlogs.journal
    head = journal.head(instance)
    rows = (ShownFollower(**f.model_dump(), behind=max(0, head - f.applied)) for f in journal.followers(instance))
    return Followers(items=tuple(rows), head=head)


@operation(
    "binlog remove-follower", "POST /v1/journal/followers/remove", Grant.OPERATE, Logged("{follower}", once=True)
)
def remove_follower(
    call: Call,
    follower: Annotated[str, Field(min_length=1, max_length=128, description="Its name.")],
    *,
    instance: Instance = "",
) -> None:
    """Remove a follower that never returns: no entries are kept for it. If it returns, it may have to start over.

    Example: sexton binlog remove-follower fe-3
    """
    call.stores.binlogs.journal.forget(instance, follower)
