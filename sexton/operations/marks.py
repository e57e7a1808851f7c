"""Marks: what owners declared to be garbage, those that rounds gave up for now; commits that name objects again."""

from typing import Annotated, Literal

from pydantic import Field

from sexton.insight.marks import STATES, MarkFilter
from sexton.insight.views import MarkPage
from sexton.kernel.errors import WrongUsage
from sexton.kernel.message import Message, Page, StrictMessage
from sexton.marks.model import Reason as MarkReason
from sexton.marks.model import Ref
from sexton.operations.fields import ROWS, Covered, Flag, Instance, MarkName, Names, Reason
from sexton.operations.plans import Kind, Place, Size, Under
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.recycle.model import Unconfirmed
from sexton.recycle.pipeline.model import Quarantined

QUARANTINE_PATH = "/v1/instances/{instance}/quarantine"
ReasonFilter = Annotated[
    MarkReason | None, Flag("--reason", "REASON"), Field(description="Only marks with this reason, e.g. DELETE_FAILED.")
]


class Retried(Message):
    """How many marks the next round tries again. ``left``: how many with reason CHANGED stay quarantined."""

    marks: int
    left: int = 0


class CommitOrder(StrictMessage):
    """What a commit is about to name. ``seconds``: it ends after these at the latest."""

    objects: Annotated[Names, Field(min_length=1, description="Each as VAULT/KEY or a URL.")]
    seconds: Annotated[int, Field(ge=1, le=3_600)] = 600


class AdmittedCommit(Message):
    """A commit that may go on now. ``commit``: its id."""

    commit: str


def parse_ref(mark: str) -> Ref:
    """Return the mark that ``KIND/ID`` names."""
    return Ref(*mark.split("/", 1))


@operation("marks list", "GET /v1/instances/{instance}/marks", Grant.READ, READS)
def marks(
    call: Call,
    instance: Instance,
    *,
    kind: Kind = "",
    state: Annotated[
        Literal["WAITING", "CLAIMED", "QUARANTINED", "FENCED"] | None, Field(description="Only marks in this state.")
    ] = None,
    parent: Annotated[MarkName | None, Field(description="Only marks that name this parent.")] = None,
    under: Under = "",
    limit: Size = 100,
    after: Place = "",
) -> MarkPage:
    """Print marks: state, age, when each is due, its parent, its files.

    First those that wait, by kind and in the order in which they become due; then claimed ones, then quarantined ones.
    Marks that are FENCED wait, too: their owner refuses to commit them. Of what blocks a mark: sexton why ID.

    Example: sexton marks list shop --kind dropped --parent table/12
    """
    if parent and state:
        raise WrongUsage("--parent lists marks in every state; leave --state out")
    listed, ref = STATES[state] if state else None, parse_ref(parent) if parent else None
    which = MarkFilter(instance, kind, listed, ref, under=call.deployment.places_of(instance, under))
    return call.deployment.marks(which, after, limit)


@operation("quarantine list", f"GET {QUARANTINE_PATH}", Grant.READ, READS)
def quarantine(call: Call, instance: Covered = None, *, cause: ReasonFilter = None) -> Page[Quarantined]:
    """Print quarantined marks and their reasons.

    `quarantine retry` retries marks, `quarantine discard` gives one up.

    Example: sexton quarantine list shop --reason DELETE_FAILED
    """
    rows = call.stores.quarantine.list(instance, cause, limit=ROWS + 1)
    return Page[Quarantined](items=tuple(rows[:ROWS]), more=len(rows) > ROWS)


def _retried(
    mark: str | None, cause: MarkReason | None, *, everything: bool, deletes_current: bool, **_: object
) -> str:
    """Return what the log of calls has."""
    what = mark or cause or ("all" if everything else "")
    return f"{what}, also objects that were overwritten" if deletes_current else str(what)


@operation("quarantine retry", f"POST {QUARANTINE_PATH}/retry", Grant.OPERATE, Logged(_retried, once=True))
def retry_quarantined(
    call: Call,
    instance: Instance,
    mark: Annotated[MarkName | None, Field(description="One mark.")] = None,
    *,
    cause: ReasonFilter = None,
    everything: Annotated[bool, Flag("--all"), Field(description="All of the instance, except CHANGED.")] = False,
    deletes_current: Annotated[
        bool, Field(description="Marks with reason CHANGED may delete the objects that exist now.")
    ] = False,
) -> Retried:
    """Let the next round try marks again. Repeatable.

    One mark, those with a reason, or all of the instance. Marks with reason CHANGED need --deletes-current, and --all
    leaves them out: an object was overwritten after it was marked, and a retry deletes the object that exists now.

    Example: sexton quarantine retry shop --reason DELETE_FAILED
    """
    if (mark is not None) + (cause is not None) + everything != 1:
        raise WrongUsage("name one mark as KIND/ID, or --reason, or --all (everything); exactly one of them")
    if everything and deletes_current:
        raise WrongUsage(
            "--all leaves marks with reason CHANGED out; to retry them: --reason CHANGED --deletes-current"
        )
    store, ref = call.stores.quarantine, parse_ref(mark) if mark else None
    may_be_changed = cause in (None, MarkReason.CHANGED) and not (everything or deletes_current)
    if may_be_changed and store.list(instance, MarkReason.CHANGED, ref, limit=1):
        raise Unconfirmed(
            "an object was overwritten after its mark: a retry deletes the object that exists now. If that is "
            f"intended, repeat it with --deletes-current (deletes_current); see: sexton quarantine list {instance}"
        )
    # Also a mark that became CHANGED after it was looked at stays: nobody has confirmed its retry.
    marks = store.retry(instance, ref=ref, reason=cause, but=None if deletes_current else MarkReason.CHANGED)
    if not everything:
        return Retried(marks=marks)
    from sexton.recycle.planning.sql.measure import count_quarantined

    with call.deployment.db.read() as c:
        left = count_quarantined(call.deployment.db, c, instance).get(MarkReason.CHANGED)
    return Retried(marks=marks, left=left.marks if left else 0)


@operation(
    "quarantine discard", f"POST {QUARANTINE_PATH}/discard", Grant.OPERATE, Logged("{mark}", asks=True, once=True)
)
def discard(call: Call, instance: Instance, mark: MarkName, *, reason: Reason) -> Quarantined:
    """Give a mark up.

    Its record is deleted, and Sexton never deletes what is left of its files. A mark that waits for its second pass may
    be given up, too, after an undelete that this pass would undo.

    Example: sexton quarantine discard shop dropped/t12 --reason 'removed by hand'
    """
    return call.deployment.discard(instance, parse_ref(mark), reason)


@operation(
    "commit admit",
    "POST /v1/instances/{instance}/commits",
    Grant.COMMIT,
    Logged(routine=True, once=True),
    is_large=True,
)
def admit_commit(call: Call, instance: Instance, body: CommitOrder) -> AdmittedCommit:
    """Admit a commit that is about to name objects; COLLECTED if one of them is being deleted: then do not commit.

    Until it ends no round deletes them. End it when the commit has succeeded or failed; if its outcome is unknown,
    leave it: it ends after its seconds, which must be longer than any answer of the catalog takes.
    """
    from sexton.protection.policy import canonical

    vaults = {vault.name: vault for vault in call.stores.registry.vaults(instance)}
    objects = [canonical(name, vaults) for name in body.objects]
    return AdmittedCommit(commit=call.stores.commits.admit(instance, [(o.vault, o.key) for o in objects], body.seconds))


@operation(
    "commit end",
    "DELETE /v1/instances/{instance}/commits/{commit}",
    Grant.COMMIT,
    Logged("{commit}", routine=True, reserved=True),
    is_for_programs=True,
)
def end_commit(
    call: Call, instance: Instance, commit: Annotated[str, Field(max_length=64, pattern="^[0-9a-f]+$")]
) -> None:
    """Say that a commit has succeeded or failed; repeatable."""
    call.stores.commits.end(instance, commit)
