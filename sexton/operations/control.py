"""What is stopped, what blocks deletions, why an object still exists, and who did what."""

from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from config.settings import Settings
from sexton.insight.metrics.model import WalFigures
from sexton.insight.views import Overview, RunningWork, Story
from sexton.kernel.errors import WrongUsage
from sexton.kernel.message import Message, Page
from sexton.marks.kept import Blocker
from sexton.operations.fields import Before, Covered, Flag, Length, Limit, Reason, Remark, page
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operations.tokens import ShownToken
from sexton.operations.tokens import shown as shown_token
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.operators.call_log import CallRecord
from sexton.operators.controls.model import ALL, Control, ControlKind
from sexton.recycle.pacing.model import Cap, PlaceFigures
from sexton.recycle.pacing.policy import vault_of
from sexton.replication.binlog.model import LogCounts
from workflows import ids

NO_REASON = "no reason was given"

Everything = Annotated[bool, Flag("--all"), Field(description="Every instance.")]


class Status(Overview):
    """Every instance, and of a whole deployment also topics, binlogs and tokens that end soon.

    ``sentence``: whether all is well, else the worst problem and its way out. ``temporal``: the address of the Temporal
    UI; empty: none is known. ``links``: there, of each running work. ``expiring_tokens``: only to an administrator.
    """

    sentence: str = ""
    running: tuple[RunningWork, ...]
    links: tuple[str, ...] = ()
    topics: WalFigures | None = None
    binlogs: LogCounts | None = None
    expiring_tokens: tuple[ShownToken, ...] = ()
    temporal: str = ""


class StopResult(Message):
    """The state after a stop or a start.

    ``before``: stops of the same name that were there before. ``halts``: what still blocks deletion, by instance.
    """

    instance: str
    stopped: bool
    before: tuple[Control, ...] = ()
    halts: dict[str, str] = Field(default_factory=dict)


class Blockers(Page[Blocker]):
    """What blocks deletions now. ``temporal_away``: what only Temporal knows is missing, because it did not answer."""

    temporal_away: bool = False


class Stories(Page[Story]):
    """What is known of a key or an id. ``hint``: where more may be known; empty: nowhere."""

    hint: str = ""


class Paces(Message):
    """How fast each place is deleted from, and the caps of vaults."""

    places: tuple[PlaceFigures, ...]
    caps: tuple[Cap, ...]


@operation("status", "GET /v1/status", Grant.READ, READS)
def status(call: Call, instance: Covered = None) -> Status:
    """Print every instance on one screen.

    Whether all is well, or the worst problem with its way out; then what is running, waiting, due, kept and
    quarantined. Needs neither Temporal nor vaults. Of one instance: without topics, binlogs and tokens.

    Example: sexton status --watch
    """
    from sexton.insight.progress import read_running
    from sexton.insight.status import log_problems, sentence

    deployment = call.deployment
    overview, running = deployment.status(instance), tuple(read_running(deployment.db, instance))
    ui = deployment.settings.temporal.ui_url
    links = tuple(link_of(deployment.settings, work) for work in running) if ui else ()
    shown = dict(overview) | {"running": running, "temporal": ui, "links": links}
    known = deployment.problems_of(overview.instances, instance)
    if instance is None:
        topics, binlogs = call.stores.log_figures()
        known += log_problems(topics, binlogs)
        may_see_tokens = call.caller.permits(Grant.ADMIN, EVERY_INSTANCE)
        ended, expiring = call.stores.tokens.ending() if may_see_tokens else ((), ())
        known += deployment.ended_tokens(ended)
        shown |= {"topics": topics, "binlogs": binlogs, "expiring_tokens": tuple(map(shown_token, expiring))}
    else:
        from sexton.runtime.blockers.logs import binlog_blockers, topic_blockers

        known += [*topic_blockers(deployment, instance), *binlog_blockers(deployment, instance)]
    return Status(**shown, sentence=sentence(known, overview.instances))


@operation("stop", "POST /v1/instances/{instance}/stop /v1/stop", Grant.OPERATE, Logged(keeps=True, reserved=True))
def stop(
    call: Call, instance: Covered = None, *, reason: Reason = NO_REASON, everything: Everything = False
) -> StopResult:
    """Stop deletion of one instance or of all, within 5 s.

    The stop takes effect after the current page. Claimed marks stay claimed, and are finished after `sexton start`.
    Repeatable; needs no Temporal.

    Example: sexton stop shop --reason 'restoring a backup'
    """
    name = _scope(instance, everything)
    controls = call.stores.controls
    before = tuple(c for c in controls.all() if c.kind is ControlKind.STOP and c.name == name)
    controls.put(ControlKind.STOP, name, reason, call.by)
    return StopResult(instance=name, stopped=True, before=before)


@operation("start", "POST /v1/instances/{instance}/start /v1/start", Grant.OPERATE)
def start(call: Call, instance: Covered = None, *, everything: Everything = False, reason: Remark = "") -> StopResult:
    """Undo a stop, and show what else still stops the instance. Repeatable; needs no Temporal.

    Example: sexton start shop
    """
    name, registry, controls = _scope(instance, everything), call.stores.registry, call.stores.controls
    names = [i.id for i in registry.instances()] if instance is None else [instance]
    before = tuple(c for c in controls.all() if c.kind is ControlKind.STOP and c.name == name)
    controls.remove(ControlKind.STOP, name)
    with call.deployment.db.read() as c:
        halts = {i: str(halt) for i in names if (halt := controls.halt(c, i)) is not None}
    return StopResult(instance=name, stopped=False, before=before, halts=halts)


def _scope(instance: str | None, everything: bool) -> str:
    if (instance is None) == (not everything):
        raise WrongUsage("name an instance, or --all (everything) for every instance; exactly one of the two")
    return ALL if instance is None else instance


@operation("blockers", "GET /v1/blockers", Grant.READ, READS)
def blockers(call: Call, instance: Covered = None) -> Blockers:
    """List everything that blocks deletions now, the worst first.

    Faults and failures of the last rounds, quarantined marks, an overdue round, a missing schedule or worker, waiting
    rounds and runs, stops, lists, windows, plans to approve, holds, protections, regions, replays, consumers, followers
    and replicas, incomplete checks, and what else blocked marks in each instance's last round. All but the schedule,
    workers and waiting runs comes from the database.

    Example: sexton blockers shop
    """
    from sexton.runtime.blockers.listing import list_blockers

    listed = list_blockers(call.deployment, instance)
    return Blockers(items=tuple(listed.rows), temporal_away=listed.temporal_away)


@operation("why", "GET /v1/why", Grant.READ, Logged(changes=False, long=True))
def why(
    call: Call,
    key: Annotated[
        str, Flag(shown="KEY|ID"), Field(min_length=1, max_length=2_048, description="An object's key, or a mark's id.")
    ],
    *,
    instance: Covered = None,
    deep: Annotated[
        bool, Field(description="Search every day of the audit for marks that SQL no longer contains.")
    ] = False,
    last: Annotated[
        Length, Flag("--last", "DURATION"), Field(description="With --deep: only the days since then.")
    ] = 0,
) -> Stories:
    """Explain one object or mark.

    Whether it is live, when it was marked and is due, what blocks it, where it was claimed, and when it was deleted.
    SQL contains deleted marks for 30 days; the audit, which --deep searches, contains them for longer.

    Example: sexton why data/12/ab34_0.dat
    """
    if last and not deep:
        raise WrongUsage("--last goes with --deep: SQL is always searched completely")
    if not key.strip():
        raise WrongUsage("the name is empty; write an object's key, its URL, or a mark's id")
    if "\0" in key or key != key.encode(errors="replace").decode():
        raise WrongUsage(f"{key!r} is not text, so it cannot be a key or an id")
    stories, hint = call.deployment.stories(key, instance, deep=deep, last_seconds=last)
    return Stories(items=tuple(stories), hint=hint)


@operation("log", "GET /v1/log", Grant.READ, READS)
def call_log(
    call: Call,
    *,
    instance: Covered = None,
    who: Annotated[
        str, Flag(shown="NAME"), Field(max_length=200, description="Only of callers whose name contains this.")
    ] = "",
    after: Before = None,
    limit: Limit = 50,
) -> Page[CallRecord]:
    """Print who did what, the newest first.

    Actions that delete, block or configure something, including those that were refused; the rounds that workers
    began only with --who worker. An action is recorded before it is done. Outcome `asked`: its end was not recorded;
    `LEFT`: the caller did not wait for its end (Ctrl-C). Calls that programs repeat all the time (heartbeats, reports,
    renewals) are recorded only if they are refused. Records are kept for 400 days.

    `--follow --json` prints each row as one line of JSON, as it was stored, for a program that collects logs; `--since`
    resumes behind a row, 0 is the beginning.

    Example: sexton log --instance shop
    """
    calls = call.stores.calls.last(limit + 1, instance, who, before=after, works=bool(who))
    return Page[CallRecord](**page(calls, limit))


@operation("pace", "GET /v1/pace", Grant.READ, READS)
def pace(call: Call) -> Paces:
    """Print how fast each place is deleted from, and the caps of vaults; needs no Temporal.

    The rate of a place (a vault, or a first folder in it) is learned from the requests that its store refuses. To bound
    it: sexton vault cap. To delete nothing at all: sexton stop.

    Example: sexton pace
    """
    vaults, endpoint = call.stores.registry.vaults(), call.deployment.settings.s3.endpoint_url
    places = (
        f.model_copy(update={"vault": "/".join(vault_of(f.place, vaults, endpoint) or ())})
        for f in call.stores.paces.figures()
    )
    return Paces(places=tuple(places), caps=tuple(call.stores.paces.caps()))


def link_of(settings: Settings, work: RunningWork) -> str:
    """Return the address of the workflow that does a running work; empty where no UI is known."""
    temporal, deployment = settings.temporal, settings.require_deployment()
    if not temporal.ui_url:
        return ""
    workflow_id = {
        "round": ids.recycle(deployment, work.instance),
        "check": ids.check(deployment, work.instance),
        "purge": ids.purge_wal(deployment, work.name),
    }[work.work]
    return f"{temporal.ui_url.rstrip('/')}/namespaces/{temporal.namespace}/workflows/{quote(workflow_id, safe='')}"
