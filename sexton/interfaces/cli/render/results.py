"""Print the result of an operation: a list as a table, an object as lines of name and value, unless it has its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer
from pydantic import BaseModel

from sexton.insight.wording import first_line, utc, utc_column
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.lazy import lazy
from sexton.interfaces.cli.render.tables import TABLES
from sexton.interfaces.sentences import SENTENCES, Values
from sexton.kernel.printable import printable

INSTANT = "_at"
"""The end of the names of instants, in ms since 1970."""


def show(operation: str, result: Any, values: Values) -> None:
    """Print a result. ``values``: of the order."""
    if operation in TABLES:
        _show_table(operation, result, values)
    elif operation in RENDERERS:
        RENDERERS[operation](result)
    elif operation in SENTENCES:
        for line in SENTENCES[operation](result, values):
            if line:
                typer.echo(printable(line), err=line.startswith(("WARNING:", "warning:", "error:")))
    elif hasattr(result, "items") and hasattr(result, "more"):
        _show_rows([row.model_dump(by_alias=True) for row in result.items], "there is none")
    elif isinstance(result, BaseModel):
        _show_fields(result.model_dump(by_alias=True))


def _show_fields(fields: Mapping[str, Any], indent: str = "") -> None:
    """Print an object as a line for each value that it has; what is in it follows below, with an indent."""
    for name, value in fields.items():
        if isinstance(value, Mapping) and value:
            typer.echo(f"{indent}{_heading(name)}:")
            _show_fields(value, f"{indent}  ")
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            typer.echo(f"{indent}{_heading(name)}:")
            _show_rows(value, "")
        elif value not in (None, "", (), [], {}):
            text = utc(value) if name.endswith(INSTANT) else _cell(name, value)
            typer.echo(f"{indent}{_heading(name)}: {printable(str(text))}")


def _show_rows(rows: Sequence[Mapping[str, Any]], none: str) -> None:
    names = list(rows[0]) if rows else []
    cells = [[_cell(name, row.get(name)) for name in names] for row in rows]
    used = [n for n in range(len(names)) if any(row[n] not in ("", None) for row in cells)]
    show_table("" if rows else none, [_heading(names[n]) for n in used], [[row[n] for n in used] for row in cells])


def _heading(name: str) -> str:
    words = name.removesuffix(INSTANT).replace("_", " ")
    return f"{words} (UTC)" if name.endswith(INSTANT) else words


def _cell(name: str, value: Any) -> object:
    if isinstance(value, tuple | list):
        return ", ".join(str(_cell("", item)) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{_heading(key)} {_cell(key, item)}" for key, item in value.items() if item not in (None, ""))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return utc_column(value) if name.endswith(INSTANT) and value is not None else value


def _show_table(operation: str, result: Any, values: Values) -> None:
    none, columns, row = TABLES[operation]
    title = "" if result.items else none.format(**values, of=values.get("instance") or "the deployment")
    show_table(title, columns, [row(item, result) for item in result.items])
    if result.next:
        typer.echo(f"more follow: --after '{result.next}'")
    elif result.more:
        typer.echo(f"these are the first {len(result.items):,}; there are more")


def _created_token(result: Any) -> None:
    """Print the secret alone, so that a script can read it, and the rest on stderr."""
    token = result.token
    typer.echo(result.secret)
    typer.echo(
        f"token {token.token}, scope {token.scope}, until {utc(token.expires_at)}; it is not shown again", err=True
    )
    typer.echo(f"to end it sooner: sexton token revoke {token.token}", err=True)


def _blockers(result: Any) -> None:
    from sexton.runtime.blockers.temporal import NOT_ASKED

    nothing = "nothing blocks deletions"
    if result.temporal_away:
        typer.echo(NOT_ASKED, err=True)
        nothing = "nothing in the database blocks deletions"
    columns = ("instance", "blocked by", "what", "since (UTC)", "until (UTC)", "why / way out")
    show_table("" if result.items else nothing, columns, [_blocker_row(b) for b in result.items])


def _blocker_row(b: Any) -> tuple[object, ...]:
    reason = ": ".join(text for text in (b.by and f"by {b.by}", first_line(b.why)) if text)
    explanation = "; ".join(text for text in (reason, b.way_out) if text)
    return b.instance, b.held_by, b.what, utc_column(b.since), utc_column(b.until), explanation


def _paces(result: Any) -> None:
    caps = {f"{c.instance}/{c.vault}": c.keys_per_second for c in result.caps}
    rows = [
        (
            f.vault,
            f.place,
            f"{f.keys_per_second:,}",
            f"{f.ceiling:,}" if f.ceiling else "-",
            f"{caps[f.vault]:,}" if f.vault in caps else "-",
            f"{100 * f.throttled / f.requests:.1f} %" if f.requests else "-",
            f.workers,
            utc_column(f.throttled_at),
        )
        for f in result.places
    ]
    used = {f.vault for f in result.places}
    rows += [(vault, "", "", "", f"{cap:,}", "", "", "") for vault, cap in caps.items() if vault not in used]
    columns = ("vault", "place", "keys/s", "refused at", "cap", "throttled", "workers", "last refused (UTC)")
    show_table("" if rows else "nothing was deleted yet, and no vault has a cap", columns, rows)


def _probed(result: Any) -> None:
    from sexton.interfaces.probe_rows import feature_rows

    show_table("", ("feature", "seen", "what it means"), feature_rows(result))
    if result.unsupported:
        typer.echo(f"error: the vault cannot work as it is registered: {result.unsupported}", err=True)


def _progress(work: str, what: str) -> Callable[[Any], None]:
    def show_progress(state: Any) -> None:
        from sexton.runtime.temporal import works

        subject = getattr(state, "topic", "") or getattr(state, "instance", "")
        typer.echo(f"{what.format(s=state)}: {getattr(works, work).describe(state, subject)}")

    return show_progress


def _round_progress(state: Any) -> None:
    from sexton.insight.wording import first_line as line

    error = f": {line(state.error)}" if state.error else ""
    typer.echo(f"round {state.round or ''}: {state.doing}{error}".replace("round :", "the round:"))


RENDERERS: Mapping[str, Callable[[Any], None]] = {
    "token create": _created_token,
    "status": lazy("status", "show_status"),
    "blockers": _blockers,
    "pace": _paces,
    "vault probe": _probed,
    "plan new": lazy("plans", "show_details"),
    "plan list": lazy("plans", "show_plans"),
    "plan show": lazy("plans", "show_review"),
    "apply": lazy("report", "show_report"),
    "round run": lazy("report", "show_report"),
    "round show": lazy("rounds", "show_round"),
    "round progress": _round_progress,
    "check run": lazy("checks", "show_report"),
    "check show": lazy("checks", "show_report"),
    "check progress": _progress("CHECKS", "check of {s.instance}"),
    "wal explain": lazy("topics", "show_explanation"),
    "wal purge": lazy("topics", "show_purge_report"),
    "wal round run": lazy("topics", "show_round_report"),
    "wal progress": _progress("PURGES", "topic {s.topic}"),
    "wal round progress": _progress("PURGE_ROUNDS", "the round of topics"),
    "binlog explain": lazy("binlogs", "show_explanation"),
    "binlog gc": lazy("binlogs", "show_gc_report"),
    "binlog progress": _progress("BINLOG_GCS", "binlogs of {s.instance}"),
    "replica explain": lazy("replicas", "show_tablet"),
    "settings show": lambda result: lazy("settings", "show_settings")(result.items, result.ignored),
    "settings preview": lazy("settings", "show_change"),
}
"""Operations whose results people read in another form than that of their fields."""


def _check_code(report: Any) -> int:
    from sexton.check.model import FindingType

    return 3 if not report.whole else 4 if report.confirmed.get(FindingType.LOST) else 0


def _purge_code(report: Any) -> int:
    from sexton.wal.messages import PurgeOutcome

    lost = report.purged is not None and report.purged.verdict.lost > 0
    return int(lost or report.outcome not in (PurgeOutcome.PURGED, PurgeOutcome.NOTHING))


def _round_code(report: Any) -> int:
    from sexton.interfaces.cli.render.report import succeeded

    return int(not succeeded(report))


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
