"""The figures of one scrape, as values. Instants are ms since 1970.

A figure that is exported as it stands has the name of its metric as its title, and its help text as its description.
"""

import re
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from sexton.insight.views import Running
from sexton.kernel.message import Message
from sexton.marks.kept import KeepReason
from sexton.marks.model import Reason
from sexton.operators.controls.model import Halt
from sexton.recycle.model import RoundReport
from sexton.recycle.pacing.model import PlaceFigures

OTHER = "other"
HOLDERS = tuple(str(k) for k in KeepReason)
"""Why marks are kept: the values of ``holder``. Reports name each hold and error; labels only their classes."""
REASONS = (*(str(r) for r in Reason), OTHER)
"""Why marks are quarantined."""
STATES = ("bad", "gap", "missing", "crossing", "stale", "full_copy_by_limit", "full_copy_by_person")
"""The problems of a replica."""
OUTCOMES = ("quarantined", "failed", "unknown", OTHER)
"""A backend's answer about a replica whose binlogs it could not delete."""


def vault_status(text: str) -> str:
    """Return a vault's status as the value of a label, ``other`` where it is no plain word."""
    return text if re.fullmatch("[A-Za-z_]{1,32}", text) else OTHER


class By(NamedTuple):
    """Annotates a metric that has a number for each value of a label."""

    label: str


COUNTER = "counter"
"""Annotates a metric that only grows, over restarts too."""


def metric(name: str, text: str, default: int | dict[str, int] | None = 0, alias: str | None = None) -> Any:
    """Return a field that is exported as ``sexton_<name>``.

    One that is None by default is an instant: the seconds since it are exported, and 0 for None.
    """
    return Field(default, alias=alias, title=name, description=text)


class InstanceFigures(Message):
    """One instance. ``quiet_since``: its last success, or when it was enabled if later; None while it observes."""

    instance: str
    enabled: bool = metric("instance_enabled", "1 where rounds delete, 0 where they only observe.")
    failures: int = metric("rounds_failed_in_a_row", "Rounds that FAILED or were PARTIAL since the last success.")
    last_success_at: int | None = None
    quiet_since: int | None = None
    next_round: int | None = None
    halt: Halt | None = None
    kinds: tuple[str, ...] = ()
    """Its kinds that have a retention."""
    oldest_due: dict[str, int] = Field(default_factory=dict)
    """Kind → the instant from which its oldest due mark ages."""
    quarantined: dict[str, int] = Field(default_factory=dict)
    claimed: int = 0
    awaiting_second_pass: int = 0
    """Claimed marks whose files are deleted, and whose prefix waits for its second pass."""
    holds: int = metric("holds", "Active holds of operators.")
    oldest_hold: int | None = metric("oldest_hold_age_seconds", "Age of the oldest active hold; 0: none.", None)
    protections: int = metric("protections", "Unfinished protections of sync jobs.")
    soft_protections: int = metric(
        "soft_protections", "Finished protections of sync jobs that wait for the owner's watermark."
    )
    oldest_protection: int | None = metric(
        "oldest_protection_age_seconds", "Age of the oldest protection, finished or not; 0: none.", None
    )
    approvals: int = metric("approvals_waiting", "Plans that wait for an operator's approval.")
    oldest_approval: int | None = metric(
        "oldest_approval_age_seconds",
        "Seconds that an approval has been pending, over all unanswered plans in a row; 0: none is.",
        None,
    )
    unasked_objects: int = metric(
        "unapproved_objects",
        "Objects under a limit that were claimed without an operator's approval in the last 24 hours.",
    )
    findings: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Type → findings open at the end of the last check, and the confirmed ones among them."""
    live_prefixes: int = metric(
        "live_prefixes",
        "Live rows of the last check that name a prefix: the loss of an object inside one cannot be detected.",
    )
    too_late_vaults: int = metric(
        "vaults_checked_too_rarely",
        "Vaults whose store expires deleted versions too early for a check to detect a loss in time to undo it.",
    )
    whole_check: int | None = None
    """When the last complete check began; before the first: when an instance with a live view was enabled."""
    vaults: tuple[str, ...] = ()
    last: RoundReport | None = None
    running: Running | None = None
    """The round that has not ended."""
    check_since: int | None = metric(
        "check_elapsed_seconds", "Seconds since the check began that runs now; 0: none runs.", None
    )


class WalFigures(Message):
    """All topics together. Instants are ms since 1970; ages begin there."""

    topics: int = metric("wal_topics", "Topics that are enabled (sexton wal enable).")
    """The other figures count only these."""
    blocked: Annotated[dict[str, int], By("why")] = metric(
        "wal_blocked_topics", "Topics that cannot be purged now, by reason.", {}
    )
    """Reason → topics, as in ``wal.model.BlockReason`` without NOT_ENABLED."""
    blocked_since: int | None = metric(
        "wal_oldest_block_age_seconds",
        "Longest time that a topic has been blocked, operators' stops not counted; 0: none is.",
        None,
        alias="blocked_since_at",
    )
    quarantined: int = metric("wal_quarantined_topics", "Topics that are set aside: recreated, or cut at their end.")
    faulty: int = metric(
        "wal_faulty_topics", "Topics whose log refused a request, or did not answer, at their last purge."
    )
    lost_regions: int = metric("wal_lost_regions", "Regions that need entries that are deleted: LOSS.")
    lagging_regions: int = metric("wal_lagging_regions", "Regions so far behind that a purge asks them to flush.")
    ok_since: int | None = metric(
        "wal_seconds_since_purge",
        "Longest time since any topic was last purged without an error.",
        None,
        alias="ok_since_at",
    )
    entries: int = metric("wal_kept_entries", "Entries in the topics, at their last purge.")
    bytes: int = metric("wal_kept_bytes", "The same in bytes, estimated from some entries.")
    freed: Annotated[int, COUNTER] = metric("wal_freed_entries", "Entries deleted; survives restarts.")
    replays: int = metric("wal_replays", "Regions that replay their topic, and retain the entries they read.")
    oldest_replay: int | None = metric("wal_oldest_replay_age_seconds", "Age of the oldest replay; 0: none.", None)


class BinlogFigures(Message):
    """Binlogs, the journal and the replicas of one instance that has any of them. Instants are ms since 1970."""

    instance: str
    quiet_since: int | None = None
    """The last successful GC, or when the instance was enabled if later; None: it only observes, or has no log."""
    logs: int = metric("binlog_logs", "Logs: databases' own ones, and those of tables in databases without.")
    records: int = metric("binlog_kept_records", "Records in these logs.")
    bytes: int = metric("binlog_kept_bytes", "Bytes of these records, as the owner sent them.")
    held: int = metric("binlog_held_logs", "Logs with expired records that consumers hold.")
    held_since: int | None = metric("binlog_oldest_held_age_seconds", "Age of the oldest such hold; 0: none.", None)
    waiting: int = metric(
        "binlog_cuts_waiting", "Cuts that wait for an operator's approval, as they exceed max_cut_fraction."
    )
    waiting_since: int | None = metric(
        "binlog_oldest_cut_waiting_age_seconds", "Age of the oldest such cut; 0: none.", None
    )
    refusals: Annotated[int, COUNTER] = metric(
        "binlog_clock_refusals",
        "Binlog GCs that cut nothing because the database's clock had moved too far; survives restarts.",
    )
    cuts: Annotated[int, COUNTER] = metric("binlog_cuts", "Cuts of logs; survives restarts.")
    consumers: int = metric("binlog_consumers", "Registered consumers.")
    lost_consumers: int = metric(
        "binlog_lost_consumers", "Consumers that are LOST: silent for too long, they hold nothing."
    )
    entries: int = metric("journal_kept_entries", "Entries of the journal that can be read.")
    followers: int = metric("journal_followers", "Followers of the journal, LOST ones included.")
    lag: int = metric(
        "journal_slowest_follower_lag_entries",
        "Entries that the slowest follower has not applied yet; LOST followers are not counted.",
    )
    lost_followers: int = metric(
        "journal_lost_followers",
        "Followers that are LOST: no entry is retained for them, and they restart from a snapshot.",
    )
    backends: int = metric("backends", "Backends that have sent a report or pulled cuts.")
    behind_backends: int = metric("backends_behind", "Backends with copies whose binlogs should be deleted.")
    unheard_backends: int = metric("backends_never_pulled", "Such backends that have never pulled cuts.")
    pulled_since: int | None = metric(
        "backend_seconds_since_pull",
        "Longest time since such a backend pulled cuts, without those that never did; 0: no backend is behind.",
        None,
    )
    behind: int = metric(
        "replica_cuts_pending",
        "Copies with binlogs that should be deleted (desired) and are not reported as deleted (acknowledged).",
    )
    blocked: int = metric(
        "replica_cuts_blocked",
        "Such copies of which not everything may be deleted now, as another copy of the tablet may need it.",
    )
    """A lower bound where there are many."""
    unwell: Annotated[dict[str, int], By("state")] = metric(
        "replicas_unhealthy",
        "Unhealthy copies of tablets by state; one copy may be in several states.",
        dict.fromkeys(STATES, 0),
    )
    bad_since: int | None = metric(
        "replica_oldest_bad_age_seconds", "Longest time that a copy has been bad; 0: none is.", None
    )
    missing_since: int | None = metric(
        "replica_oldest_missing_age_seconds",
        "Longest time that a copy marked as missing versions has lacked them; 0: none does.",
        None,
    )
    problems: Annotated[dict[str, int], By("outcome")] = metric(
        "replica_problems",
        "Copies whose binlogs a backend could not delete, by the outcome it reported last.",
        dict.fromkeys(OUTCOMES, 0),
    )


class Figures(Message):
    """All figures of one scrape. ``unreadable`` counts failed reads of stored reports and of the tables' sizes."""

    now: int
    interval_seconds: int = metric("round_interval_seconds", "Seconds between two rounds of an instance.")
    retention_seconds: Annotated[dict[str, int], By("kind")] = metric(
        "retention_seconds", "Seconds from the mark (prepared: its transaction's expiry) until it is due.", {}
    )
    """The longest, where two owners have a kind of the same name."""
    max_delete_objects: int = metric(
        "max_delete_objects",
        "Objects of an instance that may be deleted within 24 hours without approval (max_delete_objects).",
    )
    running: int = 0
    unreadable: int = 0
    instances: tuple[InstanceFigures, ...] = ()
    paces: tuple[PlaceFigures, ...] = ()
    wal: WalFigures = WalFigures()
    wal_interval_seconds: int = metric("wal_purge_interval_seconds", "Seconds between two purges of a topic.")
    binlogs: tuple[BinlogFigures, ...] = ()
    binlog_interval_seconds: int = metric(
        "binlog_gc_interval_seconds", "Seconds between two binlog GCs of an instance."
    )
    expiring_tokens: int = metric(
        "expiring_tokens", "Tokens of the API that were used within the last 14 days and end within the next 14."
    )
    spark_workers: int = metric("spark_workers", "Spark workers that run.")
    spark_slots: int = metric("spark_slots", "Activities that all Spark workers take at once.")
    spark_busy: int = metric("spark_busy_slots", "Activities that all Spark workers run now.")
    table_bytes: Annotated[dict[str, int], By("table")] = metric(
        "table_bytes", "Bytes on disk of a table of Sexton, with its indexes and TOAST.", {}
    )
    """Empty: unknown."""
    counters: dict[tuple[str, str, str], int] = Field(default_factory=dict)
    """(instance, name, label) → value, as ``recycle.rounds.sql.reports`` names them."""

    def totals(self, counter: str) -> dict[tuple[str, str], int]:
        """Return a counter by (instance, kind), with 0 where it has no value yet: Prometheus needs the first sample."""
        zeros = {(i.instance, kind): 0 for i in self.instances for kind in i.kinds}
        counted = {(i, kind): n for (i, name, kind), n in self.counters.items() if name == counter and kind != "*"}
        return dict(sorted((zeros | counted).items()))
