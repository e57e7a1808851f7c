"""The sentences that say what was done."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sexton.insight.wording import UNCOUNTED, blocks_deep, covers_nothing, finding_place, quantity, retention, utc
from sexton.kernel.printable import printable

EFFECTIVE = "effective after the current page, within 5 s"
Values = Mapping[str, Any]


def _stopped(result: Any, _values: Values) -> Iterator[str]:
    everything = result.instance == "*"
    what, argument = ("every instance", "--all") if everything else (result.instance, result.instance)
    for control in result.before:
        first = f"{control.first_reason or control.reason} ({control.first_set_by or control.set_by})"
        yield f"it was stopped already, since {utc(control.since)}: {first}; this reason is kept, too"
    yield f"{what} is stopped, {EFFECTIVE}: no more marks are claimed or deleted"
    yield f"topics{'' if everything else f' of {what}'} are not purged either"
    yield f"claimed marks stay claimed, and are finished after: sexton start {argument}"


def _fault(result: Any, more: str = "") -> str:
    text = f"warning: rounds keep every mark of {result.instance}: {result.fault}{more}; see also: sexton doctor"
    return text if result.fault else ""


def _hold_placed(placed: Any, _values: Values) -> Iterator[str]:
    hold, matching = placed.hold, placed.matches_now
    yield f"{hold.kept} blocks {printable(hold.what)} of {hold.instance} until {utc(hold.expires_at)}"
    if matching is None:
        yield f"WARNING: {UNCOUNTED}"
    elif matching:
        yield f"it covers {quantity(matching, 'mark')} now, and matching marks that are made until then"
    elif hold.scope == "instance":
        yield covers_nothing(hold)
    else:
        yield f"WARNING: {covers_nothing(hold, placed.may_block or 0)}"
        yield "WARNING: to see the names of marks: sexton why ID; or hold a --prefix, or the whole instance"
    if matching is not None and (deep := (placed.blocks_now or 0) - matching):
        yield f"it also blocks {blocks_deep(deep)}"
    yield f"to end it earlier: sexton hold release {hold.id}"
    if placed.too_late:
        late = quantity(placed.too_late, "mark")
        yield f"WARNING: too late for {late}: claimed before, their files are deleted all the same"


def _listed(result: Any, _values: Values) -> Iterator[str]:
    from sexton.operators.controls.model import ListName

    effects = {
        ListName.BLACKLIST: "rounds leave it alone, even if it is on the whitelist",
        ListName.WHITELIST: "rounds work only on instances on the whitelist",
        ListName.VAULTS: "rounds delete only in vaults on this list",
        ListName.WINDOWS: "rounds work only inside a window",
    }
    if result.listed:
        yield f"{result.name} is on the list {result.list}, {EFFECTIVE}: {effects[result.list]}"
        return
    was = f"is off the list {result.list}, {EFFECTIVE}" if result.changed else f"was not on the list {result.list}"
    yield f"{result.name} {was}"
    if result.is_empty and result.list is not ListName.BLACKLIST:
        yield f"the list {result.list} is empty now: it blocks nothing"


def _repaired(r: Any, values: Values) -> Iterator[str]:
    noun, verb = ("orphan", "mark") if r.what == "orphans" else ("lost object", "undelete")
    if r.awaits:
        yield f"no round will delete orphans before an operator has applied a plan with them: {r.awaits}"
    if not r.found:
        yield "nothing confirmed to repair; see: sexton check findings"
    elif r.dry_run:
        can = "" if r.what == "orphans" else f"; {r.shown} can be undeleted"
        yield f"would {verb} {quantity(r.found, noun)}{' for deletion' if r.what == 'orphans' else ''}{can}"
    elif r.what == "orphans":
        see = f"sexton plan {values['instance'] or ''}".rstrip()
        yield f"marked {quantity(r.marked, 'orphan')}, kept {r.kept}; see: {see}"
    else:
        yield f"undeleted: {quantity(r.shown, 'object')}; no version available: {r.kept}"


def _set(change: Any, values: Values) -> Iterator[str]:
    where, removed = values["instance"] or "all instances", "value" not in values
    if removed:
        others = ", ".join(f"{name} (--instance {name})" if name else "all instances" for name in change.elsewhere)
        still = f"; it is set for {others}" if others else ""
        yield f"{change.key} {'is no longer' if change.done else 'was not'} set for {where}{still}"
    else:
        yield f"{change.key} is {values['value']} for {where}"
    if change.done:
        yield "workers use it within 5 s; a plan that was made before is not changed"


def _signalled(result: Any, _values: Values) -> Iterator[str]:
    yield f"sent {result.signal}{f' ({result.subject})' if result.subject else ''}: {result.effect}"
    if not result.workers:
        yield "WARNING: no worker is known to run; the signal takes effect when one starts (sexton worker run)"


def _log_kept(log: Any, _values: Values) -> Iterator[str]:
    rule = retention(log)
    if log.in_database_log:
        yield f"binlog {log.name}: its records are in the log of database {log.db}, whose rule applies"
    elif log.enabled:
        yield f"binlog {log.name} is enabled: {rule}; the first available record is {log.floor + 1}"
    else:
        yield f"binlog {log.name} is disabled; it has {quantity(log.kept, 'record')}: {rule}"


def _topic_reset(standing: Any, values: Values) -> Iterator[str]:
    topic, name = standing.topic.name, values["region"]
    if name is None:
        yield f"topic {topic} is forgotten: its owner must send its map again, with newer epochs"
        return
    region = next((line.region for line in standing.lines if line.region.region == name), None)
    if region is None:  # only those with the oldest entries are shown
        yield f"region {name} of topic {topic} is reset; see: sexton wal explain {topic}"
        return
    start, lowest = region.keep_from, max(0, region.epoch)
    yield f"region {name} needs topic {topic} from entry {start} on; it opens there, in epoch {lowest} or above"


def _said(text: str) -> Callable[[Any, Values], list[str]]:
    """Return a line with fields of the result (``r``) and values of the order."""
    return lambda result, values: [text.format(r=result, **values)]


def _stories(result: Any, values: Values) -> Iterator[str]:
    blank = " " * len("2026-01-01 00:00:00 UTC")
    for story in result.items:
        yield f"{story.instance}  {story.kind} {story.id}".rstrip() if story.id else story.instance
        for event in story.events:
            yield f"  {utc(event.at) if event.at else blank}  {event.text}"
    if not result.items and result.hint.startswith("no vault"):
        yield f"error: {result.hint}"
    elif not result.items:
        hint = f". {result.hint[0].upper()}{result.hint[1:]}" if result.hint else ""
        known = "no mark, no record of a deleted mark, and no owner lists it as live"
        yield f"error: nothing is known of {values['key']}: {known}{hint}"


SENTENCES: Mapping[str, Callable[[Any, Values], Iterable[Any]]] = {
    "stop": _stopped,
    "start": lambda r, _: [
        f"{'everything' if r.instance == '*' else r.instance} "
        + (f"is started again, {EFFECTIVE}" if r.before else "was not stopped"),
        *(f"{name} is still stopped: {halt}" for name, halt in r.halts.items()),
    ],
    "why": _stories,
    "enable": _said("instance {r.instance} is enabled: rounds now delete what is due"),
    "instance add": lambda r, v: [
        f"instance {r.instance} is registered; "
        + (f"it observes until: sexton enable {r.instance}" if r.mode == "observe" else "it was enabled already"),
        _fault(r, "; if an option is wrong, repeat the command with the right ones" if v["option"] else ""),
    ],
    "instance remove": _said("instance {instance} is removed; its history stays"),
    "instance live-view": lambda r, v: [
        f"live objects of {r.instance}: {'not shown' if v['view'] == 'none' else v['view']}",
        _fault(r),
    ],
    "instance keys": lambda _, v: [
        f"the keys of {v['instance']}: {v['pattern']}" if v["pattern"] else f"the keys of {v['instance']} are unknown"
    ],
    "instance grant": _said("role {role} may mark, prepare, commit and undrop in instance {instance}"),
    "instance revoke": _said("role {role} can do nothing in instance {instance}"),
    "instance observe": _said("instance {r.instance} only observes; a running round ends before its next claim"),
    "vault add": lambda r, _: [
        f"vault {r.vault} of {r.instance} is {'registered already: ' if r.already else ''}{r.kind} {r.place}, "
        f"marker {r.marker}",
        _fault(r, "; if an option of the instance is wrong, repeat sexton instance add with the right ones"),
    ],
    "vault remove": lambda r, v: [
        f"vault {r.vault} of {r.instance} is removed, "
        f"{'with its marker' if r.had_marker else 'which had no marker of it'}; its objects stay",
        v["gone"] and f"marks in it: sexton quarantine list {r.instance}",
    ],
    "vault trust": _said("vault {r.vault} of {r.instance} belongs to this database again"),
    "vault cap": _said(
        "{r.instance}/{r.vault} is deleted from at {r.keys_per_second} keys/s at most, within 5 s; until: sexton vault "
        "uncap {r.instance} {r.vault}"
    ),
    "vault probe": lambda r, v: [
        f"vault {v['vault']} was probed",
        r.unsupported and f"WARNING: it does not support: {r.unsupported}",
    ],
    "token renew": lambda r, _: [f"token {r.token} is valid until {utc(r.expires_at)}"],
    "token revoke": _said("token {r.token} is revoked: its next request is refused"),
    "vault uncap": lambda r, _: [
        f"the cap of {r.instance}/{r.vault} is removed" if r.had_cap else f"{r.instance}/{r.vault} had no cap"
    ],
    "hold add": _hold_placed,
    "hold release": lambda h, _: [f"{h.kept} of {h.instance} ({h.what}) has ended, at {utc(h.ends_at)}"],
    "lists add": _listed,
    "lists remove": _listed,
    "quarantine retry": lambda r, v: [
        r.left
        and f"{quantity(r.left, 'mark with overwritten objects stays', 'marks with overwritten objects stay')} "
        f"quarantined; review first: sexton quarantine list {v['instance'] or ''} --reason CHANGED",
        f"the next round tries {quantity(r.marks, 'mark')} again" if r.marks else "no matching mark is quarantined",
    ],
    "quarantine discard": _said("{mark} is given up; see: sexton why {r.id}"),
    "plan reject": lambda row, _: [
        f"plan {row.id} of {row.instance} is rejected: {', '.join(row.kinds)}",
        "to save a mark, let its owner undrop it, or hold it: "
        f"sexton hold add {row.instance} --mark KIND/ID --for 7d --reason TEXT",
        "rounds delete these kinds without approval again in 7 days, or when a later plan with them is applied",
    ],
    "check accept": lambda f, _: [f"finding {f.id} ({f.type} {finding_place(f)}) is accepted"],
    "check rebase": _said(
        "the next check of {r.instance} is not compared with earlier ones: sexton check run {r.instance}"
    ),
    "check repair": _repaired,
    "protection renew": lambda p, v: [
        f"the objects of job {p.job} of {p.instance} are protected until {utc(p.expires_at)}"
        + ("" if v.get("valid_ts") is None else f"; once it is finished, until the watermark is above {p.valid_ts}")
    ],
    "protection finish": lambda p, _: [
        f"job {p.job} of {p.instance} is finished; its objects stay protected until "
        + (
            "the next round"
            if p.valid_ts is None
            else f"the watermark is above {p.valid_ts} (the next round, if none was ever reported)"
        )
    ],
    "protection release": _said("the protection of job {r.job} of {r.instance}, owner {r.owner}, has ended"),
    "protection watermark": _said("the watermark of {instance} is {value}"),
    "settings set": _set,
    "settings unset": _set,
    "schedules apply": lambda s, _: [
        f"schedule {s.schedule}: {s.result}; an instance has a round every {s.every_seconds} s,",
        f"and every {s.tick_seconds} s the schedule checks which instances and topics are due",
        s.registered and f"search attributes registered: {', '.join(s.registered)}",
        s.warning and f"warning: {s.warning}",
    ],
    "schedules pause": _said("no round starts automatically until: sexton schedules resume; running rounds continue"),
    "schedules resume": _said("due rounds start at the next tick of the schedule"),
    "worker promote": _said("build {r.build} is current: workflows begin on it, and running ones move to it"),
    "trial advance": lambda r, _: [
        f"the clock of this deployment is {utc(r.now_at)} now; see what is due: sexton plan INSTANCE"
    ],
    "wal enable": _said("topic {r.name} is purged from now on ({r.mode}); see: sexton wal explain {r.name}"),
    "wal disable": _said("topic {r.name} is no longer purged, until: sexton wal enable {r.name}"),
    "wal reset": _topic_reset,
    "wal assign": _said("topic {r.name} belongs to {to}: its owner must send its map now, with newer epochs"),
    "wal restored": lambda r, _: [
        f"{quantity(r.waiting, 'enabled topic waits', 'enabled topics wait')} for a map of the owner"
    ],
    "binlog set": _log_kept,
    "binlog disable": _log_kept,
    "binlog approve": _said(
        "approved up to {r.approved}; the next run cuts it; at once: sexton binlog gc {r.instance}"
    ),
    "binlog drop": _said(
        "it is dropped; the next run deletes its records, the next pull of each backend deletes its files"
    ),
    "binlog remove-consumer": lambda _, v: [
        f"consumer {v['name']} of {'/'.join(filter(None, (v['db'], v['table'])))} no longer blocks deletions"
    ],
    "binlog remove-follower": _said("follower {follower} is removed: entries are no longer kept for it"),
    "replica full-copy": _said(
        "the replica of tablet {tablet} on {backend} is FULL_COPY_ONLY; see: sexton replica explain {tablet}"
    ),
    "replica decommission": lambda r, v: [
        f"backend {v['backend']} is forgotten, with {quantity(r.replicas, 'replica')}"
    ],
    **{
        f"{work} {signal}": _signalled
        for work in ("round", "check", "wal", "wal round", "binlog")
        for signal in ("cancel", "pause", "resume", "retry")
    },
    "wal now": _signalled,
}
"""Operation → the lines that are printed; one that is empty or false is left out.

Those that begin with a warning or an error go to standard error.
"""
