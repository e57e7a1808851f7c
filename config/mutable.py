"""The settings that may be changed in the database, for all workers at once and without a restart.

Only those that change the course of work are here. Addresses, secrets, sizes of pools, and bounds that limit other
parties are not: a party that can write to the database must not be able to change them.
"""

import re

PER_INSTANCE = frozenset(
    {
        "recycle.recycle_interval_seconds",
        "recycle.retention_seconds",
        "recycle.compacted_rowset_retention_seconds",
        "recycle.dropped_partition_retention_seconds",
        "recycle.dropped_index_retention_seconds",
        "recycle.label_keep_max_second",
        "recycle.fallback_retention_seconds",
        "recycle.upload_grace_seconds",
        "recycle.max_delete_objects",
        "recycle.max_delete_fraction",
        "check.check_object_interval_seconds",
        "check.check_grace_seconds",
    }
)
"""Those that may differ between instances; ``kinds.NAME.retention_seconds`` may too."""

FOR_ALL = frozenset(
    {
        "spark.spark_threshold_objects",
        "wal.auto_purge_interval_seconds",
        "wal.purge_trigger_entries",
        "wal.purge_trigger_bytes",
        "wal.trigger_flush_entries",
        "wal.trigger_flush_bytes",
        "binlog.gc_binlog_interval_seconds",
        "binlog.hold_limit_seconds",
        "binlog.max_cut_fraction",
    }
)
"""Those that are the same for all instances: their work concerns several of them."""

_OF_KIND = re.compile(r"kinds\.([^.]+)\.retention_seconds")


def kind_of(key: str) -> str | None:
    """Return the kind whose retention a key sets, or None."""
    match = _OF_KIND.fullmatch(key)
    return match[1] if match else None


def is_mutable(key: str) -> bool:
    """Return whether the database may change a setting."""
    return key in PER_INSTANCE or key in FOR_ALL or kind_of(key) is not None


def is_per_instance(key: str) -> bool:
    """Return whether a setting may differ between instances."""
    return key in PER_INSTANCE or kind_of(key) is not None
