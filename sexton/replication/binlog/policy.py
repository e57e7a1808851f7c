"""Decide which records of a log have expired, how far a cut goes, and when a run must not cut. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sexton.kernel.errors import BadInput, WrongUsage
from sexton.replication.binlog.model import (
    MAX_COMMIT_SEQ,
    UPSERT,
    BinlogSettings,
    Consumer,
    Cut,
    Log,
    LogRetention,
    RetentionBounds,
    StoredRecord,
)

FOREVER = "forever"
LONGEST_TTL = 3_650 * 86_400
"""Ten years, in seconds. A larger value is a typing error, or the largest number of another system."""
ID_CHARACTERS = 128
CLOCK_SLACK_SECONDS = 300
"""Ticks are up to a minute apart, so a shorter interval does not make the check of the clock stricter than this."""
INHERITED_MS = 3_600_000
"""A record without a timestamp counts as at most this much older than its arrival."""
MAX_TIMESTAMP = 2**53
"""The largest timestamp in ms that every JSON parser represents exactly."""

Versions = Mapping[str, Mapping[str, int]]
"""Table → partition → version, as an UPSERT created them."""


def parse_ttl(value: int | str) -> int | None:
    """Return a TTL in seconds, None for ``forever``.

    Raises:
        BadInput: it is negative or too large. Doris took 2^63 - 1 for "forever", multiplied it, and every record
            expired (apache/doris 22174).
    """
    if value == FOREVER:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LONGEST_TTL:
        raise WrongUsage(f"a TTL is 0 to {LONGEST_TTL} seconds (ten years), or {FOREVER!r}; not {str(value)[:40]}")
    return value


def retention_bounds(log: Log, now: int) -> RetentionBounds:
    """Return which records a log's configuration retains at ``now``. A record exactly as old as the TTL has expired."""
    return RetentionBounds(
        after_ts=None if log.ttl_seconds is None else now - log.ttl_seconds * 1000,
        after_n=0 if log.max_history_nums is None else log.records - log.max_history_nums,
        from_byte=0 if log.max_bytes is None else log.bytes - log.max_bytes,
    )


def silent_consumers(consumers: Sequence[Consumer], now: int, settings: BinlogSettings) -> list[Consumer]:
    """Return the consumers that were silent for the whole hold limit and are not LOST yet.

    Valid only if Sexton could receive acknowledgements during all of that time.
    """
    limit = now - settings.hold_limit_seconds * 1000
    return [c for c in consumers if c.lost_at is None and c.seen_at <= limit]


def effective_timestamp(record: StoredRecord, previous: int, now: int) -> int:
    """Return the timestamp from which a record's age is counted: not after ``now`` and not before the previous record.

    Expired records are therefore always the first ones of a log. A record without a timestamp counts as old as the
    previous record, but at most ``INHERITED_MS`` older than its arrival: an owner that sends no timestamps at all would
    otherwise lose new records. ``previous``: the effective timestamp of the record before it, in ms; 0: there is none.
    """
    if record.timestamp:
        timestamp = min(record.timestamp, now)
    elif previous:
        timestamp = now - INHERITED_MS
    else:
        timestamp = now
    return max(previous, timestamp)


def decide_cut(
    log: Log, expired: int, expired_records: int, consumers: Sequence[Consumer], settings: BinlogSettings
) -> Cut:
    """Decide up to which record a log is cut.

    ``expired``, ``expired_records``: the last record that the configuration no longer retains, and how many those are.
    ``consumers``: the readers that are not LOST.
    """
    held: dict[str, int] = {}
    for reader in consumers:
        if reader.acked < expired:  # one consumer may read several logs
            held[reader.name] = min(reader.acked, held.get(reader.name, reader.acked))
    upto = min([expired, *held.values()])
    if upto <= log.watermark:
        return Cut(seq=log.watermark, held=held)
    if needs_approval(log, expired, expired_records, settings):
        if log.approved <= log.watermark:
            return Cut(seq=log.watermark, held=held, awaiting_seq=expired)
        # More records expired since the approval: cut what is approved, and decide about the rest later.
        upto = min(upto, log.approved)
    return Cut(seq=upto, held=held)


def needs_approval(log: Log, expired: int, expired_records: int, settings: BinlogSettings) -> bool:
    """Tell whether a cut exceeds the limits and goes beyond the approved record.

    Records that a consumer blocks count too: otherwise they would be deleted later, in steps too small for the limit.
    """
    too_many = expired_records > settings.free_records and expired_records > max_fraction(log, settings) * log.kept
    return too_many and expired > log.approved


def max_fraction(log: LogRetention, settings: BinlogSettings) -> float:
    """Return which fraction of a log may be cut without an approval.

    If the TTL is about as short as the interval, a usual run cuts nearly the whole log; twice the usual fraction is
    allowed then.
    """
    if log.ttl_seconds is None:
        return settings.max_cut_fraction
    usual_fraction = settings.interval_seconds / (settings.interval_seconds + log.ttl_seconds)
    return max(settings.max_cut_fraction, 2 * usual_fraction)


def clock_problem(checked_at: int | None, now: int, settings: BinlogSettings) -> str:
    """Return why the clock forbids a cut; empty if it advanced as expected.

    ``checked_at``: when the previous run began, by the same clock; None: there was none.
    """
    moved = 0 if checked_at is None else now - checked_at
    if abs(moved) <= max(2 * settings.interval_seconds, CLOCK_SLACK_SECONDS) * 1000:
        return ""
    way = "forward" if moved > 0 else "back"
    return (
        f"the database's clock moved {way} by {abs(moved) // 1000} s since the last run, more than twice the interval: "
        "either no worker ran for that long, or the clock jumped; the next run, at least half an interval later, "
        "accepts the clock: if it is wrong, run sexton stop now"
    )


def is_retry(checked_at: int | None, now: int, settings: BinlogSettings) -> bool:
    """Tell whether a run begins so soon (less than half an interval) after another that it is its retry."""
    return checked_at is not None and 0 <= now - checked_at < settings.interval_seconds * 500


def parse_versions(record: StoredRecord) -> Versions:
    """Check a record, and return the versions that it created: table → partition → version.

    Raises:
        BadInput: a number or a name is out of range, or an UPSERT's data has the wrong form. It is refused because
            Sexton could never tell which versions of it backends may delete.
    """
    if not 0 < record.commit_seq < MAX_COMMIT_SEQ:
        raise BadInput(f"a record's commit_seq is 1 to {MAX_COMMIT_SEQ - 1}, not {record.commit_seq}")
    if not 0 <= record.timestamp <= MAX_TIMESTAMP:
        raise BadInput(f"record {record.commit_seq}: {record.timestamp} is not a timestamp in ms since 1970")
    if record.type != UPSERT:
        return {}
    try:
        return _upsert_versions(json.loads(record.data))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as e:
        form = "{tableRecords: {TABLE: {partitionRecords: …}}}"
        raise BadInput(f"record {record.commit_seq}, an UPSERT: its data is not {form}") from e


def _upsert_versions(data: Any) -> dict[str, dict[str, int]]:
    tables: dict[str, dict[str, int]] = {}
    for table, table_record in data["tableRecords"].items():
        partitions: dict[str, int] = {}
        for partition_record in table_record["partitionRecords"]:
            id_, version = partition_record["partitionId"], partition_record["version"]
            if isinstance(id_, bool) or not isinstance(id_, int | str):
                raise ValueError(id_)
            if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version < MAX_COMMIT_SEQ:
                raise ValueError(version)
            partition = _checked_id(str(id_))
            partitions[partition] = max(version, partitions.get(partition, 0))
        tables[_checked_id(str(table))] = partitions
    return tables


def _checked_id(text: str) -> str:
    if not 0 < len(text) <= ID_CHARACTERS or not text.isprintable():
        raise ValueError(text[:ID_CHARACTERS])
    return text
