"""Holds: until a hold ends, no mark that it covers is claimed."""

from typing import Annotated

from pydantic import Field

from sexton.kernel.errors import WrongUsage
from sexton.kernel.message import Message, Page
from sexton.operations.fields import (
    MAX_NUMBER,
    Before,
    Covered,
    Flag,
    Instance,
    Length,
    Limit,
    MarkName,
    Reason,
    Remark,
    Text,
    Whole,
    page,
)
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.operators.holds.model import Hold

HOLDS_PATH = "/v1/instances/{instance}/holds"
HoldNumber = Annotated[Whole, Flag(shown="HOLD"), Field(ge=1, le=MAX_NUMBER, description="The hold's number.")]
TABLE = "table"
"""The kind under which owners name a table as the ancestor of its marks."""


class PlacedHold(Message):
    """A hold that was placed. ``too_late``: how many of its marks are claimed already, whose deletion goes on.

    ``blocks_now``: how many marks it blocks now, without those whose files only their owner names; ``matches_now``: how
    many of them match it, and are not only blocked because they have too many ancestors. None: counting takes too long.
    ``may_block``: marks whose prefix covers the one of the hold, which it blocks only if files are found under it;
    None as above.
    """

    hold: Hold
    too_late: int
    blocks_now: int | None = None
    matches_now: int | None = None
    may_block: int | None = None


class Holds(Page[Hold]):
    """Holds, the newest first. ``now_at``: the database's time."""

    now_at: int


def _held(table: str | None, mark: str | None, prefix: str | None, **_: object) -> str:
    """Return what the log of calls has: what is held."""
    given = ("table", table), ("mark", mark), ("prefix", prefix)
    return "; ".join(f"{scope} {what}" for scope, what in given if what) or "the whole instance"


@operation("hold add", f"POST {HOLDS_PATH}", Grant.OPERATE, Logged(_held, keeps=True, reserved=True, once=True))
def hold(
    call: Call,
    instance: Instance,
    *,
    table: Annotated[
        Text | None,
        Flag(shown="ID"),
        Field(description="A table, as the owner's marks name it, and all marks below it."),
    ] = None,
    mark: Annotated[
        MarkName | None,
        Field(description="A mark, e.g. dropped/t12, or a parent of marks, e.g. release/app-1; and all below."),
    ] = None,
    prefix: Annotated[
        Text | None,
        Flag(shown="VAULT/PREFIX"),
        Field(description="Marks with a file whose key, in its vault, begins so."),
    ] = None,
    seconds: Length,
    reason: Reason,
) -> PlacedHold:
    """Hold a table, a mark or a prefix; without any of them: everything of the instance.

    A hold cannot stop marks that are claimed already. It needs only the database.

    Example: sexton hold add shop --table 12 --for 7d --reason 'wrong drop?'
    """
    if bool(table) + bool(mark) + bool(prefix) > 1:
        raise WrongUsage("hold one thing: --table, --mark or --prefix; without any of them everything is held")
    hold = Hold(instance=instance, scope="instance", placed_by=call.by, reason=reason)
    if table or mark:
        kind, _, id_ = (mark or f"{TABLE}/{table}").partition("/")
        hold = hold.model_copy(update={"scope": "mark", "mark_kind": kind, "mark_id": id_})
    if prefix:
        vault, _, key = prefix.partition("/")
        if not (vault and key):
            raise WrongUsage(f"{prefix!r} names no prefix; write VAULT/PREFIX; to hold all: sexton hold add {instance}")
        hold = hold.model_copy(update={"scope": "prefix", "vault": vault, "prefix": key})
    placed, too_late = call.stores.holds.place(hold, seconds)
    covers = call.stores.holds.count_blocked(placed)
    if covers is None:
        return PlacedHold(hold=placed, too_late=too_late)
    counts = {"blocks_now": covers.blocked, "matches_now": covers.matching, "may_block": covers.above}
    return PlacedHold(hold=placed, too_late=too_late, **counts)


@operation("hold list", f"GET {HOLDS_PATH}", Grant.READ, READS)
def holds(
    call: Call,
    instance: Covered = None,
    *,
    ended: Annotated[bool, Flag("--all"), Field(description="Also those that ended: released, or expired.")] = False,
    after: Before = None,
    limit: Limit = 1_000,
) -> Holds:
    """Print holds, the newest first: what each covers, until when, who placed it and why.

    Example: sexton hold list shop
    """
    rows, now = call.stores.holds.newest(instance, limit + 1, active=not ended, before=after)
    return Holds(**page(rows, limit), now_at=now)


@operation(
    "hold release",
    "POST /v1/holds/{hold}/release",
    Grant.OPERATE,
    Logged("{hold}", of=lambda call, hold, **_: call.stores.holds.instance_of(hold)),
)
def release_hold(call: Call, hold: HoldNumber, *, reason: Remark = "") -> Hold:
    """End a hold now; the next round may delete what it blocked. Repeatable.

    Example: sexton hold release 3
    """
    return call.stores.holds.release(hold)
