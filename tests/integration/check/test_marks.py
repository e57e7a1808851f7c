"""The parts in which a check reads marks hold each mark once, whatever its state."""

from typing import Any

from sqlalchemy import update

from sexton.check.sql.live_side import mark_parts, read_marks
from sexton.contract import NewMark
from sexton.marks.live import Part
from sexton.marks.model import MarkState, Reason
from tests.integration.check.conftest import Owned

CLAIMED = {"state": MarkState.CLAIMED, "batch": 1, "claimed_at": 0}
QUARANTINED = {"quarantined_reason": Reason.BAD_KEY}
STATES: dict[str, dict[str, Any]] = {
    "fenced": {"state": MarkState.FENCED},
    "claimed": CLAIMED,
    "quarantined": QUARANTINED,
    "claimed-and-quarantined": {**CLAIMED, **QUARANTINED},
}


def test_the_parts_hold_each_mark_once(owned: Owned) -> None:
    ids = [*STATES, *(f"waiting-{n}" for n in range(5))]
    for kind in ("compacted", "dropped"):
        owned.mark(kind, *(NewMark(id=id_, vault="disk", keys=(f"data/{kind}/{id_}.dat",)) for id_ in ids))
    with owned.db.write() as c:
        for id_, values in STATES.items():
            c.execute(update(owned.db.t.mark).where(owned.db.t.mark.c.id == id_).values(**values))
    with owned.db.snapshot() as c:
        parts = mark_parts(owned.db, c, "shop", 5)
        read = {part: [e.record for page in _read(owned, c, part) for e in page] for part in parts}

    records = sorted(f"{kind}/{id_}" for kind in ("compacted", "dropped") for id_ in ids)
    assert sorted(record for part in read.values() for record in part) == records
    assert [len(part) for part in read.values()] == [5, 5, 2, 4, 2]


def _read(owned: Owned, c: Any, part: Part) -> Any:
    return read_marks(owned.db, c, "shop", part, ["disk"])
