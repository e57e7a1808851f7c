"""The tables that lists are printed as."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sexton.insight.wording import quantity, utc_column
from sexton.interfaces.cli.render.lazy import lazy


def _hold_row(hold: Any, page: Any) -> tuple[object, ...]:
    state = "released" if hold.released_at is not None else "expired" if hold.expires_at <= page.now_at else "active"
    times = (utc_column(hold.placed_at), utc_column(hold.ends_at))
    return hold.id, hold.instance, hold.what, state, *times, hold.placed_by, hold.reason


def _instance_row(i: Any, _page: Any) -> tuple[object, ...]:
    times = (utc_column(i.created_at), utc_column(i.enabled_at))
    return i.id, i.mode, i.owner, i.live_view, ", ".join(i.roles), *times


def _vault_row(v: Any, _page: Any) -> tuple[object, ...]:
    conditional, cap = "yes" if v.conditional else "no", v.keys_per_second or ""
    return v.instance, v.vault, v.kind, v.place, v.endpoint, v.versions, conditional, cap, v.proof


def _quarantined_row(q: Any, _page: Any) -> tuple[object, ...]:
    from sexton.insight.wording import human_bytes

    mark = f"{q.kind}/{q.id}"
    return q.instance, mark, q.reason, q.failures, utc_column(q.marked_at), human_bytes(q.bytes), q.last_error


def _protection_row(p: Any, _page: Any) -> tuple[object, ...]:
    until = f"the next round ({p.ends})" if p.ends is not None else utc_column(p.expires_at)
    if p.ends is None and p.finished_at is not None:
        until = f"watermark > {p.valid_ts}"
    return p.instance, p.job, p.owner, p.state, protected_objects(p), utc_column(p.registered_at), until, p.description


def protected_objects(p: Any) -> str:
    """Return how many objects a protection has."""
    if p.sealed is None:
        return "being registered"
    return quantity(p.sealed.objects, "object") if p.sealed.verified else "a filter"


def _call_row(c: Any, _page: Any) -> tuple[object, ...]:
    return utc_column(c.at), c.who, c.source, c.action, c.instance, c.subject, c.outcome, c.reason


def _follower_row(f: Any, _page: Any) -> tuple[object, ...]:
    state = "ok"
    if f.lost_at is not None:
        state = f"LOST since {utc_column(f.lost_at)}: no entries are kept for it"
    return f.name, f.applied, f"{f.behind:,}", utc_column(f.seen_at), state


def _schedule_row(s: Any, _page: Any) -> tuple[object, ...]:
    times = (utc_column(s.last), utc_column(None if s.paused else s.next))
    return s.id, f"{s.every_seconds:.0f} s", "paused" if s.paused else "active", *times, s.note


def _first(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return a row's function that needs only the item."""
    return lambda item, _page: function(item)


MARKS = ("mark", "state", "marked (UTC)", "due (UTC)", "parent", "files", "bytes")
TABLES: Mapping[str, tuple[str, Sequence[str], Callable[[Any, Any], Any]]] = {
    "log": (
        "no action is recorded yet",
        ("when (UTC)", "who", "from", "did", "instance", "what", "outcome", "why"),
        _call_row,
    ),
    "instance list": (
        "no instance is registered; begin with: sexton instance add NAME",
        ("instance", "mode", "owner", "live view", "roles", "registered (UTC)", "enabled (UTC)"),
        _instance_row,
    ),
    "owner list": (
        "no owner is installed",
        ("owner", "package", "about", "options"),
        lambda o, _page: (o.owner, o.package, f"ERROR: {o.error}" if o.error else o.about, ", ".join(o.options)),
    ),
    "vault list": (
        "no vault is registered; add one: sexton vault add",
        ("instance", "vault", "kind", "place", "endpoint", "versions", "conditional", "cap, keys/s", "proof"),
        _vault_row,
    ),
    "round list": (
        "no round yet",
        ("round", "instance", "state", "began (UTC)", "took", "deleted", "freed", "note"),
        _first(lazy("rounds", "round_row")),
    ),
    "marks list": (
        "{instance} has no such mark; without filters: sexton marks list {instance}",
        MARKS,
        _first(lazy("marks", "mark_row")),
    ),
    "plan marks": ("plan {plan} has no such mark that is due now", MARKS, _first(lazy("marks", "mark_row"))),
    "quarantine list": (
        "nothing is quarantined",
        ("instance", "mark", "reason", "failures", "marked (UTC)", "bytes", "last error"),
        _quarantined_row,
    ),
    "check list": (
        "no check yet; begin with: sexton check run INSTANCE",
        ("check", "instance", "state", "began (UTC)", "took", "objects", "live files", "missing"),
        _first(lazy("checks", "run_row")),
    ),
    "check findings": (
        "nothing is open",
        ("finding", "type", "confirmed", "object or record", "size", "since (UTC)", "by"),
        _first(lazy("checks", "finding_row")),
    ),
    "hold list": (
        "no hold is active; those that ended: sexton hold list --all",
        ("hold", "instance", "covers", "state", "placed (UTC)", "ends (UTC)", "by", "why"),
        _hold_row,
    ),
    "protection list": (
        "nothing is protected",
        ("instance", "job", "owner", "state", "objects", "registered (UTC)", "until (UTC)", "description"),
        _protection_row,
    ),
    "schedules list": (
        "rounds run only when you start them; to schedule them: sexton schedules apply",
        ("schedule", "every", "state", "last (UTC)", "next (UTC)", "note"),
        _schedule_row,
    ),
    "worker builds": (
        "no worker with temporal.worker_versioning ever ran; see: docs/upgrade.md",
        ("build", "state", ""),
        lambda build, page: (build.build, build.state, "this installation" if build.build == page.own else ""),
    ),
    "wal list": (
        "no topic is known: owners send maps of them over the API; or begin with: sexton wal enable TOPIC",
        ("topic", "instance", "purge", "last_purged_entry_id", "entries kept", "about", "checked (UTC)", "state"),
        _first(lazy("topics", "topic_row")),
    ),
    "wal purges": (
        "not purged yet",
        ("persisted (UTC)", "last_purged_entry_id", "last entry then", "entries freed", "who needed the oldest"),
        _first(lazy("topics", "purge_row")),
    ),
    "binlog list": (
        "no log of {of} is known: begin with: sexton binlog set DB --ttl 7d",
        ("binlog", "kept for", "records", "bytes", "first available", "last", "blocked by", "state"),
        _first(lazy("binlogs", "log_row")),
    ),
    "binlog consumers": (
        "{of} has no consumers of binlogs",
        ("consumer", "binlog", "acknowledged", "last contact (UTC)", "since (UTC)", "state"),
        _first(lazy("binlogs", "consumer_row")),
    ),
    "binlog followers": (
        "the journal of {of} has no followers",
        ("follower", "applied", "entries behind", "last progress (UTC)", "state"),
        _follower_row,
    ),
    "replica list": (
        "every replica of {of} is healthy",
        ("tablet", "backend", "continuous", "needs", "wrong", "last failed", "FULL_COPY_ONLY", "fresh until (UTC)"),
        lambda replica, page: lazy("replicas", "replica_row")(replica, page.now_at),
    ),
    "replica backends": (
        "{of} has no backend",
        ("backend", "reported (UTC)", "pulled (UTC)", "replicas", "to delete", "wrong", "problems"),
        _first(lazy("replicas", "backend_row")),
    ),
}
"""Operation → what is printed of an empty list, the columns, and the row of an item of a page."""
