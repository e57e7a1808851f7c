"""What is deleted now and what was: rounds, live, and the signals to a running one."""

from typing import Literal

from starlette.responses import Response

from sexton.insight.views import RunningWork
from sexton.interfaces.api.routes import rounds as api
from sexton.interfaces.console import rendering
from sexton.interfaces.console.routes.vaults import places_of, rate_limits
from sexton.interfaces.console.visit import CurrentVisit, pages
from sexton.operations.control import link_of
from sexton.operations.fields import Before
from sexton.recycle.model import RoundEnded

SHOWN = 20
SILENCE_MS = 10_000
"""A round whose worker renewed nothing for this long may have lost it: it renews its lease every three seconds."""


@pages.get("/rounds")
def rounds(visit: CurrentVisit, after: Before = None) -> Response:
    """Show the rounds of an instance, or of all, the newest first."""
    listed = visit.ask("round list", instance=visit.scope, after=after, limit=SHOWN)
    return visit.about(
        "rounds",
        "sexton round list",
        rounds=listed.items,
        following=listed.next,
        is_newest=after is None,
    )


@pages.get("/rounds/{round}")
def show(visit: CurrentVisit, round: int) -> Response:
    """Show one round: its report, or how far it is."""
    details = visit.ask("round show", round=round)
    row, instance = details.round, details.round.instance
    specs = [] if row.ended_at else visit.service.stores.registry.vaults(instance)
    caps = visit.service.stores.paces.caps(instance) if specs else ()
    rates = {f"{cap.instance}/{cap.vault}": cap.keys_per_second for cap in caps}
    limits = rate_limits(places_of(visit, specs), rates) if specs else {}
    # A vault without a limit may be deleted from at any rate: then no sum bounds the round.
    allowed = sum(limit.keys_per_second for limit in limits.values()) if len(limits) == len(specs) else 0
    work = RunningWork(work="round", instance=instance, name=str(row.id), since=row.started_at, elapsed_ms=0)
    return visit.show(
        "round.html",
        "rounds",
        cli=f"sexton round show {round}",
        instance=instance,
        round=row,
        progress=details.progress,
        worked_at=details.worked_at,
        silence_ms=SILENCE_MS,
        limits=limits,
        allowed=allowed,
        temporal="" if row.ended_at is not None else link_of(visit.service.settings, work),
    )


@pages.get("/rounds/{round}/deletions")
async def deletions(visit: CurrentVisit, round: api.Number) -> Response:
    """Return the objects that a round tried to delete, as a file."""
    answer = await api.deletions(round, visit.request, visit.service, visit.caller)
    answer.headers.update(rendering.HEADERS)
    return answer


@pages.post("/rounds/{signal}")
def send(visit: CurrentVisit, signal: Literal["cancel", "pause", "resume", "retry"]) -> Response:
    """Signal the running round."""
    newest = visit.service.stores.reports.rounds(visit.instance, last=1)
    number = visit.form.get("round", "")  # a page may be older
    if not newest or newest[0].ended_at is not None or str(newest[0].id) != number:
        raise RoundEnded(f"round {number[:20]} of {visit.instance} does not run now; look at its rounds again")
    return visit.sent(f"round {signal}", "rounds")
