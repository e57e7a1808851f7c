"""The first page: what each instance does, what waits, what blocks it, and what needs an answer."""

from fastapi import APIRouter
from starlette.responses import Response

from sexton.insight.progress import read_running
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.latest import answer_or_none, wait_briefly
from sexton.interfaces.console.visit import CurrentVisit
from sexton.operators.access.model import Grant
from sexton.runtime.blockers.listing import BlockerList
from sexton.runtime.blockers.work import ALL_INSTANCES

routes = APIRouter(prefix=session.PATH, route_class=GuardedPage)


@routes.get("")
def overview(visit: CurrentVisit) -> Response:
    """Show one instance, or every one that the caller may see."""
    only = visit.named
    if only is not None:
        visit.caller.require(Grant.READ, only)
    service = visit.service
    names = [only] if only is not None else visit.instances
    latest = visit.request.app.state
    questions = [latest.statuses.ask(name) for name in names]
    blockers = latest.blockers.ask("all")
    wait_briefly([*questions, blockers])
    halts = visit.halts
    if only is not None:
        questions[0].answer()  # raises why there is none
    answers = {name: answer_or_none(question) for name, question in zip(names, questions, strict=True)}
    statuses = [i.model_copy(update={"halt": halts.get(i.instance)}) for i in answers.values() if i is not None]
    running = [work for work in read_running(service.db, only) if work.instance in names]
    listed: BlockerList | None = answer_or_none(blockers)
    return visit.show(
        "overview.html",
        "overview",
        cli=f"sexton status {only}" if only else "sexton status",
        statuses=statuses,
        uncounted=[name for name, answer in answers.items() if answer is None],
        running=running,
        blockers=None if listed is None else [b for b in listed.rows if b.instance in (*names, ALL_INSTANCES)],
        temporal_away=listed is not None and listed.temporal_away,
        prices=service.settings.prices,
    )
