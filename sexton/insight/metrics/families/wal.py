"""Metrics ``sexton_wal_…`` of the topics that regions share, all together. ``sexton wal list`` names the topics."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sexton.insight.metrics.model import WalFigures


def families(f: WalFigures, interval_seconds: int, now: int) -> Iterator[Metric]:
    """Yield the families."""

    def age(since: int | None) -> float:
        return 0.0 if since is None else max(0, now - since) / 1000

    for name, text, value in (
        ("topics", "Topics that are enabled (sexton wal enable).", f.topics),
        ("quarantined_topics", "Topics that are set aside: recreated, or cut at their end.", f.quarantined),
        (
            "faulty_topics",
            "Topics whose log refused a request, or did not answer, at their last purge.",
            f.faulty,
        ),
        ("lost_regions", "Regions that need entries that are deleted: LOSS.", f.lost_regions),
        ("lagging_regions", "Regions so far behind that a purge asks them to flush.", f.lagging_regions),
        (
            "oldest_block_age_seconds",
            "Longest time that a topic has been blocked, operators' stops not counted; 0: none is.",
            age(f.blocked_since),
        ),
        ("seconds_since_purge", "Longest time since any topic was last purged without an error.", age(f.ok_since)),
        ("purge_interval_seconds", "Seconds between two purges of a topic.", interval_seconds),
        ("kept_entries", "Entries in the topics, at their last purge.", f.entries),
        ("kept_bytes", "The same in bytes, estimated from some entries.", f.bytes),
        ("replays", "Regions that replay their topic, and retain the entries they read.", f.replays),
        ("oldest_replay_age_seconds", "Age of the oldest replay; 0: none.", age(f.oldest_replay)),
    ):
        yield GaugeMetricFamily(f"sexton_wal_{name}", text, value=value)
    blocked = GaugeMetricFamily(
        "sexton_wal_blocked_topics", "Topics that cannot be purged now, by reason.", labels=["why"]
    )
    for why, n in sorted(f.blocked.items()):
        blocked.add_metric([why.replace(" ", "_")], n)
    yield blocked
    yield CounterMetricFamily("sexton_wal_freed_entries", "Entries deleted; survives restarts.", value=f.freed)
