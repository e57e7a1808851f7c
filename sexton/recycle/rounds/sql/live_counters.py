"""Read the counters that outlive their rounds, with what running rounds have deleted so far."""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, literal, literal_column, select, union_all

from sexton.database.counters import BYTES, OBJECTS, REMOVED
from sexton.database.engine import Database
from sexton.database.rows import MOST_SUM

RUNNING: ColumnElement[str] = literal_column("'RUNNING'")
"""``RoundState.RUNNING`` as text: the planner must see that the partial index applies."""


def read_counters(db: Database, c: Connection) -> Mapping[tuple[str, str, str], int]:
    """Return every counter by (instance, name, label).

    The end of a round moves its counts to the counters in one transaction. So one statement, which has one snapshot,
    reads both: no count is seen twice, and none is missing in between.
    """
    counter, round_, t = db.t.counter, db.t.round, db.t.tally
    stored = select(counter.c.instance, counter.c.name, counter.c.label, counter.c.value)
    running = round_.join(t, t.c.round == round_.c.id)
    counted = [
        select(round_.c.instance, literal(name).label("name"), t.c.kind.label("label"), number)
        .select_from(running)
        .where(round_.c.state == RUNNING)
        for name, number in (
            (REMOVED, t.c.removed),
            (OBJECTS, t.c.deleted + t.c.hidden),
            (BYTES, t.c.bytes_freed + t.c.bytes_estimated),
        )
    ]
    sums: Counter[tuple[str, str, str]] = Counter()
    for instance, name, label, value in c.execute(union_all(stored, *counted)):
        sums[instance, name, label] += int(value)
    return {key: min(value, MOST_SUM) for key, value in sums.items()}
