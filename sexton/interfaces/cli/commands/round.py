"""`sexton round`: list rounds, start one, and signal a running one."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import OptionalInstance, log_call, named_or_only, one_instance, open_database
from sexton.interfaces.cli.json_output import emit, emit_list, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.cli.render.report import end, show_report
from sexton.interfaces.cli.render.running import expected_text
from sexton.interfaces.cli.signals import SignalTarget, send_signal
from sexton.interfaces.cli.watching import watch_one
from sexton.interfaces.wording import excluded_vaults, first_line, freed, time_left, utc, utc_column
from sexton.recycle.rounds.model import RecycleRequest

if TYPE_CHECKING:
    from sexton.insight.views import RoundCounts
    from sexton.recycle.rounds.row import RoundRow

app = typer.Typer(help="Rounds.", no_args_is_help=True)
Instance = Annotated[str, typer.Argument(help="The instance.")]
AFTER_PAGE = "after the page that it is deleting now"


@app.command("list")
def list_(
    instance: Annotated[str | None, typer.Argument(help="Only this instance's.")] = None,
    last: Annotated[int, typer.Option(min=1, max=10_000, help="How many, the newest first.")] = 20,
) -> None:
    """Print the newest rounds.

    Example: sexton round list shop --last 5
    """
    with open_database() as service:
        if instance is not None:
            service.stores.registry.instance(instance)
        rounds = service.stores.reports.rounds(instance, last + 1)
    if wants_json():
        emit_list(rounds[:last], more=len(rounds) > last)
        return
    columns = ("round", "instance", "state", "began (UTC)", "took", "deleted", "freed", "note")
    show_table("" if rounds else "no round yet", columns, [_row(r) for r in rounds[:last]])


def _row(r: "RoundRow") -> tuple[object, ...]:
    took = f"{(r.ended_at - r.started_at) / 1000:,.0f} s" if r.ended_at is not None else "-"
    times = (utc_column(r.started_at), took)
    if r.report is None:
        return r.id, r.instance, r.state, *times, "", "", first_line(r.waiting or "")
    note = r.report.error or ("observed only" if r.report.observed else excluded_vaults(r.report))
    size = r.report.bytes_freed + r.report.bytes_estimated
    numbers = (r.report.deleted, freed(size, r.report.size_unknown))
    return r.id, r.instance, r.report.state, *times, *numbers, first_line(note)


@app.command("show")
def show_(
    number: Annotated[int, typer.Argument(metavar="ROUND", help="The round's number.", min=1, max=2**63 - 1)],
    watch: Annotated[bool, typer.Option("--watch", help="Show how far it is, each second, until it ends.")] = False,
) -> None:
    """Print the report of one round, or how far it is.

    Example: sexton round show 12 --watch
    """
    from sexton.insight.progress import NOTHING, round_progress

    with open_database() as service:
        if watch and not wants_json():
            watch_one(service, "round", service.stores.reports.round(number).id)
        row = service.stores.reports.round(number)
        counts = round_progress(service.db, number) if row.report is None else NOTHING
    if wants_json():
        emit(row, progress=stable(counts) if row.report is None else None)
    elif row.report is not None:
        show_report(row.report)
    else:
        _show_without_report(row, counts)


def _show_without_report(row: "RoundRow", counts: "RoundCounts") -> None:
    typer.echo(f"round {row.id} of {row.instance}: {row.state}, begun {utc(row.started_at)}, no report")
    columns = ("kind", "due", "claimed", "removed", "planned objects", "listed", "gone")
    kinds = [
        (k.kind, k.due, k.claimed, k.removed, f"{'~' if k.estimated else ''}{k.planned:,}", k.listed, k.objects)
        for k in counts.kinds
    ]
    show_table("", columns, kinds)
    if counts.expected:
        typer.echo(f"{counts.objects:,} of {expected_text(counts)} objects gone{time_left(counts.seconds_left)}")
    if row.waiting:
        typer.echo(f"it has had no lease since {utc(row.waiting_since)}: {row.waiting}")
    elif row.ended_at is not None:
        typer.echo("it was cut off; a later round took over and finished the marks that it had claimed")


@app.command("run")
def run(given: OptionalInstance = None) -> None:
    """Start one round now and print its report.

    The round has a plan of its own. An observing instance deletes nothing.

    Ctrl-C stops waiting, not the round.

    Example: sexton round run shop
    """
    from sexton.interfaces.cli.running import run_round
    from sexton.operators.controls.store import whoami

    with open_database() as service:
        instance = named_or_only(service, given)
        request = RecycleRequest(instance=instance, requested_by=whoami())
        with log_call(service, "round run", instance):
            service.stores.registry.instance(instance)
            service.stores.controls.admit(instance)
            report = run_round(service, request, watch=not wants_json())
    end(report)


@app.command("cancel")
def cancel(given: OptionalInstance = None) -> None:
    """End the running round after its page.

    It ends with a report; the next round finishes the marks that it claimed.

    Example: sexton round cancel shop
    """
    _signal(given, "cancel", f"it ends {AFTER_PAGE}; see: sexton round list {{instance}}")


@app.command("pause")
def pause(given: OptionalInstance = None) -> None:
    """Pause the running round after its page.

    It has no lease until `resume`.

    Example: sexton round pause shop
    """
    _signal(given, "pause", f"it pauses {AFTER_PAGE}, until: sexton round resume {{instance}}")


@app.command("resume")
def resume(given: OptionalInstance = None) -> None:
    """Resume a paused round where it stopped, under a new lease.

    Example: sexton round resume shop
    """
    _signal(given, "resume", "it continues as soon as it has a lease")


@app.command("retry")
def retry(given: OptionalInstance = None) -> None:
    """Let a round that is backing off try its failed kinds now.

    Example: sexton round retry shop
    """
    _signal(given, "retry", "if it is backing off, it tries again now")


def _signal(given: str | None, signal: str, effect: str) -> None:
    from sexton.runtime.temporal.rounds import ROUNDS

    with open_database() as service:
        instance = one_instance(service, given)
        effect = effect.format(instance=instance)
        send_signal(service, SignalTarget(ROUNDS, instance), signal, effect)
