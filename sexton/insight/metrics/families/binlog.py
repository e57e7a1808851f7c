"""Metrics of binlogs, journals and replicas, per instance: `sexton binlog list` and `sexton replica list` name them."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sexton.insight.metrics import labels
from sexton.insight.metrics.model import BinlogFigures, Figures

Of = Callable[[BinlogFigures, int], float | None]
"""(instance, now) → value; None where there is none."""


def _age(since: int | None, now: int) -> float:
    return 0.0 if since is None else max(0, now - since) / 1000


GAUGES: Mapping[str, tuple[str, Of]] = {
    "binlog_logs": ("Logs that are kept.", lambda b, _: b.logs),
    "binlog_kept_records": ("Records in them.", lambda b, _: b.records),
    "binlog_kept_bytes": ("The data of these, as the owner sent it.", lambda b, _: b.bytes),
    "binlog_seconds_since_gc": (
        "Seconds since the last look that was not refused, or since the enabling; only for enabled instances.",
        lambda b, now: None if b.quiet_since is None else _age(b.quiet_since, now),
    ),
    "binlog_held_logs": ("Logs of which consumers hold what has expired.", lambda b, _: b.held),
    "binlog_oldest_held_age_seconds": (
        "Since when the first of them is held; 0: none is.",
        lambda b, n: _age(b.held_since, n),
    ),
    "binlog_cuts_waiting": ("Cuts that wait for a person, for they take very much.", lambda b, _: b.waiting),
    "binlog_oldest_cut_waiting_age_seconds": (
        "Age of the oldest of them; 0: none.",
        lambda b, n: _age(b.waiting_since, n),
    ),
    "binlog_consumers": ("Consumers that are registered.", lambda b, _: b.consumers),
    "binlog_lost_consumers": ("Those that were silent for too long, and hold nothing.", lambda b, _: b.lost_consumers),
    "journal_kept_entries": ("Entries of the journal that can be read.", lambda b, _: b.entries),
    "journal_followers": ("Who follows it, LOST ones too.", lambda b, _: b.followers),
    "journal_slowest_follower_lag_entries": (
        "Entries that the slowest follower has still to apply, LOST ones left out.",
        lambda b, _: b.lag,
    ),
    "journal_lost_followers": ("Those for whom nothing is kept: they begin anew.", lambda b, _: b.lost_followers),
    "backends": ("Backends that have reported or pulled.", lambda b, _: b.backends),
    "backends_behind": ("Backends of whose copies something should go.", lambda b, _: b.behind_backends),
    "backends_never_pulled": ("Those of them that have never asked for cuts.", lambda b, _: b.unheard_backends),
    "backend_seconds_since_pull": (
        "Since when one of them has not asked, the longest, those left out that never did; 0: none is behind.",
        lambda b, now: _age(b.pulled_since, now),
    ),
    "replica_cuts_pending": ("Copies of which something should go and is not known to be gone.", lambda b, _: b.behind),
    "replica_cuts_blocked": (
        "Those of which not all of it may go now, because a copy of the tablet may need it.",
        lambda b, _: b.blocked,
    ),
    "replica_oldest_bad_age_seconds": (
        "Since when the first bad copy is; 0: none is.",
        lambda b, n: _age(b.bad_since, n),
    ),
    "replica_oldest_missing_age_seconds": (
        "Since when the first copy that is marked as missing versions lacks them; 0: none is.",
        lambda b, now: _age(b.missing_since, now),
    ),
}
COUNTERS: Mapping[str, tuple[str, Callable[[BinlogFigures], int]]] = {
    "binlog_cuts": ("Logs that were cut; survives restarts.", lambda b: b.cuts),
    "binlog_clock_refusals": (
        "Looks that cut nothing because the database's clock had moved too far; survives restarts.",
        lambda b: b.refusals,
    ),
}


def families(f: Figures) -> Iterator[Metric]:
    """Yield them; instances that have no binlogs, journal or replicas have no samples."""
    told = "Seconds from one look at an instance's binlogs to the next."
    yield GaugeMetricFamily("sexton_binlog_gc_interval_seconds", told, value=f.binlog_interval_seconds)
    for name, (told, value) in GAUGES.items():
        gauge = GaugeMetricFamily(f"sexton_{name}", told, labels=["instance_id"])
        for b in f.binlogs:
            if (found := value(b, f.now)) is not None:
                gauge.add_metric([b.instance], found)
        yield gauge
    for name, (told, count) in COUNTERS.items():
        counter = CounterMetricFamily(f"sexton_{name}", told, labels=["instance_id"])
        for b in f.binlogs:
            counter.add_metric([b.instance], count(b))
        yield counter
    told = "Copies of tablets with which something is the matter; one copy may be in several states."
    yield _by("replicas_unhealthy", told, "state", labels.STATES, f, lambda b: b.unwell)
    told = "Copies whose binlogs a backend could not let go, by what it told last."
    yield _by("replica_problems", told, "outcome", labels.OUTCOMES, f, lambda b: b.problems)


def _by(
    name: str,
    told: str,
    label: str,
    values: tuple[str, ...],
    f: Figures,
    of: Callable[[BinlogFigures], Mapping[str, int]],
) -> Metric:
    gauge = GaugeMetricFamily(f"sexton_{name}", told, labels=["instance_id", label])
    for b in f.binlogs:
        for value in values:
            gauge.add_metric([b.instance, value], of(b).get(value, 0))
    return gauge
