"""Sexton's own metrics, ``sexton_…``: in base units, counters with ``_total``, and few label values.

An instance has the label ``instance_id``, as in the seed: ``instance`` is Prometheus' name of the scraped process.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sexton.check.model import FindingType
from sexton.database.counters import BYTES, NORMAL, OBJECTS, PROTECTIONS, REMOVED, ROUNDS
from sexton.insight.metrics import labels
from sexton.insight.metrics.families import binlog, running, wal
from sexton.insight.metrics.model import Figures, InstanceFigures
from sexton.marks.keepers import count_by_reason
from sexton.operators.controls.model import ControlKind
from sexton.protection.model import ProtectionEnd
from sexton.storage.port import NOT_LISTED

HALTS = (ControlKind.STOP, ControlKind.BLACKLIST, ControlKind.WHITELIST, ControlKind.WINDOW)
ValueOf = Callable[[InstanceFigures, int], float | None]
"""(figures, now) → value; None: the instance has no sample."""


def _seconds(since: int | None, now: int) -> float:
    return 0.0 if since is None else max(0, now - since) / 1000


def _stopped(i: InstanceFigures, now: int) -> float:
    return _seconds(i.halt.since, now) if i.halt is not None and i.halt.by is ControlKind.STOP else 0.0


INSTANCE_GAUGES: Mapping[str, tuple[str, ValueOf]] = {
    "instance_enabled": ("1 where rounds delete, 0 where they only observe.", lambda i, _: i.enabled),
    "rounds_failed_in_a_row": ("Failed rounds since the last that did not fail.", lambda i, _: i.failures),
    "last_success_timestamp_seconds": (
        "When a round last succeeded and every vault and owner answered; none before the first.",
        lambda i, _: None if i.last_success_at is None else i.last_success_at / 1000,
    ),
    "seconds_since_success": (
        "Seconds since the last successful round, or since the instance was enabled; only enabled instances.",
        lambda i, now: None if i.quiet_since is None else _seconds(i.quiet_since, now),
    ),
    "stopped_seconds": ("Seconds since an operator stopped the instance; 0: not stopped.", _stopped),
    "holds": ("Active holds of operators.", lambda i, _: i.holds),
    "oldest_hold_age_seconds": (
        "Age of the oldest active hold; 0: none.",
        lambda i, now: _seconds(i.oldest_hold, now),
    ),
    "protections": ("Unfinished protections of sync jobs.", lambda i, _: i.protections),
    "soft_protections": (
        "Finished protections of sync jobs that wait for the owner's watermark.",
        lambda i, _: i.soft_protections,
    ),
    "oldest_protection_age_seconds": (
        "Age of the oldest protection, finished or not; 0: none.",
        lambda i, now: _seconds(i.oldest_protection, now),
    ),
    "last_round_protected_bytes": (
        "Bytes of due marks, as their owner reported them, that protections blocked in the last round.",
        lambda i, _: i.last.protected_bytes if i.last else 0,
    ),
    "approvals_waiting": ("Plans that wait for an operator's approval.", lambda i, _: i.approvals),
    "oldest_approval_age_seconds": (
        "Seconds that an approval has been pending, over all unanswered plans in a row; 0: none is.",
        lambda i, now: _seconds(i.oldest_approval, now),
    ),
    "seconds_since_complete_check": (
        "Seconds since the beginning of the last complete check, or since an instance with a live view was enabled.",
        lambda i, now: None if i.whole_check is None else _seconds(i.whole_check, now),
    ),
    "live_prefixes": (
        "Live rows of the last check that name a prefix: the loss of an object inside one cannot be detected.",
        lambda i, _: i.live_prefixes,
    ),
    "vaults_checked_too_rarely": (
        "Vaults whose store expires deleted versions too early for a check to detect a loss in time to undo it.",
        lambda i, _: i.too_late_vaults,
    ),
    "unapproved_objects": (
        "Objects under a limit that were claimed without an operator's approval in the last 24 hours.",
        lambda i, _: i.unasked_objects,
    ),
}


def families(f: Figures) -> Iterator[Metric]:
    """Yield the families; without instances, families of instances have no samples."""
    interval = "Seconds between two rounds of an instance."
    yield GaugeMetricFamily("sexton_round_interval_seconds", interval, value=f.interval_seconds)
    text = "Objects of an instance that may be deleted within 24 hours without approval (max_delete_objects)."
    yield GaugeMetricFamily("sexton_max_delete_objects", text, value=f.max_delete_objects)
    text = "Tokens of the API that were used within the last 14 days and end within the next 14."
    yield GaugeMetricFamily("sexton_expiring_tokens", text, value=f.expiring_tokens)
    text = "Seconds from the mark (prepared: its transaction's expiry) until it is due."
    retention = GaugeMetricFamily("sexton_retention_seconds", text, labels=["kind"])
    for kind, seconds in sorted(f.retention_seconds.items()):
        retention.add_metric([kind], seconds)
    yield retention
    for name, (text, value_of) in INSTANCE_GAUGES.items():
        gauge = GaugeMetricFamily(f"sexton_{name}", text, labels=["instance_id"])
        for i in f.instances:
            value = value_of(i, f.now)
            if value is not None:
                gauge.add_metric([i.instance], value)
        yield gauge
    text = "1 while a stop, a list or a window forbids rounds."
    yield _by("instance_halted", text, "by", f, lambda i: {h: bool(i.halt and i.halt.by is h) for h in HALTS})
    text = "Age of the oldest due mark since it was marked, quarantined marks not counted; 0: none is due."
    yield _by("oldest_due_age_seconds", text, "kind", f, lambda i: _ages(i, f.now))
    text = "Marks that the last round did not delete, by the keeper that blocks them."
    yield _by("last_round_held_marks", text, "holder", f, _held)
    text = "Quarantined marks, by reason."
    yield _by("quarantined_marks", text, "reason", f, _quarantined)
    text = "Claimed marks that are not finished; upload_grace: files deleted, prefix to be listed once more later."
    yield _by("claimed_marks", text, "stage", f, _claimed_by_stage)
    text = "1 where the last round excluded the vault: it was unreachable, or not provably this deployment's."
    yield _by("vault_fault", text, "vault", f, _faults)
    yield from running.families(f)
    yield _findings(f)
    yield from _totals(f)
    yield from _ended_protections(f)
    yield from _paces(f)
    yield _table_bytes(f)
    yield from wal.families(f.wal, f.wal_interval_seconds, f.now)
    yield from binlog.families(f)


def _by(
    name: str, text: str, label: str, f: Figures, values: Callable[[InstanceFigures], Mapping[str, float]]
) -> Metric:
    gauge = GaugeMetricFamily(f"sexton_{name}", text, labels=["instance_id", label])
    for i in f.instances:
        for value, n in values(i).items():
            gauge.add_metric([i.instance, value], n)
    return gauge


def _ages(i: InstanceFigures, now: int) -> Mapping[str, float]:
    return {kind: _seconds(i.oldest_due.get(kind), now) for kind in i.kinds}


def _held(i: InstanceFigures) -> Mapping[str, float]:
    totals: dict[str, float] = dict.fromkeys(labels.HOLDERS, 0)
    return totals | count_by_reason(i.last.kept) if i.last else totals


def _claimed_by_stage(instance: InstanceFigures) -> dict[str, float]:
    waiting = instance.awaiting_second_pass
    return {"files": instance.claimed - waiting, "upload_grace": waiting}


def _quarantined(i: InstanceFigures) -> Mapping[str, float]:
    counts = Counter(dict.fromkeys(labels.REASONS, 0))
    for reason, n in i.quarantined.items():
        counts[labels.reason(reason)] += n
    return counts


def _faults(i: InstanceFigures) -> Mapping[str, float]:
    """Return 1 for each vault at fault in the last round; a vault that the whitelist excludes is not at fault."""
    statuses = i.last.vaults if i.last else {}
    return {vault: status not in (NORMAL, NOT_LISTED) for vault, status in sorted(statuses.items())}


def _findings(f: Figures) -> Metric:
    text = "Findings that were open at the end of the last check, by type, and whether they are confirmed."
    gauge = GaugeMetricFamily("sexton_check_findings", text, labels=["instance_id", "type", "confirmed"])
    for i in f.instances:
        for type_ in FindingType:
            found, confirmed = i.findings.get(type_, (0, 0))
            gauge.add_metric([i.instance, type_, "yes"], confirmed)
            gauge.add_metric([i.instance, type_, "no"], found - confirmed)
    return gauge


def _totals(f: Figures) -> Iterator[Metric]:
    for name, text, counter in (
        ("freed_bytes", "Bytes freed, estimates included; survives restarts.", BYTES),
        ("removed_marks", "Marks whose files are deleted; survives restarts.", REMOVED),
        ("deleted_objects", "Objects deleted, or hidden in a bucket with versions; survives restarts.", OBJECTS),
    ):
        family = CounterMetricFamily(f"sexton_{name}", text, labels=["instance_id", "kind"])
        for (instance, kind), n in f.totals(counter).items():
            family.add_metric([instance, kind], n)
        yield family
    text = "Rounds that ended and were allowed to delete, whatever their outcome; survives restarts."
    rounds = CounterMetricFamily("sexton_rounds", text, labels=["instance_id"])
    for i in f.instances:
        rounds.add_metric([i.instance], f.counters.get((i.instance, ROUNDS, "*"), 0))
    yield rounds


def _ended_protections(f: Figures) -> Iterator[Metric]:
    text = "Protections that ended, by reason; PASSED is the normal end; survives restarts."
    family = CounterMetricFamily("sexton_protections_ended", text, labels=["instance_id", "why"])
    for i in f.instances:
        for why in ProtectionEnd:
            family.add_metric([i.instance, str(why)], f.counters.get((i.instance, PROTECTIONS, str(why)), 0))
    yield family


def _paces(f: Figures) -> Iterator[Metric]:
    text = "Deletes per second that all workers together may now send to a part of a bucket, adapted to its answers."
    pace = GaugeMetricFamily("sexton_pace_keys_per_second", text, labels=["place"])
    text = "Requests of all workers that a place throttled; survives restarts."
    throttled = CounterMetricFamily("sexton_throttled_requests", text, labels=["place"])
    for p in f.paces:
        pace.add_metric([p.place], p.keys_per_second)
        throttled.add_metric([p.place], p.throttled)
    yield pace
    yield throttled


def _table_bytes(f: Figures) -> Metric:
    text = "Bytes on disk of a table of Sexton, with its indexes and TOAST."
    gauge = GaugeMetricFamily("sexton_table_bytes", text, labels=["table"])
    for table, size in f.table_bytes.items():
        gauge.add_metric([table], size)
    return gauge
