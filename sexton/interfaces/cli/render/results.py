"""Print the result of an operation: a list as a table, an object as lines of name and value, unless it has its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pkgutil import resolve_name
from typing import Any

import typer
from pydantic import BaseModel

from sexton.insight.wording import UNANSWERED, duration, human_bytes, quantity, shown_names, utc, utc_column
from sexton.interfaces.cli.output import say, show_table
from sexton.interfaces.cli.render.tables import COMPUTED, COUNTS, EMPTY, FORMS, SENTENCES_OF, approve_command
from sexton.kernel.message import Page
from sexton.kernel.printable import printable
from sexton.replication.binlog.model import MAX_COMMIT_SEQ

INSTANT = "_at"
"""The end of the names of instants, in ms since 1970."""
MAX_NAMED = 20
"""Items of a value that are named; of more their number is printed. JSON has all of them."""
UNITS = ("_seconds", "_ms", INSTANT)
MAX_LOSSES = 10
NUMBERS = {-1: "-", MAX_COMMIT_SEQ: "all"}
"""Versions and records that stand for none and for all."""
ON_STDERR = ("WARNING:", "warning:", "error:", "ignored:")


def show(operation: str, result: Any, values: Mapping[str, Any]) -> None:
    """Print a result. ``values``: of the order."""
    if renderer := RENDERERS.get(operation):
        (resolve_name(f"{__package__}.{renderer}") if isinstance(renderer, str) else renderer)(result)
        return
    from sexton.interfaces.sentences import SENTENCES

    if isinstance(result, Page) and operation not in SENTENCES:
        if not result.items:
            none = EMPTY.get(operation, "there is none")
            typer.echo(none.format(**values, of=values.get("instance") or "the deployment"))
        show_rows(result.items, operation, result)
        if result.next:
            typer.echo(f"more follow: --after '{result.next}'")
        elif result.more:
            typer.echo(f"these are the first {len(result.items):,}; there are more")
    elif isinstance(result, BaseModel) and operation not in SENTENCES:
        show_fields(result, operation)
    lines: Iterable[Any] = ()
    if operation in SENTENCES:
        lines = SENTENCES[operation](result, values)
    elif operation in ADVICE:
        lines = ADVICE[operation](result)
    for line in filter(None, lines):
        typer.echo(printable(line), err=line.startswith(ON_STDERR))


def show_fields(value: BaseModel, form: str = "", indent: str = "") -> None:
    """Print an object as a line for each value that it has; what is in it follows below, with an indent.

    ``form``: the operation whose result it is.
    """
    for name, part in _parts(value, form, None):
        if isinstance(part, BaseModel):
            typer.echo(f"{indent}{_heading(name)}:")
            show_fields(part, indent=f"{indent}  ")
        elif isinstance(part, list | tuple) and part and isinstance(part[0], BaseModel):
            typer.echo(f"{indent}{_heading(name)}:")
            show_rows(part)
        elif name in SENTENCES_OF and part:
            say(f"{indent}{_heading(name)}:", *(f"{indent}  {sentence}" for sentence in part))
        elif part not in (None, "", (), [], {}):
            text = utc(part) if name.endswith(INSTANT) else cell(name, part)
            typer.echo(f"{indent}{_heading(name).removesuffix(' (UTC)')}: {printable(str(text))}")


def show_rows(items: Sequence[BaseModel], form: str = "", page: Any = None) -> None:
    """Print objects as a table, without the columns in which none has a value; nothing if there are no objects."""
    rows = [[(name, cell(name, value)) for name, value in _parts(i, form, page)] for i in items]
    used = [n for n in range(len(rows[0])) if any(row[n][1] not in ("", None) for row in rows)] if rows else []
    show_table([_heading(rows[0][n][0]) for n in used], [[row[n][1] for n in used] for row in rows])


def _parts(value: BaseModel, form: str, page: Any) -> Iterator[tuple[str, Any]]:
    """Yield the shown name and the value of each field that its form names; without a form, of every field."""
    form = form if form in FORMS else type(value).__name__
    words = FORMS.get(form, "").split()
    computed = COMPUTED[form](value, page) if form in COMPUTED else {}
    fields = [f"{shown}={name}" for name, shown in shown_names(type(value)).items()]
    for word in words or fields:
        name, _, path = word.partition("=")
        if name in computed:
            yield name, computed[name]
            continue
        part: Any = value
        for field in (path or name).split("."):
            part = None if part is None else getattr(part, field)
        yield name, part


def _heading(name: str) -> str:
    unit = next((unit for unit in UNITS if name.endswith(unit)), "")
    return name.removesuffix(unit).replace("_", " ") + (" (UTC)" if unit == INSTANT else "")


def cell(name: str, value: Any) -> object:
    """Return a value as people read it; the end of its name tells its unit."""
    if isinstance(value, BaseModel):
        parts = [(n, v) for n, v in _parts(value, "", None) if v not in (None, "") and v is not False]
        return " ".join(f"{_heading(n)} {cell(n, v)}" for n, v in parts)
    if isinstance(value, Mapping):
        value = [f"{key} {cell('', v)}" for key, v in value.items() if v not in (None, "")]  # keys are names of users
    if isinstance(value, list | tuple | frozenset):
        more = [f"and {len(value) - MAX_NAMED:,} more"] if len(value) > MAX_NAMED else []
        return ", ".join([*(str(cell(name, item)) for item in islice(value, MAX_NAMED)), *more])
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return value
    if name.endswith(INSTANT):
        return utc_column(int(value) or None)
    if name.endswith("bytes"):
        return human_bytes(int(value))
    if name.endswith("_seconds"):
        return duration(int(value))
    if name.endswith("_ms"):
        return f"{value / 1000:.1f} s"
    return f"{value:,}" if name in COUNTS else NUMBERS.get(int(value), value)


def _created_token(result: Any) -> None:
    """Print the secret alone, so that a script can read it, and the rest on stderr."""
    token = result.token
    typer.echo(result.secret)
    typer.echo(
        f"token {token.token}, scope {token.scope}, until {utc(token.expires_at)}; it is not shown again", err=True
    )
    typer.echo(f"to end it sooner: sexton token revoke {token.token}", err=True)


def _blockers(result: Any) -> None:
    from sexton.runtime.blockers.listing import NOT_ASKED

    if result.temporal_away:
        typer.echo(NOT_ASKED, err=True)
    if not result.items:
        typer.echo(f"nothing {'in the database ' if result.temporal_away else ''}blocks deletions")
    show_rows(result.items, "blockers", result)


def _probed(result: Any) -> None:
    from sexton.interfaces.probe_rows import feature_rows

    show_table(("feature", "seen", "what it means"), feature_rows(result))
    if result.unsupported:
        typer.echo(f"error: the vault cannot work as it is registered: {result.unsupported}", err=True)


def _progress(work: str, what: str) -> Callable[[Any], None]:
    def show_progress(state: Any) -> None:
        from sexton.runtime.temporal import works

        subject = getattr(state, "topic", "") or getattr(state, "instance", "")
        typer.echo(f"{what.format(s=state)}: {getattr(works, work).describe(state, subject)}")

    return show_progress


RENDERERS: Mapping[str, str | Callable[[Any], None]] = {
    "token create": _created_token,
    "status": "status:show_status",
    "blockers": _blockers,
    "vault probe": _probed,
    "plan new": "rounds:show_details",
    "plan show": "rounds:show_review",
    "apply": "rounds:show_report",
    "round run": "rounds:show_report",
    "round show": "rounds:show_round",
    "round progress": _progress("ROUNDS", "round of {s.instance}"),
    "check run": "rounds:show_check",
    "check show": "rounds:show_check",
    "check progress": _progress("CHECKS", "check of {s.instance}"),
    "wal progress": _progress("PURGES", "topic {s.topic}"),
    "wal round progress": _progress("PURGE_ROUNDS", "the round of topics"),
    "binlog progress": _progress("BINLOG_GCS", "binlogs of {s.instance}"),
}
"""Operations whose results people read in another form than that of their fields; a text names a function of here."""


def _check_code(report: Any) -> int:
    from sexton.check.model import FindingType

    return 3 if not report.whole else 4 if report.confirmed.get(FindingType.LOST) else 0


def _purge_code(report: Any) -> int:
    from sexton.wal.messages import PurgeOutcome

    lost = report.purged is not None and report.purged.verdict.lost > 0
    return int(lost or report.outcome not in (PurgeOutcome.PURGED, PurgeOutcome.NOTHING))


def _round_code(report: Any) -> int:
    """Return 0 if everything that could be deleted was deleted, and nothing failed."""
    from sexton.recycle.model import SUCCEEDED

    return int(report.state != SUCCEEDED or bool(report.failed or report.waiting or report.faults))


EXIT_CODES: Mapping[str, Callable[[Any], int]] = {
    "plan new": lambda result: 2 if result.plan.marks or result.plan.claimed else 0,
    "vault list": lambda result: int(any(vault.proof not in ("", "ours") for vault in result.items)),
    "vault probe": lambda result: int(bool(result.unsupported)),
    "why": lambda result: int(not result.items),
    "apply": _round_code,
    "round run": _round_code,
    "check run": _check_code,
    "wal purge": _purge_code,
    "binlog gc": lambda report: int(bool(report.cut.refused or report.cancelled)),
}
"""Operation → the exit code that its result stands for."""


def _binlog(e: Any) -> Iterator[str]:
    if e.dropped_at is not None:
        yield f"DROPPED since {utc(e.dropped_at)}: all of it is deleted, nothing blocks it"
    elif not e.lines:
        yield f"neither the database nor a table has a binlog; sexton binlog set {e.db} --ttl 7d"
    elif e.tbl and e.own.enabled:
        yield f"table {e.tbl} is in the log of its database, and is cut with it"
    if e.logs > len(e.lines):
        yield f"and {e.logs - len(e.lines):,} more tables; name one: sexton binlog explain {e.db} TABLE"
    for line in e.lines:
        if (upto := line.cut.awaiting_seq) is not None:
            yield f"it WAITS for approval, because it is very large: {approve_command(line.log, upto)}"
    yield from _consumers(e)
    if not e.backends:
        yield "no replica of its tablets has anything to delete"
    for copy in e.named:
        yield f"see: sexton replica explain {copy.replica.tablet}"


def _consumers(e: Any) -> Iterator[str]:
    """Yield which consumers block a cut, and which will no longer."""
    for consumer in e.consumers:
        lines = [line for line in e.lines if line.log.tbl in ("", consumer.tbl)]
        if consumer.lost_at is not None:
            continue
        if consumer.seen_at <= e.now - e.lost_after_seconds * 1000:
            yield f"consumer {consumer.name} is silent for too long: LOST at the next cut"
        elif any(consumer.name in line.cut.held for line in lines):
            yield f"consumer {consumer.name} blocks a cut; LOST if silent for {duration(e.lost_after_seconds)}"


def _topic(e: Any) -> Iterator[str]:
    topic, verdict = e.topic, e.verdict
    if verdict.quarantine:
        yield f"no entry of it is purged; when the cause is understood: sexton wal reset {topic.name} --reason …"
    for block in verdict.blocked:
        since = topic.blocked.get(block.why)
        yield f"blocked{'' if since is None else f' since {utc(since)}'}: {block.said}"
    if verdict.lost:
        purged_by_sexton = topic.floor is not None and topic.floor > min(loss.last for loss in verdict.losses)
        cause = f"; Sexton deleted nothing from {topic.floor or 0} on: the log itself did, or another program"
        yield f"LOSS in {quantity(verdict.lost, 'region')}{'' if purged_by_sexton else cause}"
    for loss in verdict.losses[:MAX_LOSSES]:
        yield f"LOSS: region {loss.region} needs entries {loss}, which are deleted; to accept that:"
        yield f"  sexton wal reset {topic.name} --region {loss.region} --reason …"
    if e.regions > len(e.lines):
        yield f"and {e.regions - len(e.lines):,} more regions, which need less"


def _purge(report: Any) -> Iterator[str]:
    verdict = report.purged.verdict if report.purged else None
    if verdict is not None and verdict.lost:
        yield f"LOSS: entries that {quantity(verdict.lost, 'region')} needed are deleted"
    if verdict is not None and (verdict.lost or verdict.quarantine or verdict.holders):
        yield f"see: sexton wal explain {report.topic}"


def _tablet(page: Any) -> Iterator[str]:
    """Yield which replica decides, and which replicas still wait for it."""
    replicas, need = page.items, page.need
    tablet = replicas[0].tablet
    if need is None:
        yield "the tablet is dropped: all of it is deleted, on every backend"
        return
    if not page.decides:
        yield "none of its replicas counts, and one of them may be the last good one: nothing is deleted; repair one,"
        yield "so that it reports, place another, or report that its table is dropped"
        return
    faults = next(replica.faults for replica in replicas if replica.backend == page.decides)
    may = f"binlogs and files below version {need} may be deleted" if need else "nothing may be deleted"
    yield f"the replica on {page.decides} decides: {f'{faults}; ' if faults else ''}{may}"
    present = [replica for replica in replicas if not replica.dropped]
    desired = max(replica.desired for replica in present)
    waiting = sum(replica.granted < replica.desired and need <= replica.desired for replica in present)
    if waiting:
        condition = f"it has version {need}" if need else "it has reported that it is healthy"
        waits = quantity(waiting, "replica waits", "replicas wait")
        yield f"cuts have reached version {desired}; {waits} until {condition}"
        yield f"if it never will: sexton replica full-copy {tablet} {page.decides} --reason …"
    elif any(replica.acked < replica.desired for replica in replicas):
        yield f"cuts have reached version {desired}; the rest is deleted when its backend pulls"


def _plans(page: Any) -> Iterator[str]:
    for plan in page.items:
        if plan.state == "REJECTED":
            yield f"plan {plan.id} was {plan.awaits}"
        if plan.state == "AWAITING_APPROVAL":
            yield f"plan {plan.id} waits for approval since {utc_column(plan.since)} UTC: {plan.awaits}"
            yield f"  unanswered, {UNANSWERED} is deleted"


ADVICE: Mapping[str, Callable[[Any], Iterable[Any]]] = {
    "plan list": _plans,
    "binlog explain": _binlog,
    "binlog gc": lambda report: [
        (report.cut.held or report.cut.waiting) and "see: sexton binlog list",
        report.cut.lost and "see: sexton binlog consumers",
        (report.cut.full_copy or report.swept.unknown or report.swept.quarantined or report.swept.failed)
        and "see: sexton replica list",
        report.away and "backends that are away pull when they are back",
    ],
    "wal explain": _topic,
    "wal purge": _purge,
    "wal round run": lambda counts: [
        (counts.blocked or counts.quarantined or counts.faults) and "see: sexton blockers",
        counts.losses
        and f"LOSS: entries that {quantity(counts.losses, 'region')} needed are deleted; see: sexton wal list",
    ],
    "replica explain": _tablet,
    "settings preview": lambda change: [
        not change.shifts and "no waiting mark becomes due, or is no longer due",
        *(
            f"{name}: marks that become due only by this change wait in the first plan after it, until an operator "
            f"applies that plan (sexton plan list {name}); other marks are deleted as usual"
            for name in dict.fromkeys(shift.instance for shift in change.shifts if shift.asks)
        ),
        change.loosens and f"this loosens a safeguard: {change.loosens}",
    ],
    "settings show": lambda page: [f"ignored: {why}" for why in page.ignored],
    "pace": lambda paces: [not (paces.places or paces.caps) and "nothing was deleted yet, and no vault has a cap"],
}
"""Operation → the lines; one that is empty or false is left out."""
