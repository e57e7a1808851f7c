"""What a worker does with each field of an order that everyone who reaches Temporal can send.

A line begins with ``rows`` (the worker compares the field with rows, or takes the value from rows) or with ``harmless``
(any value deletes nothing that the rows do not allow, and the reason). A test forges every field of the first sort.
"""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Any, Union

from temporalio import activity, workflow

import activities
from sexton.check.model import CheckOrder, Run
from sexton.kernel.message import Message
from sexton.marks.model import Lease
from sexton.recycle.rounds.model import OpenedRound
from workflows import registry

NESTED = (CheckOrder, Run, Lease, OpenedRound)
"""Messages inside orders whose fields have lines of their own."""
REPORT = "harmless: it is in the report, for people; the database counts what was deleted"
SHOWN = "harmless: it is shown to people"
SKIPS = "harmless: it only leaves out objects"
DUE = "harmless: every mark up to the cutoff is due, in whatever order and number; a claim counts against its limits"

LEASE = {
    "instance": "rows: the round's instance",
    "job": "rows: the lease of that job is held, or nothing can be written",
    "owner": "rows: the round's run",
    "epoch": "rows: the epoch of the lease, or nothing can be written",
}


def _below(prefix: str, lines: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}.{name}": line for name, line in lines.items()}


OPENED = {
    "round": "rows: the row of the round has the instance and the run of the lease",
    **_below("lease", LEASE),
    "may_delete": REPORT,
    "policy": "harmless: no activity reads it; policies come from settings and plans from rows",
    "vaults": REPORT,
    "cutoffs": "harmless: only the workflow reads them, and sends them in an order that is compared with rows",
    "excluded_vaults": REPORT,
    "fault_details": REPORT,
    "ranges_at_once": "harmless: how many ranges run beside each other",
    "heavy_objects": "harmless: it chooses the workers, which check the order alike",
} | {
    "lease.job": "harmless: a lease of no job is released",
    "lease.epoch": "harmless: a lease of another epoch is not released",
}
RUN = {
    "id": "rows: the row of the check has this number, instance and run",
    "instance": "rows: the same",
    "run": "rows: the same",
    **dict.fromkeys(
        ("state", "cutoff", "ended_at", "asked_by", "evidence", "missing_inputs"), "rows: the row's value is used"
    ),
    **dict.fromkeys(("listed", "records", "expected_objects", "expected_records", "counting_ms"), SHOWN),
}
CHECK = {
    "instance": "rows: the instance of the row is used",
    **_below("run", RUN),
    "grace_seconds": "rows: at least the settings' grace applies",
    "inverted": "rows: the settings decide",
    "most_objects": "harmless: a comparison that lists more ends without a result",
}
HANDED_OVER = {
    "attempts": "harmless: a later attempt writes, and earlier ones are refused",
    "most_objects": "harmless: an attempt that lists more ends, and another one deletes them",
}
RECORDED = "harmless: the run is recorded, and takes everything else from rows"
TOPIC = "rows: floors are computed from rows; only enabled topics without quarantine and stop are purged"

ORDERS: Mapping[str, Mapping[str, str]] = {
    "open_round": {
        "instance": "rows: the row of the run, if there is one, is of this instance; stops and the mode are read",
        "plan": "rows: an operator has approved it, it is of the instance, open, and still matches what is due",
        "run": "rows: its row is of the instance; otherwise a round of this name begins, and is recorded",
        "why": SHOWN,
        "state": "harmless: it is not read",
    },
    "abandon_round": {
        "instance": "harmless: it is not read",
        "plan": "harmless: it is not read",
        "run": "harmless: only a round that never had a lease is ended",
        "why": SHOWN,
        "state": "harmless: it decides only when the next round is due",
    },
    "release_lease": {
        **_below("opened", OPENED),
        "why": SHOWN,
        "wait": "harmless: only those that are known are shown",
    },
    "make_plan": {
        "instance": "harmless: a plan is stored; it is due by agreed retentions, or awaits an approval",
        "plan": "harmless: it is not read",
        "requested_by": SHOWN,
        "carried": "harmless: it is not read",
    },
    "find_plan": {"plan": "harmless: a plan is read"},
    "adopt_claimed": {
        "round": "rows: the round is running, and has the instance and the run of the lease",
        **_below("lease", LEASE),
        "upload_grace_seconds": "rows: at least the grace of the settings applies",
        "cutoffs": "rows: at most those of agreed retentions apply, of kinds that have one",
        "excluded_vaults": "rows: those whose marker does not name the round are excluded too",
        **HANDED_OVER,
    },
    "recycle_range": {
        "round": "rows: the round is running, and has the instance and the run of the lease",
        "number": DUE,
        **_below("lease", LEASE),
        "plan": "rows: it is of the instance, and of the round or without need of an approval",
        "kind": "rows: the plan has it",
        "shard": DUE,
        "cutoff": "rows: at most the plan's; without approval, at most that of the agreed retention",
        "limit": "rows: at most the plan's number of marks",
        "after": DUE,
        "until": DUE,
        "upload_grace_seconds": "rows: at least the grace of the settings applies",
        "allowance": "rows: the plan's, unless an operator approved the plan",
        "excluded_vaults": "rows: those whose marker does not name the round are excluded too",
        **HANDED_OVER,
    },
    "close_round": {
        **_below("opened", OPENED),
        "plan": "rows: the round's, or else one of the instance without approval, whose retentions nobody agrees to",
        "outcome": REPORT,
        "error": REPORT,
        **dict.fromkeys(("scanned", "due", "kept", "protected_bytes", "quarantined", "kinds"), REPORT),
        **dict.fromkeys(("faults", "fault_details", "leases", "lost_leases", "adoption_ms", "adoption_note"), REPORT),
    },
    "due_instances": {},
    "nudge": {},
    "read_progress": {"work": "harmless: rows are read"},
    "begin_check": {"instance": RECORDED, "requested_by": SHOWN},
    "compare": CHECK,
    "look_again": {
        **_below("order", CHECK),
        "evidence": "rows: the evidence that the comparison stored is used, with errors and notes of the order",
    },
    "conclude_check": {
        "instance": "rows: the instance of the row is used",
        **_below("run", RUN),
        "evidence": "rows: the stored evidence is used; errors and notes of the order are added, so it proves less",
    },
    "find_spark": {},
    "review_topics": {"after": "harmless: topics are judged; only rows of old floors and expired pins are deleted"},
    "prepare_purge": {"topic": "harmless: nothing is purged; the topic is next due after its interval"},
    "flush_regions": {"topic": "harmless: nodes that are known are asked to flush; nothing is purged"},
    "purge_topic": {"topic": TOPIC},
    "purge_topics": {"names": TOPIC},
    "cut_binlogs": {"instance": "rows: mode, stops, TTLs and consumers are read from rows"},
    "waiting_backends": {"instance": "harmless: backends are listed", "after": "harmless: backends are listed"},
    "sweep_cuts": {
        "instance": "harmless: a backend of another instance refuses; cuts are pulled from the API with its own token",
        "after": SKIPS,
        "until": SKIPS,
    },
}
"""By name of an activity: field of its order → what the worker does with it."""

CONTROLS = {
    "cancel": "signal: the workflow ends after its page",
    "pause": "signal: the workflow stops after its page",
    "resume": "signal: the workflow opens its round again, if the rows allow it",
    "retry": "signal: failed work is ordered again, and compared with rows again",
}
ROUND_QUERY = {"progress": "query: nothing changes"}
HANDLERS: Mapping[str, Mapping[str, str]] = {
    "recycle-instance": CONTROLS | ROUND_QUERY,
    "recycle-tick": {},
    "check-instance": CONTROLS | ROUND_QUERY,
    "purge-wal": CONTROLS
    | ROUND_QUERY
    | {"purge_now": "signal: regions are not waited for; the floor still comes from their rows"},
    "purge-wal-round": CONTROLS | ROUND_QUERY,
    "gc-binlog": CONTROLS | ROUND_QUERY,
}
"""By type of a workflow: signal, query or update → what it can cause."""


def registered_activities() -> dict[str, Callable[..., Any]]:
    """Return every activity that a class of the package ``activities`` has, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for cls in (getattr(activities, name) for name in activities.__all__):
        for method in vars(cls).values():
            definition = activity._Definition.from_callable(method) if callable(method) else None
            if definition is not None:
                found[str(definition.name)] = method
    return found


def fields_of_order(method: Callable[..., Any]) -> set[str]:
    """Return the fields of an activity's order, those of nested messages with the names of both; or its arguments."""
    hints = typing.get_type_hints(method)
    names: set[str] = set()
    for name in list(inspect.signature(method).parameters)[1:]:
        order = hints[name]
        names |= set(_fields(order)) if _is_message(order) else {name}
    return names


def handlers_of(cls: type) -> dict[str, str]:
    """Return the signals, queries and updates of a workflow, each with its sort."""
    definition = workflow._Definition.must_from_class(cls)
    sorts = {"signal": definition.signals, "query": definition.queries, "update": definition.updates}
    return {str(name): sort for sort, handlers in sorts.items() for name in handlers}


def workflow_types() -> dict[str, type]:
    """Return every workflow that a control worker serves, by type."""
    return {str(workflow._Definition.must_from_class(cls).name): cls for cls in registry.ALL}


def lines_of(sort: str) -> set[str]:
    """Return ``activity.field`` of each line that begins with ``sort``."""
    return {
        f"{name}.{field}" for name, lines in ORDERS.items() for field, line in lines.items() if line.startswith(sort)
    }


def _fields(order: type[Message]) -> Iterator[str]:
    hints = typing.get_type_hints(order)
    for name in order.model_fields:
        nested = next((hint for hint in _alternatives(hints[name]) if hint in NESTED), None)
        if nested is None:
            yield name
        else:
            yield from (f"{name}.{inner}" for inner in _fields(nested))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, UnionType) else (hint,)


def _is_message(hint: Any) -> bool:
    return inspect.isclass(hint) and issubclass(hint, Message)
