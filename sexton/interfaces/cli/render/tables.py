"""Which fields people see of a result, in which order, and under which names.

A form is a text of words. Each is the name of a field, or ``shown=path`` where the name that is shown or the place
differ. The end of the shown name tells the unit, see ``results.cell``: ``_at``, ``bytes``, ``_seconds``, ``_ms``.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from sexton.insight.wording import (
    check_text,
    duration,
    excluded_vaults,
    first_line,
    freed,
    human_bytes,
    marked,
    quantity,
    retention,
    utc_column,
)

MAX_TABLES = 3
"""Tables of a tombstone that are named."""
COUNTS = {
    *("records", "entries", "entries_freed", "entries_behind", "freed", "expired", "a_cut_deletes", "a_purge_frees"),
    *("waits_for_approval", "marks", "objects", "keys", "prefixes", "due", "claimed", "removed", "deleted", "absent"),
    *("hidden", "failed", "files", "tablets", "replicas", "to_delete", "bad", "missing", "silent", "full_copy_only"),
    *("problems", "live_files", "listed", "regions_to_flush_first", "logs_cut"),
}
"""Shown names of counts, whose thousands are separated; other numbers are names, versions and places."""
SENTENCES_OF = ("said", "reasons", "problems", "not_flushed_in_time", "not_asked")
"""Shown names of lists whose items are sentences: each is a line, and all are shown."""
EMPTY: Mapping[str, str] = {
    "log": "no action is recorded yet",
    "instance list": "no instance is registered; begin with: sexton instance add NAME",
    "owner list": "no owner is installed",
    "vault list": "no vault is registered; add one: sexton vault add",
    "round list": "no round yet",
    "marks list": "{instance} has no such mark; without filters: sexton marks list {instance}",
    "plan list": "no plan was made yet; make one: sexton plan new INSTANCE",
    "plan marks": "plan {plan} has no such mark that is due now",
    "quarantine list": "nothing is quarantined",
    "check list": "no check yet; begin with: sexton check run INSTANCE",
    "check findings": "nothing is open",
    "hold list": "no hold is active; those that ended: sexton hold list --all",
    "protection list": "nothing is protected",
    "schedules list": "rounds run only when you start them; to schedule them: sexton schedules apply",
    "worker builds": "no worker with temporal.worker_versioning ever ran; see: docs/upgrade.md",
    "wal list": "no topic is known: owners send maps of them over the API; or begin with: sexton wal enable TOPIC",
    "wal purges": "not purged yet",
    "binlog list": "no log of {of} is known: begin with: sexton binlog set DB --ttl 7d",
    "binlog consumers": "{of} has no consumers of binlogs",
    "binlog followers": "the journal of {of} has no followers",
    "replica list": "every replica of {of} is healthy",
    "replica explain": "{of} has no such tablet",
    "replica backends": "{of} has no backend",
}
"""Operation → what is printed of an empty list."""
FORMS: Mapping[str, str] = {
    "log": "when_at=at who from=source did=action instance what=subject outcome why=reason",
    "blockers": "instance blocked_by=held_by what since_at=since until_at=until why_/_way_out",
    "instance list": "instance=id mode owner live_view roles registered_at=created_at enabled_at",
    "owner list": "owner package about options",
    "round list": "round=id instance state began_at=started_at ended_at deleted freed note",
    "plan list": (
        "plan=id instance state made_at=created_at by=planned_by has=kinds held_marks expires_at "
        "answered_at=approved_at answered_by=approved_by"
    ),
    "quarantine list": "instance mark reason failures marked_at bytes last_error",
    "check list": (
        "check=id instance state began_at=cutoff ended_at live_files=evidence.live listed=evidence.listings "
        "progress missing=missing_inputs"
    ),
    "check findings": "finding=id type vault key size expected since_at=first_seen confirmed_at record detail",
    "hold list": "hold=id instance covers=what placed_at expires_at released_at by=placed_by why=reason",
    "protection list": (
        "instance job owner state registered_at expires_at finished_at ends_with_watermark_above=valid_ts "
        "ended_by_the_next_round=ends objects description"
    ),
    "schedules list": "schedule=id every_seconds paused last_at=last next_at=next note",
    "worker builds": "build state of",
    "wal list": "topic=name instance enabled mode last_purged_entry_id entries about_bytes checked_at state",
    "wal purges": "persisted_at=at last_purged_entry_id last_entry_id_then entries_freed=freed done_at kept_by=holders",
    "binlog list": (
        "binlog=name kept_for records=kept bytes first_available=first last=last_seq blocked_by=held "
        "held_since_at=held_since state"
    ),
    "binlog followers": "follower=name applied entries_behind=behind last_progress_at=seen_at lost_at",
    "replica list": (
        "tablet backend continuous=continuous_version needs wrong=faults problem last_failed=failed "
        "full_copy_only=full_copy full_copy_at fresh_until_at=fresh_until"
    ),
    "replica explain": (
        "db table=tbl partition=part backend uid continuous=continuous_version needs_from=need wrong=faults "
        "FULL_COPY_ONLY=full_copy FULL_COPY_ONLY_since_at=full_copy_at to_delete_up_to=desired may_delete=granted "
        "deleted_up_to=acked dropped problem"
    ),
    "ListedMark": "mark state marked_at due=due parent files bytes",
    "wal explain": (
        "topic=topic.name instance=topic.instance enabled=topic.enabled mode=topic.mode last_purged_entry_id "
        "the_log keep_from=verdict.keep_from kept_by=verdict.holders a_purge_frees=frees bytes "
        "regions_to_flush_first=behind fault=topic.fault QUARANTINED=verdict.quarantine regions=lines replays=pins"
    ),
    "RegionLag": (
        "region=region.region state last_entry_id by=region.source reported_at=region.reported_at "
        "node=region.leader entries_behind=entries about_bytes=bytes"
    ),
    "wal purge": (
        "topic outcome last_purged_entry_id entries_freed=purged.freed kept_by=purged.verdict.holders "
        "asked_to_flush=flushed.asked flushed=flushed.flushed not_flushed_in_time=flushed.late not_asked "
        "blocked=purged.verdict.blocked QUARANTINED=purged.verdict.quarantine error"
    ),
    "binlog explain": (
        "db table=tbl dropped_at nothing_can_be_deleted_now=halted the_next_run_cuts_nothing=clock "
        "last_run_at=look.checked_at it_cut_nothing=look.refused lines lost_after_seconds consumers backends "
        "retained_for=holders named"
    ),
    "LogCutPreview": (
        "binlog=log.name enabled=log.enabled rule records=log.kept first last=log.last_seq bytes cut_at=log.cut_at "
        "expired a_cut_deletes=goes up_to=cut.seq blocked_by=cut.held waits_for_approval=waits "
        "awaiting_since_at=log.awaiting_since"
    ),
    "Consumer": "consumer=name db table=tbl acknowledged=acked last_contact_at=seen_at since_at=since state",
    "BackendStanding": (
        "backend reported_at pulled_at replicas=copies to_delete=behind bad missing silent "
        "full_copy_only=full_copy problems example=problem"
    ),
    "RetainingReplica": "backend replicas=copies why since_at=since",
    "JournalEntry": "entry=seq happened_at=at op what",
    "RetainingCopy": "replica=replica.name why",
    "binlog gc": (
        "instance cancelled logs_cut=cut.cut records=cut.records nothing_was_cut=cut.refused "
        "blocked_by_consumers=cut.held cuts_that_wait_for_approval=cut.waiting newly_LOST_consumers=cut.lost "
        "newly_FULL_COPY_ONLY=cut.full_copy backends_asked=backends away swept said"
    ),
    "settings preview": "shifts",
    "Shift": (
        "instance kind retention_before_seconds=before after_seconds=after marks more_are_due=more objects "
        "estimated bytes"
    ),
    "KindPlan": (
        "kind marks=unheld.marks keys=unheld.keys prefixes=unheld.prefixes objects bytes=unheld.bytes "
        "oldest_at=oldest after_at=since before_at=cutoff"
    ),
    "KindReport": "kind due claimed removed deleted freed elapsed_ms",
    "KindVaultCounts": "kind vault deleted absent hidden failed freed estimated_bytes=bytes_estimated",
    "KindCounts": "kind due claimed removed planned estimated listed gone=objects",
    "PlaceFigures": (
        "vault place keys/s=keys_per_second refused_at_keys/s=ceiling throttled workers last_refused_at=throttled_at"
    ),
}
"""Operation, or class of the rows in its result → the form. Of others every field is shown."""


def _blocker(b: Any, _page: Any) -> Mapping[str, object]:
    reason = ": ".join(text for text in (b.by and f"by {b.by}", first_line(b.why)) if text)
    return {"why_/_way_out": "; ".join(text for text in (reason, b.way_out) if text)}


def protected_objects(p: Any) -> str:
    """Return how many objects a protection has."""
    if p.sealed is None:
        return "being registered"
    return quantity(p.sealed.objects, "object") if p.sealed.verified else "a filter"


def _round(r: Any, _page: Any) -> Mapping[str, object]:
    if (report := r.report) is None:
        return {"deleted": "", "freed": "", "note": first_line(r.waiting or "")}
    note = report.error or ("observed only" if report.observed else excluded_vaults(report))
    size = freed(report.bytes_freed + report.bytes_estimated, report.size_unknown)
    return {"state": report.state, "deleted": report.deleted, "freed": size, "note": first_line(note)}


def last_purged(of: Any) -> Mapping[str, object]:
    """Return the last entry that may be deleted, one below the floor of a topic or a purge."""
    floor = getattr(of, "floor", None)
    return {"last_purged_entry_id": None if floor is None else floor - 1}


def _explained_topic(explained: Any, _page: Any) -> Mapping[str, object]:
    from sexton.wal.model import BlockReason

    topic = explained.topic
    if topic.log_end is None:
        entries = "was never read"
    elif topic.log_end == (topic.log_start or 0):
        entries = f"is empty; the next entry is {topic.log_end}"
    else:
        was_read = not any(block.why is BlockReason.FAULT for block in explained.verdict.blocked)
        first_and_last = f"entries {topic.log_start or 0} to {topic.log_end - 1}"
        entries = f"contains {first_and_last}" if was_read else f"contained {first_and_last} when it was last read"
    return {**last_purged(topic), "the_log": entries}


def _region(lag: Any, _page: Any) -> Mapping[str, object]:
    region = lag.region
    state = str(region.state) + ("" if lag.holds else ", blocks nothing")
    if region.pending_keep_from is not None:
        state += f"; reported {region.pending_keep_from - 1}, above the known end of the log"
    last = "unknown" if region.keep_from is None else region.keep_from - 1
    return {"state": state, "last_entry_id": last}


def _topic(topic: Any, _page: Any) -> Mapping[str, object]:
    parts = [f"LOSS in {quantity(topic.lost_regions, 'region')}"] if topic.lost_regions else []
    if topic.enabled:
        parts += [f"{reason} since {utc_column(since)}" for reason, since in topic.blocked.items()]
    parts += [topic.fault] if topic.fault else []
    if topic.lagging_regions:
        parts.append(f"blocked by {quantity(topic.lagging_regions, 'region')} far behind")
    state = "; ".join(parts) or ("ok" if topic.checked_at else "not checked yet")
    entries = "" if topic.log_end is None else topic.log_end - (topic.log_start or 0)
    state = f"QUARANTINED: {topic.quarantined}" if topic.quarantined else state
    size = int(((topic.log_end or 0) - (topic.log_start or 0)) * topic.entry_bytes)
    return {**last_purged(topic), "entries": entries, "about_bytes": size or None, "state": state}


def _log(log: Any, _page: Any) -> Mapping[str, object]:
    state = "ok" if log.enabled else "off"
    if log.dropped_at is not None:
        nothing = dict.fromkeys(("kept_for", "records", "bytes", "first_available", "last", "blocked_by"), "")
        return {**nothing, "held_since_at": None, "state": f"DROPPED since {utc_column(log.dropped_at)}"}
    if log.in_database_log:
        state = "in its database's log"
    elif log.awaiting_seq is not None:
        since = utc_column(log.awaiting_since)
        state += f"; WAITS for approval since {since}: {approve_command(log, log.awaiting_seq)}"
    kept_for = "" if log.in_database_log else duration(log.ttl_seconds)
    held = ", ".join(f"{name} at {acknowledged}" for name, acknowledged in log.held.items())
    return {"kept_for": kept_for, "bytes": log.bytes - log.gone_bytes, "blocked_by": held, "state": state}


def approve_command(log: Any, upto: int) -> str:
    """Return the command that approves a cut that waits."""
    return f"sexton binlog approve {log.name.replace('/', ' ')} --upto {upto} --instance {log.instance}"


def _journal_entry(entry: Any, _page: Any) -> Mapping[str, object]:
    from sexton.replication.journal.model import Op, parse_outcomes, parse_tombstones

    if entry.op == Op.GC_BINLOG:
        deleted = list[str]()
        for tombstone in parse_tombstones(entry.body):
            tables = tombstone.tables or ()
            names = ", ".join(tables[:MAX_TABLES]) + (" …" if len(tables) > MAX_TABLES else "")
            log = f"{tombstone.db}/{names}" if names and not tombstone.database else tombstone.db
            deleted.append(f"{log} dropped" if tombstone.dropped else f"{log} deleted up to {tombstone.seq}")
        return {"op": "GC_BINLOG", "what": "; ".join(deleted)}
    if entry.op in (Op.BACKEND_REPLICAS_INFO, Op.BACKEND_TABLETS_INFO):
        backend, outcomes = parse_outcomes(entry.op, entry.body)
        counts = sorted(Counter(outcome.kind for outcome in outcomes).items())
        example = f", e.g. tablet {outcomes[0].tablet}" if outcomes else ""
        said = ", ".join(f"{count:,} {kind}" for kind, count in counts)
        return {"op": Op(entry.op).name, "what": f"backend {backend}: {said}{example}"}
    return {"op": entry.op, "what": quantity(len(entry.body), "field")}


COMPUTED: Mapping[str, Callable[[Any, Any], Mapping[str, object]]] = {
    "blockers": _blocker,
    "owner list": lambda o, _: {"about": f"ERROR: {o.error}" if o.error else o.about},
    "KindStatus": lambda kind, _: {"marked": marked([kind]), "waiting_is": ""},
    "ListedMark": lambda m, _: {
        "mark": f"{m.kind}/{m.mark}",
        "state": f"{m.state}, {m.quarantined}" if m.quarantined else m.state,
        "due": "no retention" if m.due_at is None else f"{utc_column(m.due_at)} UTC",
        "files": (m.vault or "")
        + (f"/{m.prefix}" if m.prefix is not None else f": {quantity(m.keys, 'key')}" if m.keys else ""),
    },
    "quarantine list": lambda q, _: {"mark": f"{q.kind}/{q.id}"},
    "round list": _round,
    "worker builds": lambda build, page: {"of": "this installation" if build.build == page.own else ""},
    "wal list": _topic,
    "wal purges": lambda purge, _: {
        **last_purged(purge),
        "last_entry_id_then": purge.log_end - 1,
        "kept_by": ", ".join(
            f"{name} from {first}" for name, first in sorted(purge.holders.items(), key=lambda holder: holder[1])
        )
        or "none",
    },
    "wal explain": _explained_topic,
    "wal purge": lambda report, _: {
        **last_purged(report.purged),
        "not_asked": [f"node {node}: {reason}" for node, reason in report.flushed.silent.items()],
    },
    "RegionLag": _region,
    "check list": lambda run, _: {"progress": "" if run.ended_at else check_text(run)},
    "check findings": lambda f, _: {
        # Two sizes that differ by a byte would be shown as one.
        name: size if size is None else f"{size:,} B" if f.type == "SIZE_MISMATCH" else human_bytes(size)
        for name, size in (("size", f.size), ("expected", f.expected))
    },
    "protection list": lambda p, _: {"objects": protected_objects(p)},
    "SettingRow": lambda s, _: {"value": s.value if s.amount == s.value else f"{s.value} ({s.amount})"},
    "schedules list": lambda s, _: {"next_at": None if s.paused else s.next},
    "Consumer": lambda consumer, _: {
        "state": "ok" if consumer.lost_at is None else f"LOST since {utc_column(consumer.lost_at)}: blocks nothing"
    },
    "binlog list": _log,
    "LogCutPreview": lambda line, _: {
        "rule": retention(line.log),
        "first": line.log.floor + 1,
        "bytes": line.log.bytes - line.log.gone_bytes,
        "blocked_by": [
            f"{name}, which has acknowledged all up to {acknowledged}" for name, acknowledged in line.cut.held.items()
        ],
    },
    "JournalEntry": _journal_entry,
    "KindPlan": lambda kind, _: {
        "objects": f"~{kind.unheld.objects:,}" if kind.estimated else kind.unheld.objects,
        "after_at": kind.since or None,
    },
    "KindReport": lambda k, _: {"freed": freed(k.bytes, k.size_unknown)},
    "KindVaultCounts": lambda t, _: {"freed": freed(t.bytes_freed + t.bytes_estimated, t.size_unknown)},
    "PlaceFigures": lambda f, _: {
        "throttled": f"{100 * f.throttled / f.requests:.1f} %" if f.requests else "",
        "refused_at_keys/s": f.ceiling or "",
    },
}
"""Operation or class → the values of an item that its fields do not have, by the names that are shown."""
