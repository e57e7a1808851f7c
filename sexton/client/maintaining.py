"""What operators request of vaults, checks, topics and binlogs."""

from sexton.client.api_call import ApiCall, url_path, url_query
from sexton.protocol.binlogs import CutApproval, Log, StartedGc
from sexton.protocol.journal import FollowerRemoval, Followers
from sexton.protocol.operating import Probe, Signal, Signalled, Trusted, TrustOrder
from sexton.protocol.topics import PurgeSignal, Purging, SignalledPurge, Topic, TopicOwner, TopicReset, TopicStanding


def probe_vault(instance: str, vault: str) -> ApiCall[Probe]:
    """Probe again what a vault's store really does."""
    return ApiCall("POST", url_path("instances", instance, "vaults", vault, "probe"), Probe)


def trust_vault(instance: str, vault: str, reason: str) -> ApiCall[Trusted]:
    """Allow this database to delete in a vault in which a newer copy of it has deleted."""
    path = url_path("instances", instance, "vaults", vault, "trust")
    return ApiCall("POST", path, Trusted, TrustOrder(reason=reason))


def signal_check(instance: str, signal: Signal) -> ApiCall[Signalled]:
    """Signal the running check of an instance."""
    return ApiCall("POST", url_path("instances", instance, "checks", "running", signal), Signalled)


def topic_regions(topic: str) -> ApiCall[TopicStanding]:
    """Return the regions of a topic, the one that needs the oldest entry first, and its replays."""
    return ApiCall("GET", url_path("topics", topic, "regions"), TopicStanding)


def enable_topic(topic: str, instance: str, *, logical: bool = False) -> ApiCall[Topic]:
    """Allow purges of a topic; ``logical``: only its floor rises."""
    query = url_query(instance=instance)
    return ApiCall("POST", url_path("topics", topic, "enable"), Topic, Purging(logical=logical), query)


def disable_topic(topic: str) -> ApiCall[Topic]:
    """Stop purging a topic."""
    return ApiCall("POST", url_path("topics", topic, "disable"), Topic)


def signal_purge(topic: str, signal: PurgeSignal) -> ApiCall[SignalledPurge]:
    """Signal the running purge of a topic."""
    return ApiCall("POST", url_path("topics", topic, "purge", signal), SignalledPurge)


def reset_topic(topic: str, order: TopicReset) -> ApiCall[TopicStanding]:
    """Accept lost entries, or a topic that was created again."""
    return ApiCall("POST", url_path("topics", topic, "reset"), TopicStanding, order, repeatable=False)


def assign_topic(topic: str, instance: str, reason: str) -> ApiCall[Topic]:
    """Give a topic to another instance, and forget all that is known of it."""
    order = TopicOwner(instance=instance, reason=reason)
    return ApiCall("POST", url_path("topics", topic, "assign"), Topic, order, repeatable=False)


def followers(instance: str) -> ApiCall[Followers]:
    """Return the followers of the journal, the slowest first."""
    return ApiCall("GET", "/v1/journal/followers", Followers, query=url_query(instance=instance))


def remove_follower(instance: str, follower: str) -> ApiCall[Followers]:
    """Remove a follower that never returns: no entries are kept for it."""
    order, query = FollowerRemoval(follower=follower), url_query(instance=instance)
    return ApiCall("POST", "/v1/journal/followers/remove", Followers, order, query, repeatable=False)


def run_binlog_gc(instance: str) -> ApiCall[StartedGc]:
    """Start the binlog GC of an instance; do not wait."""
    return ApiCall("POST", url_path("instances", instance, "binlog-gc"), StartedGc)


def signal_binlog_gc(instance: str, signal: Signal) -> ApiCall[Signalled]:
    """Signal the running binlog GC of an instance."""
    return ApiCall("POST", url_path("instances", instance, "binlog-gc", "running", signal), Signalled)


def approve_cut(instance: str, db: str, upto: int, table: str = "") -> ApiCall[Log]:
    """Approve a very large cut of a log, up to the record that was shown."""
    parts = ("databases", db, "tables", table) if table else ("databases", db)
    path = url_path(*parts, "binlog", "approve")
    return ApiCall("POST", path, Log, CutApproval(upto=upto), url_query(instance=instance))
