"""Doris #58459, tiflow #1048: a collector raced a commit; a hold was tested before it was set.

Here commits, undrops and holds happen at each point of a claim. Each is either refused or in time: data that was
committed or held before the claim is not claimed, and claimed data is never committed.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from sexton import contract
from sexton.contract import Collected, NewMark, Refused
from sexton.kernel import crash_points
from sexton.operators.holds.model import Hold
from sexton.operators.holds.store import TooLate
from sexton.recycle.model import RoundReport
from tests.museum.tables import check_sums, deleted_ids, marks, rows, run_clean_rounds
from tests.support.locks import wait_until_blocked_or_ended
from tests.support.rig import Rig, listing, put
from tests.support.transactions import owner_write

POINTS = ("resolve.stored", "claim.guarded", "claim.checked", "claim.written", "claim.committed")
EVER = 400 * 86_400
LATE_CLAIMS = "SELECT FROM {}mark_history m, {}hold h WHERE m.claimed_at > h.placed_at AND h.released_at IS NULL"
"""Marks that were claimed although something was held."""


class Meanwhile:
    """Somebody who acts, once, when a round comes to a point; the round goes on when they are done or must wait."""

    def __init__(self, rig: Rig, act: Callable[[], object]) -> None:
        self._rig, self._act = rig, act
        self._thread = threading.Thread(target=self._run)
        self.refused: Exception | None = None
        self.got: object = None

    @contextmanager
    def at(self, point: str) -> Iterator[None]:
        with crash_points.installed(lambda name: self._come(name, point)):
            yield
        assert self._thread.ident is not None, f"no round came to {point}"
        self._thread.join()

    def _come(self, name: str, point: str) -> None:
        if name == point and self._thread.ident is None:
            self._thread.start()
            wait_until_blocked_or_ended(self._rig.db, self._thread)

    def _run(self) -> None:
        try:
            self.got = self._act()
        except (Collected, Refused, TooLate) as e:
            self.refused = e


def ids_at(point: str) -> tuple[list[str], list[str]]:
    """Return two ids that somebody wants back at a point of a claim, and two others."""
    return [f"{point}-late{n}" for n in range(2)], [f"{point}-other{n}" for n in range(2)]


def write(root: Path, ids: Iterable[str]) -> dict[str, int]:
    """Write one file below the prefix of each id; return key → bytes."""
    for i in ids:
        put(root, f"data/{i}/0.dat", 11)
    return {f"data/{i}/0.dat": 11 for i in ids}


def commit(rig: Rig, *ids: str) -> None:
    """Make rowsets visible, as an owner does: its own rows and Sexton's in one transaction."""
    with owner_write(rig.db) as c:
        for i in ids:
            c.execute(text("INSERT INTO rowset VALUES (:i)"), {"i": i})
        contract.commit(c, "shop", ids)


def test_doris_58459_commit_during_a_claim_is_whole_or_refused(rig: Rig, disk: Path) -> None:
    with owner_write(rig.db) as c:
        c.execute(text("CREATE TABLE rowset (id varchar(40) PRIMARY KEY)"))
    reports: list[RoundReport] = []
    written: dict[str, int] = {}
    committed: set[str] = set()
    for point in POINTS:
        late, others = ids_at(point)
        with rig.db.write() as c:
            prefixes = [f"data/{i}/" for i in (*late, *others)]
            contract.prepare(c, "shop", f"load {point}", [*late, *others], "disk", prefixes, 3_600)
        written |= write(disk, (*late, *others))
        rig.later(259_200 + 3_601)
        owner = Meanwhile(rig, lambda late=late: commit(rig, *late))

        with owner.at(point):
            reports.append(rig.round())
        reports += run_clean_rounds(rig)

        committed |= set(late) if owner.refused is None else set()
        assert (owner.refused is None) is (point in ("resolve.stored", "claim.guarded")), point
        assert owner.refused is None or "SX001" in str(owner.refused)
        assert {str(r[0]) for r in rows(rig, "SELECT id FROM rowset")} == committed
        assert set(listing(disk)) == {f"data/{i}/0.dat" for i in committed}
        assert deleted_ids(rig).isdisjoint(committed)
        assert marks(rig) == {}
    assert len(deleted_ids(rig)) == len(POINTS) * 4 - len(committed)
    check_sums(rig, reports, written, listing(disk))


def test_doris_58459_undrop_during_a_claim_is_whole_or_refused(rig: Rig, disk: Path) -> None:
    def undrop(ids: Sequence[str]) -> int:
        with rig.db.write() as c:
            return contract.undrop(c, "shop", "dropped", ids)

    reports: list[RoundReport] = []
    written: dict[str, int] = {}
    undropped: set[str] = set()
    for point in POINTS:
        late, others = ids_at(point)
        written |= write(disk, (*late, *others))
        rig.mark("dropped", *(NewMark(id=i, vault="disk", prefix=f"data/{i}/") for i in (*late, *others)))
        rig.later(10_801)
        owner = Meanwhile(rig, lambda late=late: undrop(late))

        with owner.at(point):
            reports.append(rig.round())
        reports += run_clean_rounds(rig)

        undropped |= set(late) if owner.refused is None else set()
        assert (owner.refused is None) is (point == "resolve.stored"), point
        assert set(listing(disk)) == {f"data/{i}/0.dat" for i in undropped}
        assert deleted_ids(rig).isdisjoint(undropped)
        assert marks(rig) == {}
    assert len(deleted_ids(rig)) == len(POINTS) * 4 - len(undropped)
    check_sums(rig, reports, written, listing(disk))


@pytest.mark.parametrize(
    ("scope", "points"), [("mark", POINTS), ("instance", POINTS[0:3:2]), ("prefix", POINTS[0:3:2])]
)
def test_tiflow_1048_hold_during_a_claim_blocks_or_is_refused(
    rig: Rig, disk: Path, scope: str, points: Sequence[str]
) -> None:
    reports: list[RoundReport] = []
    written: dict[str, int] = {}
    for point in points:
        before = write(disk, [point])
        written |= before
        rig.mark("dropped", NewMark(id=point, vault="disk", keys=tuple(before), bytes=11))
        rig.later(10_801)
        named = {"mark": {"mark_kind": "dropped", "mark_id": point}, "prefix": {"vault": "disk", "prefix": "data/"}}
        hold = Hold(instance="shop", scope=scope, reason="it may be needed", **named.get(scope, {}))  # type: ignore[arg-type]
        operator = Meanwhile(rig, lambda hold=hold: rig.holds.place(hold, EVER))

        with operator.at(point):
            reports.append(rig.round())
        reports += [rig.round(), rig.round()]

        in_time = point == "resolve.stored"
        placed = rig.holds.active("shop")
        assert (operator.refused is None) is bool(placed), point
        assert rows(rig, LATE_CLAIMS) == []
        assert (listing(disk), marks(rig)) == ((before, {point: "MARKED"}) if in_time else ({}, {})), point
        assert (point in deleted_ids(rig)) is not in_time
        for each in placed:
            rig.holds.release(each.id)
            reports.append(rig.round())
        assert listing(disk) == {}
    check_sums(rig, reports, written, {})


def test_tiflow_1048_hold_before_the_second_pass_blocks_it(rig: Rig, disk: Path) -> None:
    put(disk, "data/held/0.dat", 11)
    rig.mark("dropped", NewMark(id="held", vault="disk", prefix="data/held/"))
    rig.later(10_801)
    first = rig.round()
    late = put(disk, "data/held/late.dat", 11)
    rig.later(3_601)
    hold = Hold(instance="shop", scope="prefix", vault="disk", prefix="data/held/", reason="it may be needed")
    operator = Meanwhile(rig, lambda: rig.holds.place(hold, EVER))

    with operator.at("resolve.stored"):
        second = rig.round()
    late_exists = late.exists()
    assert isinstance(operator.got, tuple)
    rig.holds.release(operator.got[0].id)
    third = rig.round()
    assert (late_exists, second.deleted, listing(disk)) == (True, 0, {})
    rig.later(3_601)  # it found an object: it looks once more
    last = rig.round()

    written = {"data/held/0.dat": 11, "data/held/late.dat": 11}
    check_sums(rig, [first, second, third, last], written, listing(disk))
