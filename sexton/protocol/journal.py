"""The journal of binlogs and replicas, and the state that a follower builds from it."""

from typing import Annotated

from pydantic import Field

from sexton.kernel.message import Message
from sexton.protocol.body import Body
from sexton.replication.journal.model import Follower, JournalPage, JournalSnapshot
from sexton.replication.journal.replaying import FollowerState

__all__ = ["Follower", "FollowerState", "JournalPage", "JournalSnapshot"]


class Followers(Message):
    """The followers of a journal, the slowest first, and the number of the journal's last entry."""

    followers: tuple[Follower, ...]
    head: int


class FollowerRemoval(Body):
    """The follower that never returns."""

    follower: Annotated[str, Field(min_length=1, max_length=128)]
