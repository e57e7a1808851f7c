"""The journal of binlogs and replicas, and the state that a follower builds from it."""

from sexton.replication.journal.model import JournalPage, JournalSnapshot
from sexton.replication.journal.replaying import FollowerState

__all__ = ["FollowerState", "JournalPage", "JournalSnapshot"]
