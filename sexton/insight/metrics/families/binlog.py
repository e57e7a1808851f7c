"""Metrics of binlogs, journals and replicas, per instance. ``sexton binlog list`` and ``replica list`` name them."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sexton.insight.metrics import labels
from sexton.insight.metrics.model import BinlogFigures, Figures

ValueOf = Callable[[BinlogFigures, int], float | None]
"""(figures, now) → value; None: the instance has no sample."""


def _age(since: int | None, now: int) -> float:
    return 0.0 if since is None else max(0, now - since) / 1000


GAUGES: Mapping[str, tuple[str, ValueOf]] = {
    "binlog_logs": ("Logs: databases' own ones, and those of tables in databases without.", lambda b, _: b.logs),
    "binlog_kept_records": ("Records in these logs.", lambda b, _: b.records),
    "binlog_kept_bytes": ("Bytes of these records, as the owner sent them.", lambda b, _: b.bytes),
    "binlog_seconds_since_gc": (
        "Seconds since the last accepted binlog GC, or since the instance was enabled; only enabled instances.",
        lambda b, now: None if b.quiet_since is None else _age(b.quiet_since, now),
    ),
    "binlog_held_logs": ("Logs with expired records that consumers hold.", lambda b, _: b.held),
    "binlog_oldest_held_age_seconds": (
        "Age of the oldest such hold; 0: none.",
        lambda b, n: _age(b.held_since, n),
    ),
    "binlog_cuts_waiting": (
        "Cuts that wait for an operator's approval, as they exceed max_cut_fraction.",
        lambda b, _: b.waiting,
    ),
    "binlog_oldest_cut_waiting_age_seconds": (
        "Age of the oldest such cut; 0: none.",
        lambda b, n: _age(b.waiting_since, n),
    ),
    "binlog_consumers": ("Registered consumers.", lambda b, _: b.consumers),
    "binlog_lost_consumers": (
        "Consumers that are LOST: silent for too long, they hold nothing.",
        lambda b, _: b.lost_consumers,
    ),
    "journal_kept_entries": ("Entries of the journal that can be read.", lambda b, _: b.entries),
    "journal_followers": ("Followers of the journal, LOST ones included.", lambda b, _: b.followers),
    "journal_slowest_follower_lag_entries": (
        "Entries that the slowest follower has not applied yet; LOST followers are not counted.",
        lambda b, _: b.lag,
    ),
    "journal_lost_followers": (
        "Followers that are LOST: no entry is retained for them, and they restart from a snapshot.",
        lambda b, _: b.lost_followers,
    ),
    "backends": ("Backends that have sent a report or pulled cuts.", lambda b, _: b.backends),
    "backends_behind": ("Backends with copies whose binlogs should be deleted.", lambda b, _: b.behind_backends),
    "backends_never_pulled": ("Such backends that have never pulled cuts.", lambda b, _: b.unheard_backends),
    "backend_seconds_since_pull": (
        "Longest time since such a backend pulled cuts, without those that never did; 0: no backend is behind.",
        lambda b, now: _age(b.pulled_since, now),
    ),
    "replica_cuts_pending": (
        "Copies with binlogs that should be deleted (desired) and are not reported as deleted (acknowledged).",
        lambda b, _: b.behind,
    ),
    "replica_cuts_blocked": (
        "Such copies of which not everything may be deleted now, as another copy of the tablet may need it.",
        lambda b, _: b.blocked,
    ),
    "replica_oldest_bad_age_seconds": (
        "Longest time that a copy has been bad; 0: none is.",
        lambda b, n: _age(b.bad_since, n),
    ),
    "replica_oldest_missing_age_seconds": (
        "Longest time that a copy marked as missing versions has lacked them; 0: none does.",
        lambda b, now: _age(b.missing_since, now),
    ),
}
COUNTERS: Mapping[str, tuple[str, Callable[[BinlogFigures], int]]] = {
    "binlog_cuts": ("Cuts of logs; survives restarts.", lambda b: b.cuts),
    "binlog_clock_refusals": (
        "Binlog GCs that cut nothing because the database's clock had moved too far; survives restarts.",
        lambda b: b.refusals,
    ),
}


def families(f: Figures) -> Iterator[Metric]:
    """Yield the families; instances without binlogs, journal and replicas have no samples."""
    text = "Seconds between two binlog GCs of an instance."
    yield GaugeMetricFamily("sexton_binlog_gc_interval_seconds", text, value=f.binlog_interval_seconds)
    for name, (text, value_of) in GAUGES.items():
        gauge = GaugeMetricFamily(f"sexton_{name}", text, labels=["instance_id"])
        for b in f.binlogs:
            value = value_of(b, f.now)
            if value is not None:
                gauge.add_metric([b.instance], value)
        yield gauge
    for name, (text, count) in COUNTERS.items():
        counter = CounterMetricFamily(f"sexton_{name}", text, labels=["instance_id"])
        for b in f.binlogs:
            counter.add_metric([b.instance], count(b))
        yield counter
    text = "Unhealthy copies of tablets by state; one copy may be in several states."
    yield _by("replicas_unhealthy", text, "state", labels.STATES, f, lambda b: b.unwell)
    text = "Copies whose binlogs a backend could not delete, by the outcome it reported last."
    yield _by("replica_problems", text, "outcome", labels.OUTCOMES, f, lambda b: b.problems)


def _by(
    name: str,
    text: str,
    label: str,
    values: tuple[str, ...],
    f: Figures,
    counts: Callable[[BinlogFigures], Mapping[str, int]],
) -> Metric:
    gauge = GaugeMetricFamily(f"sexton_{name}", text, labels=["instance_id", label])
    for b in f.binlogs:
        for value in values:
            gauge.add_metric([b.instance, value], counts(b).get(value, 0))
    return gauge
