"""Marks: the story of one, and those that rounds gave up for now."""

import shlex

from starlette.responses import Response

from sexton.insight.views import MarkPage, Story
from sexton.insight.wording import quantity
from sexton.interfaces.api.pools import long
from sexton.interfaces.console.visit import CurrentVisit, pages
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import Grant
from sexton.recycle.planning.sql.measure import count_quarantined

MAX_NAME, SHOWN = 2_048, 100


@pages.get("/why")
@long
def why(visit: CurrentVisit, key: str = "") -> Response:
    """Show the story of a key or an id as a timeline."""
    if len(key) > MAX_NAME:
        raise BadInput(f"a key or an id has up to {MAX_NAME:,} characters, this one has {len(key):,}")
    stories: tuple[Story, ...] = ()
    if visit.named is not None:
        visit.caller.require(Grant.READ, visit.named)
    if key:
        stories = visit.ask("why", key=key, instance=visit.named).items
    cli = f"sexton why {shlex.quote(key) if key else 'KEY'}" + (f" --instance {visit.named}" if visit.named else "")
    return visit.show("why.html", "why", cli=cli, key=key, stories=stories)


@pages.get("/quarantine")
def quarantine(visit: CurrentVisit, after: str = "") -> Response:
    """Show the reasons of quarantined marks, and those of one instance."""
    names = visit.instances if visit.scope is None else [visit.scope]
    with visit.service.db.read() as c:
        reasons = {name: count_quarantined(visit.service.db, c, name) for name in names}
    listed = MarkPage(items=())
    if visit.scope is not None:
        listed = visit.ask("marks list", state="QUARANTINED", after=after[:2_048], limit=SHOWN)
    return visit.about(
        "quarantine", "sexton quarantine list", reasons=reasons, marks=listed.items, following=listed.next
    )


@pages.post("/quarantine/retry")
def retry(visit: CurrentVisit) -> Response:
    """Let the next round try marks again."""
    visit.caller.require(Grant.OPERATE, visit.instance)
    with visit.service.db.read() as c:
        counted = count_quarantined(visit.service.db, c, visit.instance).get(visit.form.get("cause", ""))
    # To retry CHANGED deletes objects that exist now: only as many as were shown.
    if visit.form.get("deletes_current") and counted is not None:
        what = f"{quantity(counted.marks, 'mark')} with reason {visit.form.get('cause')}"
        visit.agreed("marks", counted.marks, f"{what} are quarantined by now, not as many as the page showed")
    return visit.sent("quarantine retry", "quarantine")
