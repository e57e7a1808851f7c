"""Sexton's own metrics, ``sexton_…``: in base units, counters with ``_total``, and few label values.

An instance has the label ``instance_id``, as in the seed: ``instance`` is Prometheus' name of the scraped process.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily

from sexton.check.model import FindingType
from sexton.database.rows import BYTES, NORMAL, OBJECTS, PROTECTIONS, REMOVED, ROUNDS
from sexton.insight.metrics.families import Series, age, families_of_fields
from sexton.insight.metrics.model import (
    HOLDERS,
    OTHER,
    REASONS,
    BinlogFigures,
    Figures,
    InstanceFigures,
    WalFigures,
)
from sexton.insight.views import RoundCounts, Running
from sexton.marks.kept import count_by_reason
from sexton.operators.controls.model import HALTS, ControlKind
from sexton.protection.model import ProtectionEnd
from sexton.storage.port import NOT_LISTED

RUNNING: Mapping[str, tuple[str, Callable[[Running], float | None]]] = {
    "elapsed_seconds": ("Seconds since the running round began.", lambda r: r.progress.elapsed_ms / 1000),
    "eta_seconds": (
        "Seconds until the running round has deleted all, at its rate so far; none before its first object is gone.",
        lambda r: r.progress.seconds_left,
    ),
    "objects_per_second": (
        "Objects per second that the running round has deleted, on average since it began.",
        lambda r: 1000 * r.progress.objects / r.progress.elapsed_ms if r.progress.elapsed_ms else None,
    ),
}
INSTANCE: Mapping[str, tuple[str, Callable[[InstanceFigures, int], float | None]]] = {
    "last_success_timestamp_seconds": (
        "When a round last succeeded and every vault and owner answered; none before the first.",
        lambda i, _: None if i.last_success_at is None else i.last_success_at / 1000,
    ),
    "seconds_since_success": (
        "Seconds since the last successful round, or since it was enabled; only enabled instances that nothing halts.",
        lambda i, now: None if i.quiet_since is None or i.halt is not None else age(i.quiet_since, now),
    ),
    "stopped_seconds": (
        "Seconds since an operator stopped the instance; 0: not stopped.",
        lambda i, now: age(i.halt.since, now) if i.halt is not None and i.halt.by is ControlKind.STOP else 0.0,
    ),
    "last_round_protected_bytes": (
        "Bytes of due marks, as their owner reported them, that protections blocked in the last round.",
        lambda i, _: i.last.protected_bytes if i.last else 0,
    ),
    "seconds_since_complete_check": (
        "Seconds since the beginning of the last complete check, or since an instance with a live view was enabled.",
        lambda i, now: None if i.whole_check is None else age(i.whole_check, now),
    ),
    "round_running": ("1 while a round has not ended.", lambda i, _: i.running is not None),
    "round_waiting": (
        "1 while the running round holds no lease: it waits for one, is paused, or backs off.",
        lambda i, _: i.running is not None and i.running.waiting is not None,
    ),
}
BY_LABEL: Mapping[tuple[str, str], tuple[str, Callable[[InstanceFigures, int], Mapping[str, float]]]] = {
    ("instance_halted", "by"): (
        "1 while a stop, a list or a window forbids rounds.",
        lambda i, _: {h: bool(i.halt and i.halt.by is h) for h in HALTS},
    ),
    ("oldest_due_age_seconds", "kind"): (
        "Age of the oldest due mark of an enabled instance, quarantined marks not counted; 0: none is due.",
        lambda i, now: {kind: age(i.oldest_due.get(kind) if i.enabled else None, now) for kind in i.kinds},
    ),
    ("last_round_held_marks", "holder"): (
        "Marks that the last round did not delete, by the keeper that blocks them.",
        lambda i, _: dict.fromkeys(HOLDERS, 0) | (count_by_reason(i.last.kept) if i.last else {}),
    ),
    ("quarantined_marks", "reason"): ("Quarantined marks, by reason.", lambda i, _: _quarantined(i)),
    ("claimed_marks", "stage"): (
        "Claimed marks that are not finished; upload_grace: deleted, to be listed again until nothing is found.",
        lambda i, _: {"files": i.claimed - i.awaiting_second_pass, "upload_grace": i.awaiting_second_pass},
    ),
    ("vault_fault", "vault"): (
        "1 where the last round had a fault in the vault: it or a prefix did not answer as expected, or is not ours.",
        # A vault that the whitelist excludes is not at fault.
        lambda i, _: {v: s not in (NORMAL, NOT_LISTED) for v, s in sorted(i.last.vaults.items())} if i.last else {},
    ),
}
ROUND_BY_STAGE: Mapping[str, tuple[str, Callable[[RoundCounts], Mapping[str, float]]]] = {
    "marks": (
        "Marks of the running round: due by its plan, claimed, removed.",
        lambda p: {stage: sum(getattr(k, stage) for k in p.kinds) for stage in ("due", "claimed", "removed")},
    ),
    "objects": (
        "Objects of the running round: expected by what is known now, listed, deleted, and remaining.",
        lambda p: {
            "expected": p.expected,
            "listed": sum(k.listed for k in p.kinds),
            "deleted": p.objects,
            "remaining": max(0, p.expected - p.objects),
        },
    ),
}
TOTALS = {
    "freed_bytes": ("Bytes freed, estimates included; survives restarts.", BYTES),
    "removed_marks": ("Marks whose files are deleted; survives restarts.", REMOVED),
    "deleted_objects": ("Objects deleted, or hidden in a bucket with versions; survives restarts.", OBJECTS),
}


def families(f: Figures) -> Iterator[Series]:
    """Yield the families; without instances, families of instances have no samples."""
    by_instance = ["instance_id"]
    yield from families_of_fields(Figures, [], [((), f)], f.now)
    yield from families_of_fields(WalFigures, [], [((), f.wal)], f.now)
    yield from families_of_fields(InstanceFigures, by_instance, [((i.instance,), i) for i in f.instances], f.now)
    yield from families_of_fields(BinlogFigures, by_instance, [((b.instance,), b) for b in f.binlogs], f.now)
    for name, (text, of_instance) in INSTANCE.items():
        yield Series(f"sexton_{name}", text, by_instance, (((i.instance,), of_instance(i, f.now)) for i in f.instances))
    rounds = {i.instance: i.running for i in f.instances if i.running is not None}
    for name, (text, of_round) in RUNNING.items():
        yield Series(f"sexton_round_{name}", text, by_instance, (((i,), of_round(r)) for i, r in rounds.items()))
    for (name, label), (text, of_label) in BY_LABEL.items():
        samples = [((i.instance, value), n) for i in f.instances for value, n in of_label(i, f.now).items()]
        yield Series(f"sexton_{name}", text, [*by_instance, label], samples)
    for name, (text, by_stage) in ROUND_BY_STAGE.items():
        counts = [((i, stage), n) for i, r in rounds.items() for stage, n in by_stage(r.progress).items()]
        yield Series(f"sexton_round_{name}", text, [*by_instance, "stage"], counts)
    for name, (text, counter) in TOTALS.items():
        yield Series(f"sexton_{name}", text, [*by_instance, "kind"], f.totals(counter).items(), CounterMetricFamily)
    text = "Deletes per second that all workers together may now send to a part of a bucket, adapted to its answers."
    yield Series("sexton_pace_keys_per_second", text, ["place"], (((p.place,), p.keys_per_second) for p in f.paces))
    text = "Requests of all workers that a place throttled; survives restarts."
    throttled = (((p.place,), p.throttled) for p in f.paces)
    yield Series("sexton_throttled_requests", text, ["place"], throttled, CounterMetricFamily)
    yield from _of_instances(f)
    text = (
        "Seconds since the last accepted binlog GC, or since the instance was enabled; only those that nothing halts."
    )
    halted = {i.instance for i in f.instances if i.halt is not None}
    since = {b.instance: b.quiet_since for b in f.binlogs if b.quiet_since is not None and b.instance not in halted}
    quiet = (((name,), age(at, f.now)) for name, at in since.items())
    yield Series("sexton_binlog_seconds_since_gc", text, by_instance, quiet)


def _of_instances(f: Figures) -> Iterator[Series]:
    """Yield the findings of each instance, and its counters of rounds and protections."""
    text = "Findings that were open at the end of the last check, by type, and whether they are confirmed."
    findings: list[tuple[tuple[str, str, str], int]] = []
    for i in f.instances:
        for type_ in FindingType:
            number, confirmed = i.findings.get(type_, (0, 0))
            findings += [((i.instance, type_, "yes"), confirmed), ((i.instance, type_, "no"), number - confirmed)]
    yield Series("sexton_check_findings", text, ["instance_id", "type", "confirmed"], findings)
    text = "Rounds that ended and were allowed to delete, whatever their outcome; survives restarts."
    rounds = (((i.instance,), f.counters.get((i.instance, ROUNDS, "*"), 0)) for i in f.instances)
    yield Series("sexton_rounds", text, ["instance_id"], rounds, CounterMetricFamily)
    text = "Protections that ended, by reason; PASSED is the normal end; survives restarts."
    ended = (
        ((i.instance, why), f.counters.get((i.instance, PROTECTIONS, str(why)), 0))
        for i in f.instances
        for why in map(str, ProtectionEnd)
    )
    yield Series("sexton_protections_ended", text, ["instance_id", "why"], ended, CounterMetricFamily)


def _quarantined(i: InstanceFigures) -> Mapping[str, float]:
    counts = Counter(dict.fromkeys(REASONS, 0))
    for reason, n in i.quarantined.items():
        counts[reason if reason in REASONS else OTHER] += n
    return counts
