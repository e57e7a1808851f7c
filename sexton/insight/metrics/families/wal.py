"""Metrics of topics that regions share, ``sexton_wal_…``: of all together; `sexton wal list` names them."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sexton.insight.metrics.model import WalFigures


def families(f: WalFigures, interval_seconds: int, now: int) -> Iterator[Metric]:
    """Yield them."""

    def age(since: int | None) -> float:
        return 0.0 if since is None else max(0, now - since) / 1000

    for name, told, value in (
        ("topics", "Topics that are purged (sexton wal enable).", f.topics),
        ("quarantined_topics", "Those that are not what was known of them, and are left alone.", f.quarantined),
        (
            "faulty_topics",
            "Those whose log refused something, or did not answer, when they were purged last.",
            f.faulty,
        ),
        ("lost_regions", "Regions that need entries that are gone: LOSS.", f.lost_regions),
        (
            "oldest_block_age_seconds",
            "Since when a topic is blocked, by anything but a stop; 0: none is.",
            age(f.blocked_since),
        ),
        ("seconds_since_purge", "Since a topic was last looked at without a fault, the longest.", age(f.ok_since)),
        ("purge_interval_seconds", "From one look at a topic to the next.", interval_seconds),
        ("kept_entries", "Entries in the log, by what was seen last.", f.entries),
        ("kept_bytes", "The same in bytes, as estimated from some entries.", f.bytes),
        ("replays", "Regions that are being opened, and keep what they read.", f.replays),
        ("oldest_replay_age_seconds", "Age of the oldest of them; 0 without one.", age(f.oldest_replay)),
    ):
        yield GaugeMetricFamily(f"sexton_wal_{name}", told, value=value)
    blocked = GaugeMetricFamily("sexton_wal_blocked_topics", "Topics that are not purged now, by why.", labels=["why"])
    for why, n in sorted(f.blocked.items()):
        blocked.add_metric([why.replace(" ", "_")], n)
    yield blocked
    yield CounterMetricFamily("sexton_wal_freed_entries", "Entries freed; survives restarts.", value=f.freed)
