"""Our own metrics, ``sexton_…``: base units, ``_total`` for what only grows, label values that are few.

The label of an instance is ``instance_id``, as the seed's: ``instance`` is Prometheus' own name for who was scraped.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sexton.check.model import Type
from sexton.database.counters import BYTES, NORMAL, PROTECTIONS, REMOVED, ROUNDS
from sexton.insight.metrics import labels
from sexton.insight.metrics.families import binlog, wal
from sexton.insight.metrics.model import Figures, InstanceFigures
from sexton.marks.keepers import keeper
from sexton.operators.controls.model import ControlKind
from sexton.protection.model import ProtectionEnd
from sexton.storage.port import NOT_LISTED

HALTS = (ControlKind.STOP, ControlKind.BLACKLIST, ControlKind.WHITELIST, ControlKind.WINDOW)
Of = Callable[[InstanceFigures, int], float | None]
"""(instance, now) → value; None where there is none."""


def _seconds(since: int | None, now: int) -> float:
    return 0.0 if since is None else max(0, now - since) / 1000


def _stopped(i: InstanceFigures, now: int) -> float:
    return _seconds(i.halt.since, now) if i.halt is not None and i.halt.by is ControlKind.STOP else 0.0


OF_AN_INSTANCE: Mapping[str, tuple[str, Of]] = {
    "instance_enabled": ("1 where rounds delete, 0 where they only observe.", lambda i, _: i.enabled),
    "rounds_failed_in_a_row": ("Failed rounds since the last that did not fail.", lambda i, _: i.failures),
    "last_success_timestamp_seconds": (
        "When a round last succeeded and every vault and owner answered; none before the first.",
        lambda i, _: None if i.last_success_at is None else i.last_success_at / 1000,
    ),
    "seconds_since_success": (
        "Seconds since the last success, or since the enabling; only for enabled instances.",
        lambda i, now: None if i.quiet_since is None else _seconds(i.quiet_since, now),
    ),
    "stopped_seconds": ("Seconds for which an operator's stop has kept the instance; 0: not stopped.", _stopped),
    "holds": ("Operators' holds that keep something now.", lambda i, _: i.holds),
    "oldest_hold_age_seconds": (
        "Age of the oldest active hold; 0 without one.",
        lambda i, now: _seconds(i.oldest_hold, now),
    ),
    "protections": ("Sync jobs' protections that are not finished.", lambda i, _: i.protections),
    "soft_protections": (
        "Sync jobs' protections that are finished and wait for the owner's watermark.",
        lambda i, _: i.soft_protections,
    ),
    "oldest_protection_age_seconds": (
        "Age of the oldest protection, finished or not; 0 without one.",
        lambda i, now: _seconds(i.oldest_protection, now),
    ),
    "last_round_protected_bytes": (
        "Bytes, by their owner's word, of due marks that the last round left because of protections.",
        lambda i, _: i.last.protected_bytes if i.last else 0,
    ),
    "approvals_waiting": ("Plans that wait for a person.", lambda i, _: i.approvals),
    "oldest_approval_age_seconds": (
        "Seconds since a person is waited for, over all plans that followed one another unanswered; 0: nothing waits.",
        lambda i, now: _seconds(i.oldest_approval, now),
    ),
    "seconds_since_complete_check": (
        "Seconds since the beginning of the last check that saw everything; none before the first.",
        lambda i, now: None if i.whole_check is None else _seconds(i.whole_check, now),
    ),
    "vaults_checked_too_rarely": (
        "Vaults whose store removes versions before a check, or a person told by it, may have them shown again.",
        lambda i, _: i.too_late_vaults,
    ),
    "unapproved_objects": (
        "Objects under a limit that were claimed within the last 24 hours without a person's approval.",
        lambda i, _: i.unasked_objects,
    ),
}


def families(f: Figures) -> Iterator[Metric]:
    """Yield our families; without instances, those of instances have no samples."""
    interval = "Seconds from one round of an instance to its next."
    yield GaugeMetricFamily("sexton_round_interval_seconds", interval, value=f.interval_seconds)
    told = "Objects of an instance that may go within 24 hours unasked (max_delete_objects)."
    yield GaugeMetricFamily("sexton_max_delete_objects", told, value=f.max_delete_objects)
    told = "Seconds from the mark (prepared: its transaction's expiry) until it is due."
    retention = GaugeMetricFamily("sexton_retention_seconds", told, labels=["kind"])
    for kind, seconds in sorted(f.retention_seconds.items()):
        retention.add_metric([kind], seconds)
    yield retention
    for name, (told, value) in OF_AN_INSTANCE.items():
        gauge = GaugeMetricFamily(f"sexton_{name}", told, labels=["instance_id"])
        for i in f.instances:
            if (found := value(i, f.now)) is not None:
                gauge.add_metric([i.instance], found)
        yield gauge
    told = "1 where rounds are kept from running now, by what."
    yield _by("instance_halted", told, "by", f, lambda i: {h: bool(i.halt and i.halt.by is h) for h in HALTS})
    told = "Age of the oldest due mark, its retention included, what is quarantined left out; 0: nothing is due."
    yield _by("oldest_due_age_seconds", told, "kind", f, lambda i: _ages(i, f.now))
    told = "Marks that the last round looked at and left, by who keeps them."
    yield _by("last_round_held_marks", told, "holder", f, _held)
    told = "Marks set aside, by reason."
    yield _by("quarantined_marks", told, "reason", f, _quarantined)
    told = "Marks claimed and not finished; upload_grace: files gone, listed once more when the grace has passed."
    yield _by("claimed_marks", told, "stage", f, lambda i: {"files": i.claimed - i.late, "upload_grace": i.late})
    told = "1 where the last round left the vault alone because it was not reachable or not provably ours."
    yield _by("vault_fault", told, "vault", f, _faults)
    yield _findings(f)
    yield from _totals(f)
    yield from _ended(f)
    yield from _paces(f)
    yield from wal.families(f.wal, f.wal_interval_seconds, f.now)
    yield from binlog.families(f)


def _by(name: str, told: str, label: str, f: Figures, of: Callable[[InstanceFigures], Mapping[str, float]]) -> Metric:
    gauge = GaugeMetricFamily(f"sexton_{name}", told, labels=["instance_id", label])
    for i in f.instances:
        for value, n in of(i).items():
            gauge.add_metric([i.instance, value], n)
    return gauge


def _ages(i: InstanceFigures, now: int) -> Mapping[str, float]:
    return {kind: _seconds(i.oldest_due.get(kind), now) for kind in i.kinds}


def _held(i: InstanceFigures) -> Mapping[str, float]:
    found = Counter(dict.fromkeys(labels.HOLDERS, 0))
    for holder, n in i.last.held.items() if i.last else ():
        found[keeper(holder)] += n
    return found


def _quarantined(i: InstanceFigures) -> Mapping[str, float]:
    found = Counter(dict.fromkeys(labels.REASONS, 0))
    for reason, n in i.quarantined.items():
        found[labels.reason(reason)] += n
    return found


def _faults(i: InstanceFigures) -> Mapping[str, float]:
    """Return 1 for each vault at fault in the last round; one that the whitelist leaves out is not."""
    found = i.last.vaults if i.last else {}
    return {vault: status not in (NORMAL, NOT_LISTED) for vault, status in sorted(found.items())}


def _findings(f: Figures) -> Metric:
    told = "Findings open at the end of the last check, by type, and whether they are confirmed."
    gauge = GaugeMetricFamily("sexton_check_findings", told, labels=["instance_id", "type", "confirmed"])
    for i in f.instances:
        for type_ in Type:
            every, sure = i.findings.get(type_, (0, 0))
            gauge.add_metric([i.instance, type_, "yes"], sure)
            gauge.add_metric([i.instance, type_, "no"], every - sure)
    return gauge


def _totals(f: Figures) -> Iterator[Metric]:
    for name, told, counter in (
        ("freed_bytes", "Bytes freed, estimates included; survives restarts.", BYTES),
        ("removed_marks", "Marks whose files are gone; survives restarts.", REMOVED),
    ):
        family = CounterMetricFamily(f"sexton_{name}", told, labels=["instance_id", "kind"])
        for (instance, kind), n in f.totals(counter).items():
            family.add_metric([instance, kind], n)
        yield family
    told = "Rounds that ended and were allowed to delete, whatever their outcome; survives restarts."
    rounds = CounterMetricFamily("sexton_rounds", told, labels=["instance_id"])
    for i in f.instances:
        rounds.add_metric([i.instance], f.counters.get((i.instance, ROUNDS, "*"), 0))
    yield rounds


def _ended(f: Figures) -> Iterator[Metric]:
    told = "Protections that ended, by why: PASSED is as it should be; survives restarts."
    family = CounterMetricFamily("sexton_protections_ended", told, labels=["instance_id", "why"])
    for i in f.instances:
        for why in ProtectionEnd:
            family.add_metric([i.instance, str(why)], f.counters.get((i.instance, PROTECTIONS, str(why)), 0))
    yield family


def _paces(f: Figures) -> Iterator[Metric]:
    told = "Deletes per second that all workers together may send to a part of a bucket now, as they learned it."
    pace = GaugeMetricFamily("sexton_pace_keys_per_second", told, labels=["place"])
    told = "Requests that a place refused because they were too many, of all workers; survives restarts."
    throttled = CounterMetricFamily("sexton_throttled_requests", told, labels=["place"])
    for p in f.paces:
        pace.add_metric([p.place], p.keys_per_second)
        throttled.add_metric([p.place], p.throttled)
    yield pace
    yield throttled
