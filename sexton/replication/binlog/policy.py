"""What of a log goes, how far, and what an UPSERT's data says. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import MOST, UPSERT, BinlogSettings, Bounds, Config, Consumer, Cut, Log, Record

FOREVER = "forever"
LONGEST_TTL = 3_650 * 86_400
"""Ten years, in seconds: what is longer is a typing error, or the largest number somebody had."""
ID_CHARACTERS = 128
SLACK_SECONDS = 300
"""Ticks are up to a minute apart: where it is looked more often than that, it is not looked more often."""
INHERITED_MS = 3_600_000
"""A record without a timestamp is taken to be older than its arrival by this at most."""
_LAST = 2**53
"""Timestamps in ms that a JSON parser elsewhere still takes for what they are."""


def ttl(given: int | str) -> int | None:
    """Return the seconds of a TTL, None for ``forever``.

    Raises:
        BadInput: it is negative, or a number that stands for something else. Doris took 2^63 - 1 for "for ever",
            multiplied it, and everything had expired (apache/doris 22174).
    """
    if given == FOREVER:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= LONGEST_TTL:
        raise BadInput(f"a TTL is 0 to {LONGEST_TTL} seconds (ten years), or {FOREVER!r}; not {str(given)[:40]}")
    return given


def bounds(log: Log, now: int) -> Bounds:
    """Return what of a log is kept now. A record that is exactly as old as the TTL goes."""
    return Bounds(
        after_ts=None if log.ttl_seconds is None else now - log.ttl_seconds * 1000,
        after_n=0 if log.max_history_nums is None else log.records - log.max_history_nums,
        from_byte=0 if log.max_bytes is None else log.bytes - log.max_bytes,
    )


def lost(consumers: Sequence[Consumer], now: int, terms: BinlogSettings) -> list[Consumer]:
    """Return those that have been silent for too long to hold anything back. For who has looked all that time."""
    limit = now - terms.hold_limit_seconds * 1000
    return [c for c in consumers if c.lost_at is None and c.seen_at <= limit]


def old(record: Record, before: int, now: int) -> int:
    """Return what a record's age is counted from: no later than now, and no earlier than what came before it.

    So what has expired is what comes first in a log. A record without a timestamp is as old as the one before it, if
    that one is not much older than the moment it came in: an owner without any timestamps would lose what is new.
    """
    own = min(record.timestamp, now) if record.timestamp else now - INHERITED_MS if before else now
    return max(before, own)


def cut(log: Log, expired: int, goes: int, consumers: Sequence[Consumer], terms: BinlogSettings) -> Cut:
    """Return up to where a log goes.

    Args:
        log: as it is now.
        expired: the last record that its configuration lets go.
        goes: how many records that would be.
        consumers: who reads it, those that are LOST left out.
        terms: how much may go unasked.
    """
    held: dict[str, int] = {}
    for reader in consumers:
        if reader.acked < expired:  # one name may read several logs
            held[reader.name] = min(reader.acked, held.get(reader.name, reader.acked))
    upto = min([expired, *held.values()])
    if upto <= log.watermark:
        return Cut(seq=log.watermark, held=held)
    # Counted as if nobody held anything: what is held now goes later, in steps that nobody would notice.
    if goes > terms.free_records and goes > allowed(log, terms) * log.kept and expired > log.approved:
        if log.approved <= log.watermark:
            return Cut(seq=log.watermark, held=held, wants=expired)
        upto = min(upto, log.approved)  # the log went on meanwhile: what was approved goes, the rest is judged anew
    return Cut(seq=upto, held=held)


def allowed(log: Config, terms: BinlogSettings) -> float:
    """Return which part of a log may go at once. Where records hardly outlive a round, all of it usually does."""
    if log.ttl_seconds is None:
        return terms.max_cut_fraction
    usual = terms.interval_seconds / (terms.interval_seconds + log.ttl_seconds)
    return max(terms.max_cut_fraction, 2 * usual)


def clock(looked_at: int | None, now: int, terms: BinlogSettings) -> str:
    """Return why nothing may be cut by this clock; empty where it goes as it should.

    Args:
        looked_at: when the last look began, by the same clock; None: there was none.
        now: ms since 1970.
        terms: how often it is looked.
    """
    moved = 0 if looked_at is None else now - looked_at
    if abs(moved) <= max(2 * terms.interval_seconds, SLACK_SECONDS) * 1000:
        return ""
    way = "forward" if moved > 0 else "back"
    return (
        f"the database's clock moved {way} by {abs(moved) // 1000} s since the last look, which is more than twice the "
        "interval: either nobody looked for so long, or it jumped; the next look, half an interval later or more, goes "
        "by it as it is then: if it is wrong, run sexton stop now"
    )


def soon(looked_at: int | None, now: int, terms: BinlogSettings) -> bool:
    """Tell whether a look comes so soon after another that it is the same one, tried again."""
    return looked_at is not None and 0 <= now - looked_at < terms.interval_seconds * 500


def checked(record: Record) -> Mapping[str, Mapping[str, int]]:
    """Return the versions that a record made: table → partition → version.

    Raises:
        BadInput: a number or a name cannot be, or an UPSERT's data is not what it should be. Of such a record nobody
            would ever know what of it may go from the backends.
    """
    if not 0 < record.commit_seq < MOST:
        raise BadInput(f"a record's commit_seq is 1 to {MOST - 1}, not {record.commit_seq}")
    if not 0 <= record.timestamp <= _LAST:
        raise BadInput(f"record {record.commit_seq}: {record.timestamp} is no timestamp in ms since 1970")
    if record.type != UPSERT:
        return {}
    try:
        return _versions(json.loads(record.data))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as e:
        why = str(e) if isinstance(e, BadInput) else "its data is not {tableRecords: {TABLE: {partitionRecords: …}}}"
        raise BadInput(f"record {record.commit_seq}, an UPSERT: {why}") from e


def _versions(data: Any) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for table, its in data["tableRecords"].items():
        per: dict[str, int] = {}
        for part in its["partitionRecords"]:
            id_, version = part["partitionId"], part["version"]
            if isinstance(id_, bool) or not isinstance(id_, int | str):
                raise ValueError(id_)
            if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version < MOST:
                raise ValueError(version)
            per[_id(str(id_))] = max(version, per.get(str(id_), 0))
        found[_id(str(table))] = per
    return found


def _id(given: str) -> str:
    if not 0 < len(given) <= ID_CHARACTERS or not given.isprintable():
        raise ValueError(given[:ID_CHARACTERS])
    return given
