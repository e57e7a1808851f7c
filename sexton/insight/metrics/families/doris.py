"""The 18 metrics of the seed (doris-data-recycling-article, table 4.2), named as it prints them, ``elpased`` included.

Where the article's column of names and its examples differ, the column and the label ``resource_type`` apply. Times are
in milliseconds, as in the article. ``resource_type`` is a kind of marks, ``resource_id`` a vault.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from prometheus_client.core import UnknownMetricFamily

from sexton.database.rows import BYTES, REMOVED, ROUNDS, VAULT
from sexton.insight.metrics.families import Series
from sexton.insight.metrics.model import Figures, InstanceFigures, vault_status
from sexton.recycle.model import KindReport

NOTHING = -1.0
"""The article's value of a speed where nothing was recycled, or no time was measured."""
InFlight: TypeAlias = Mapping[tuple[str, str], int]
"""(instance, vault) → pages being deleted now by this process."""


KIND_GAUGES: Mapping[str, tuple[str, Callable[[KindReport], float]]] = {
    "last_round_recycled_num": ("Marks whose files the last round deleted.", lambda k: k.removed),
    "last_round_to_recycle_num": ("Marks that were due when the last round began.", lambda k: k.due),
    "last_round_recycled_bytes": ("Bytes freed in the last round, estimates included.", lambda k: k.bytes),
    "last_round_to_recycle_bytes": (
        "Bytes of the marks that were due when the last round began, as their owners reported them.",
        lambda k: k.due_bytes,
    ),
    "last_round_recycle_elpased_ts": ("Milliseconds the last round worked on the kind.", lambda k: k.elapsed_ms),
    "recycle_time_per_resource": (
        "Milliseconds per mark in the last round; -1: nothing recycled.",
        lambda k: k.elapsed_ms / k.removed if k.removed and k.elapsed_ms else NOTHING,
    ),
    "recycle_bytes_per_ms": (
        "Bytes per millisecond in the last round; -1: nothing recycled.",
        lambda k: k.bytes / k.elapsed_ms if k.bytes and k.elapsed_ms else NOTHING,
    ),
}
STORED = "Stored with the rounds: it survives restarts and is equal in every process."
KIND_TOTALS = {
    "recycle_round": ("Rounds that had the kind.", ROUNDS),
    "recycle_total_num_since_started": ("Marks whose files were deleted since the instance's first round.", REMOVED),
    "recycle_total_bytes_since_started": ("Bytes freed, since the instance's first round.", BYTES),
}
INSTANCE_GAUGES: Mapping[str, tuple[str, Callable[[InstanceFigures], int | None]]] = {
    "last_round_recycle_duration": (
        "Milliseconds the last round took, from its start to its end.",
        lambda i: (
            i.last.ended_at - i.last.started_at
            if i.last and i.last.started_at is not None and i.last.ended_at is not None
            else None
        ),
    ),
    "next_ts": (
        "When the next round is due, ms since 1970; in the past: as soon as a slot is free.",
        lambda i: i.next_round,
    ),
    "recycle_start_ts": (
        "Start of the last round that ended, ms since 1970.",
        lambda i: i.last.started_at if i.last else None,
    ),
    "recycle_end_ts": ("End of the last round, ms since 1970.", lambda i: i.last.ended_at if i.last else None),
    "recycle_last_success_ts": ("End of the last successful round, ms since 1970.", lambda i: i.last_success_at),
}


def concurrency(instances: Sequence[InstanceFigures], in_flight: InFlight) -> Series:
    """Return the family of this process; ``instances``: whose vaults have a sample in any case."""
    pages = {(i.instance, vault): 0 for i in instances for vault in i.vaults} | dict(in_flight)
    text = "Pages of keys this process deletes at this moment."
    busy = ((vault, max(0, n)) for vault, n in pages.items())
    return Series("recycler_vault_recycle_task_concurrency", text, ["instance_id", "resource_id"], busy)


def families(figures: Figures) -> Iterator[Series]:
    """Yield the families of the database; without figures of an instance, a family has no samples."""
    text = f"Rounds by status of the vault: normal, or why the round excluded it. {STORED}"
    rounds: Counter[tuple[str, str, str]] = Counter()
    for (instance, counter, label), value in figures.counters.items():
        if counter == VAULT:
            vault, _, status = label.partition("/")  # VAULT/STATUS
            rounds[instance, vault, vault_status(status)] += value
    by_status = ["instance_id", "resource_id", "status"]
    yield Series("recycler_vault_recycle_status", text, by_status, sorted(rounds.items()), UnknownMetricFamily)
    running = "Instances that are being recycled now: valid leases, over all workers."
    yield Series("recycler_instance_running_counter", running, [], [((), figures.running)])
    reports: list[tuple[str, KindReport]] = []  # the last round's of each kind, empty ones included
    for i in figures.instances:
        if i.last is not None:
            ran = {k.kind: k for k in i.last.kinds}
            reports += [(i.instance, ran.get(kind) or KindReport(kind=kind)) for kind in sorted({*ran, *i.kinds})]
    by_kind = ["instance_id", "resource_type"]
    for name, (text, of_kind) in KIND_GAUGES.items():
        samples = (((instance, k.kind), of_kind(k)) for instance, k in reports)
        yield Series(f"recycler_instance_{name}", text, by_kind, samples)
    for name, (text, counter) in KIND_TOTALS.items():
        totals = figures.totals(counter).items()
        yield Series(f"recycler_instance_{name}", f"{text} {STORED}", by_kind, totals, UnknownMetricFamily)
    for name, (text, of_instance) in INSTANCE_GAUGES.items():
        values = (((i.instance,), of_instance(i)) for i in figures.instances)
        yield Series(f"recycler_instance_{name}", text, ["instance_id"], values)
