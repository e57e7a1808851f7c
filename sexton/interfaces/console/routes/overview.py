"""Show whether all is well, what each instance does, what waits and what blocks it; stop and start, from every page."""

from starlette.responses import Response

from sexton.insight.progress import read_running
from sexton.insight.status import log_problems, problems, sentence, worst_first
from sexton.insight.views import ALL_INSTANCES, KindStatus
from sexton.insight.wording import shown_names
from sexton.interfaces.api.pools import reserved
from sexton.interfaces.console.latest import answer_or_none, wait_briefly
from sexton.interfaces.console.visit import CurrentVisit, Visit, pages
from sexton.marks.kept import Severity
from sexton.operations.control import NO_REASON
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.operators.controls.model import ALL, ControlKind
from sexton.runtime.blockers.listing import BlockerList


@pages.get("")
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
    sees_logs = only is None and visit.caller.permits(Grant.READ, EVERY_INSTANCE)
    logs = [latest.logs.ask("all")] if sees_logs else []
    wait_briefly([*questions, blockers, *logs])
    halts = visit.halts
    if only is not None:
        questions[0].answer()  # raises why there is none
    answers = {name: answer_or_none(question) for name, question in zip(names, questions, strict=True)}
    statuses = [i.model_copy(update={"halt": halts.get(i.instance)}) for i in answers.values() if i is not None]
    known = {i.instance: worst_first(problems(i)) for i in statuses}
    statuses.sort(key=lambda i: min((row.severity for row in known[i.instance]), default=Severity.OTHER))
    figures = [answer_or_none(question) for question in logs]
    rows = [row for of in (*known.values(), *(log_problems(*f) for f in figures if f is not None)) for row in of]
    rows += service.ignored_settings(only) if sees_logs or only is not None else []
    rows += service.ended_tokens() if sees_logs and visit.caller.permits(Grant.ADMIN, EVERY_INSTANCE) else []
    listed: BlockerList | None = answer_or_none(blockers)
    if not sees_logs and listed is not None:  # those of its own topics and binlogs
        rows += [b for b in listed.logs if b.instance in names]
    severities = {row.severity for row in rows} - {Severity.OTHER}
    uncounted = [name for name, answer in answers.items() if answer is None]
    unknown = [*uncounted, *("topics and binlogs" for f in figures if f is None)]
    text, tone = sentence(rows, statuses), "warn" if severities or unknown else "good"
    if not all(severity.is_ordered for severity in severities):
        tone = "bad"
    elif unknown:
        text = f"It is not known yet whether all is well; not counted yet: {', '.join(unknown)}"
    running = [work for work in read_running(service.db, only) if work.instance in names]
    return visit.show(
        "overview.html",
        "overview",
        cli=f"sexton status {only}" if only else "sexton status",
        sentence=text,
        tone=tone,
        known=known,
        statuses=statuses,
        columns=[
            (name, shown)
            for name, shown in shown_names(KindStatus).items()
            if name not in ("kind", "waiting_is", "note")
        ],
        uncounted=uncounted,
        running=running,
        blockers=None if listed is None else [b for b in listed.rows if b.instance in (*names, ALL_INSTANCES)],
        temporal_away=listed is not None and listed.temporal_away,
        prices=service.settings.prices,
    )


@pages.post("/stop")
@reserved
def stop(visit: CurrentVisit) -> Response:
    """Stop deletion in one instance, or in all."""
    everything = bool(visit.form.get("everything"))
    reason, instance = visit.form.get("reason") or NO_REASON, None if everything else visit.instance
    return visit.sent("stop", "", reason=reason, everything=everything, instance=instance)


@pages.get("/banners")
def banners(visit: CurrentVisit) -> Response:
    """Return what is stopped now, for a page that is open."""
    return visit.show("banners.html", "overview")


@pages.get("/start")
def ask(visit: CurrentVisit, everything: bool = False) -> Response:
    """Ask before deletion starts again, with what is due."""
    visit.caller.require(Grant.OPERATE, EVERY_INSTANCE if everything else visit.instance)
    names = visit.instances if everything else [visit.instance]
    questions = [visit.request.app.state.statuses.ask(name) for name in names]
    wait_briefly(questions)
    statuses = {name: answer_or_none(question) for name, question in zip(names, questions, strict=True)}
    cli = "sexton start --all" if everything else f"sexton start {visit.instance}"
    stop = _stop_shown(visit, everything)
    return visit.show(
        "start.html", "overview", cli=cli, names=names, statuses=statuses, everything=everything, stop=stop
    )


@pages.post("/start")
def start(visit: CurrentVisit) -> Response:
    """Revoke the stop that the page showed."""
    everything = bool(visit.form.get("everything"))
    visit.caller.require(Grant.OPERATE, EVERY_INSTANCE if everything else visit.instance)
    other = "the stop is another one by now than the page showed; read it, then start again"
    visit.agreed("stop", _stop_shown(visit, everything), other)
    return visit.sent("start", "", everything=everything, instance=None if everything else visit.instance)


def _stop_shown(visit: Visit, everything: bool) -> str:
    """Return what identifies the stop of the page, so that a later stop differs; empty: there is none."""
    name = ALL if everything else visit.instance
    stops = [c for c in visit.service.stores.controls.all() if c.kind is ControlKind.STOP and c.name == name]
    return ",".join(f"{stop.since}-{stop.set_at}" for stop in stops)
