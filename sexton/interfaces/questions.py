"""What is asked, at a terminal and in the console, before something is done that cannot be undone."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sexton.insight.wording import human_bytes, quantity, utc
from sexton.kernel.errors import SextonError
from sexton.operations.registry import Call

Values = Mapping[str, Any]


class Question(NamedTuple):
    """``lines``: what would be done, and to what."""

    text: str
    lines: tuple[str, ...] = ()


def instance_of(call: Call, values: Values) -> str:
    """Return the instance that the values name, else the only one."""
    return call.stores.registry.resolve_instance(values["instance"])


def _remove_instance(call: Call, values: Values) -> Question:
    from sexton.operators.registry.add_remove import count_rows

    instance = instance_of(call, values)
    counts = count_rows(call.deployment.db, instance)
    rows = ", ".join(f"{count:,} of {table}" for table, count in counts.items()) or "none"
    return Question(f"Remove {instance}?", (f"rows that end: {rows}; and what its owner keeps in this database",))


def _discard(call: Call, values: Values) -> Question | None:
    """Ask with what a mark is, and what exists of its files, which stay when it is given up."""
    from sexton.operations.marks import parse_ref
    from sexton.recycle.pipeline.sql.quarantine import AWAITS_SECOND_PASS
    from sexton.storage.model import PAGE_KEYS

    discardable = call.stores.quarantine.find_discardable(instance_of(call, values), parse_ref(values["mark"]))
    if discardable is None:
        return None
    q, named = discardable
    # A foreign program may have stored anything: that may be why the mark is quarantined.
    keys = [key for key in named if isinstance(key, str)]
    is_deleted = q.reason == AWAITS_SECOND_PASS
    state = "waits for its second pass" if is_deleted else f"quarantined: {q.reason}"
    header = f"{q.kind}/{q.id} of {q.instance}, marked {utc(q.marked_at)}, {state}"
    files = "all that its owner knows of it"
    if q.prefix or keys:
        files = f"{f'prefix {q.prefix}' if q.prefix else quantity(q.keys, 'key')} in vault {q.vault or '(none)'}"
        try:
            vault = call.stores.vaults_of_any_round.get(q.instance, q.vault or "")
            objects = next(iter(vault.list(q.prefix)), ()) if q.prefix else vault.stat(keys[:PAGE_KEYS])
            more = " or more" if PAGE_KEYS in (len(objects), len(keys[:PAGE_KEYS])) else ""
            files = f"{quantity(len(objects), 'object')}{more} of {files}, {human_bytes(sum(o.bytes for o in objects))}"
        except SextonError as e:
            files += f", {human_bytes(q.bytes)} per its owner; it is unknown what exists: {e}"
    stays = "its files are deleted; only what came or was undeleted later stays" if is_deleted else "its files stay"
    return Question("Give it up?", (header, f"{stays}: {files}"))


def _trust(call: Call, values: Values) -> Question | None:
    instance, vault = instance_of(call, values), values["vault"]
    marker = call.stores.vaults_of_any_round.get(instance, vault).read_marker()
    if marker is None:
        return None
    last_round = call.stores.markers.last_round(instance)
    claim = f"claim {marker.claim} of " if marker.claim else ""
    found = f"{claim}round {marker.round} deleted in {vault}; the newest round in this database is {last_round}"
    return Question("Allow rounds of this database to delete in it?", (found,))


def _drop(call: Call, values: Values) -> Question:
    from sexton.replication.binlog.sql.rows import log_name
    from sexton.replication.errors import UnknownLog
    from sexton.replication.replicas.sql.rows import count_copies

    instance, db, table = instance_of(call, values), values["db"], values["table"]
    with call.deployment.db.read() as c:
        replicas = count_copies(call.deployment.db, c, instance, db, table or "", dropped=False)
    try:
        records = call.stores.binlogs.configs.log(instance, db, table or "").kept
    except UnknownLog:
        if not replicas:  # a mistyped name would be dropped permanently
            raise
        records = 0
    lines = [f"{quantity(records, 'record')} and all binlogs of {quantity(replicas, 'replica')} will be deleted"]
    lines += [
        f"consumer {consumer.name} of {log_name(db, consumer.tbl)} no longer blocks deletions"
        for consumer in call.stores.binlogs.consumers.all(instance)
        if consumer.db == db and table in (None, consumer.tbl)
    ]
    return Question(f"Is {log_name(db, table or '')} dropped permanently?", tuple(lines))


def _decommission(call: Call, values: Values) -> Question | None:
    from sexton.replication.replicas.sql import figures

    with call.deployment.db.read() as c:
        rows = figures.backend_standings(call.deployment.db, c, instance_of(call, values))
    for row in rows:
        if row.backend == values["backend"]:
            replicas = f"{quantity(row.copies, 'replica')}, {row.behind:,} of them with something to delete"
            times = f"last report {utc(row.reported_at)}, last pull {utc(row.pulled_at)}"
            return Question("Will it never return?", (f"backend {row.backend}: {replicas}; {times}",))
    return None


def _reset(call: Call, values: Values) -> Question | None:
    call.stores.wal.store.topic(values["topic"])  # an unknown one is refused before anything is asked
    if values["region"] is not None:
        return Question(f"Give up the entries that region {values['region']} of topic {values['topic']} is missing?")
    if values["to"] is not None or values["epoch"] is not None:
        return None  # the operation refuses it
    return Question(f"Forget all that is known of topic {values['topic']}?")


QUESTIONS: Mapping[str, Callable[[Call, Values], Question | None]] = {
    "instance remove": _remove_instance,
    "quarantine discard": _discard,
    "vault trust": _trust,
    "binlog drop": _drop,
    "replica decommission": _decommission,
    "wal reset": _reset,
    "wal assign": lambda call, v: Question(
        f"Take topic {v['topic']} from {call.stores.wal.store.topic(v['topic']).instance} and give it to {v['to']}?"
    ),
    "check rebase": lambda call, v: Question(
        "Is this correct?", tuple(call.stores.checks.shrunken(instance_of(call, v)).missing_inputs)
    ),
}
"""Operation → the question; None: none is needed."""
