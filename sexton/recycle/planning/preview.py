"""What other settings would make due, or due no more, before anybody sets them. Reads only."""

from collections.abc import Iterator

from sexton.database.engine import Database
from sexton.kernel.message import Message
from sexton.recycle.model import Policy
from sexton.recycle.planning.sql.measure import Measure, find_kinds, policy_of


class Shift(Message):
    """How much of a kind another retention would make due now (``more``), or due no more; seconds, None: not set.

    ``asks``: the first plan of a round after it would wait for a person.
    """

    instance: str
    kind: str
    before: int | None
    after: int | None
    more: bool
    marks: int
    objects: int
    estimated: bool
    bytes: int
    asks: bool


def shifts(db: Database, instance: str, before: Policy, after: Policy) -> Iterator[Shift]:
    """Yield what changes for an instance, kind by kind; nothing where no retention of its kinds does."""
    kinds = find_kinds(db, instance)
    with db.read() as c:
        now, old, terms = db.now(c), policy_of(db, c, instance, before), policy_of(db, c, instance, after)
        measure = Measure(db, c, instance, terms.policy)
        was, will = old.policy.retention_seconds, terms.policy.retention_seconds
        for kind in kinds:
            a, b = was.get(kind), will.get(kind)
            if a == b:
                continue
            # Without a retention nothing of a kind is due: as if it were longer than time itself.
            long, short = max(a or 0, b or 0) if a and b else None, min(s for s in (a, b) if s is not None)
            since = 0 if long is None else now - 1000 * long
            moved = measure.due(kind, now - 1000 * short, since)
            more = b is not None and (a is None or b < a)
            unasked = terms.agreed is None or b is None or b >= terms.agreed.get(kind, b)
            yield Shift(
                instance=instance,
                before=a,
                after=b,
                more=more,
                asks=terms.enabled and more and moved.marks > 0 and not unasked,
                **moved.model_dump(include={"kind", "marks", "objects", "estimated", "bytes"}),
            )
