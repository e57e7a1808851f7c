"""Doris #58459, tiflow #1048: a collector raced a commit; a hold was tested before it was set.

Here commits, undrops and holds happen at each point of a claim. Each is either refused or in time: data that was
committed or held before the claim is not claimed, and claimed data is never committed.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from sexton import contract
from sexton.contract import Collected, NewMark, Refused
from sexton.kernel import crash_points
from sexton.operators.holds.model import Hold
from sexton.operators.holds.store import TooLate
from tests.museum.tables import check_sums, deleted_ids, marks, rows, run_clean_rounds, waits_for_a_lock
from tests.support.eventually import eventually
from tests.support.rig import Rig, listing, put
from tests.support.transactions import owner_write

POINTS = ("resolve.stored", "claim.guarded", "claim.checked", "claim.written", "claim.committed")
EVER = 400 * 86_400
LATE, OTHERS = ("late0", "late1"), ("other0", "other1")


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
            eventually("they are done or must wait", lambda: not self._thread.is_alive() or waits_for_a_lock(self._rig))

    def _run(self) -> None:
        try:
            self.got = self._act()
        except (Collected, Refused, TooLate) as e:
            self.refused = e


def loaded(rig: Rig, root: Path, *ids: str) -> None:
    """Prepare loads whose time and retention are over, with their files; the owner has a table of what is visible."""
    with owner_write(rig.db) as c:
        c.execute(text("CREATE TABLE rowset (id varchar(20) PRIMARY KEY)"))
    with rig.db.write() as c:
        contract.prepare(c, "shop", "load", ids, "disk", [f"data/{i}/" for i in ids], 3_600)
    for i in ids:
        put(root, f"data/{i}/0.dat", 11)
    rig.later(259_200 + 3_601)


def commit(rig: Rig, *ids: str) -> None:
    """Make rowsets visible, as an owner does: its own rows and Sexton's in one transaction."""
    with owner_write(rig.db) as c:
        for i in ids:
            c.execute(text("INSERT INTO rowset VALUES (:i)"), {"i": i})
        contract.commit(c, "shop", ids)


@pytest.mark.parametrize("point", POINTS)
def test_doris_58459_commit_during_a_claim_is_whole_or_refused(rig: Rig, disk: Path, point: str) -> None:
    loaded(rig, disk, *LATE, *OTHERS)
    before = listing(disk)
    owner = Meanwhile(rig, lambda: commit(rig, *LATE))

    with owner.at(point):
        reports = [rig.round()]
    reports += run_clean_rounds(rig)
    after = listing(disk)

    visible = {str(r[0]) for r in rows(rig, "SELECT id FROM rowset")}
    assert visible == (set(LATE) if owner.refused is None else set())
    assert set(after) == {f"data/{i}/0.dat" for i in visible}
    assert deleted_ids(rig) == {*LATE, *OTHERS} - visible
    assert marks(rig) == {}
    if owner.refused is not None:
        assert "SX001" in str(owner.refused)
    check_sums(rig, reports, before, after)
    assert (owner.refused is None) is (point in ("resolve.stored", "claim.guarded"))


@pytest.mark.parametrize("point", POINTS)
def test_doris_58459_undrop_during_a_claim_is_whole_or_refused(rig: Rig, disk: Path, point: str) -> None:
    for i in (*LATE, *OTHERS):
        put(disk, f"data/{i}/0.dat", 11)
    rig.mark("dropped", *(NewMark(id=i, vault="disk", prefix=f"data/{i}/") for i in (*LATE, *OTHERS)))
    rig.later(10_801)
    before = listing(disk)

    def undrop() -> int:
        with rig.db.write() as c:
            return contract.undrop(c, "shop", "dropped", LATE)

    owner = Meanwhile(rig, undrop)
    with owner.at(point):
        reports = [rig.round()]
    reports += run_clean_rounds(rig)
    after = listing(disk)

    back = set(LATE) if owner.refused is None else set()
    assert set(after) == {f"data/{i}/0.dat" for i in back}
    assert deleted_ids(rig) == {*LATE, *OTHERS} - back
    assert marks(rig) == {}
    check_sums(rig, reports, before, after)
    assert (owner.refused is None) is (point == "resolve.stored")


@pytest.mark.parametrize(
    ("scope", "point"),
    [*(("mark", p) for p in POINTS), *((s, p) for s in ("instance", "prefix") for p in POINTS[0:3:2])],
)
def test_tiflow_1048_hold_during_a_claim_blocks_or_is_refused(rig: Rig, disk: Path, scope: str, point: str) -> None:
    put(disk, "data/held/0.dat", 11)
    rig.mark("dropped", NewMark(id="held", vault="disk", keys=("data/held/0.dat",), bytes=11))
    rig.later(10_801)
    before = listing(disk)
    named = {"mark": {"mark_kind": "dropped", "mark_id": "held"}, "prefix": {"vault": "disk", "prefix": "data/"}}
    hold = Hold(instance="shop", scope=scope, reason="it may be needed", **named.get(scope, {}))  # type: ignore[arg-type]
    operator = Meanwhile(rig, lambda: rig.holds.place(hold, EVER))

    with operator.at(point):
        reports = [rig.round()]
    reports += [rig.round(), rig.round()]

    in_time = point == "resolve.stored"
    assert listing(disk) == (before if in_time else {})
    assert (deleted_ids(rig), marks(rig)) == ((set(), {"held": "MARKED"}) if in_time else ({"held"}, {}))
    placed = rows(rig, "SELECT id FROM {}hold")
    assert bool(placed) is (operator.refused is None)
    after_it = "SELECT count(*) FROM {}mark_history m, {}hold h WHERE m.claimed_at > h.placed_at"
    assert rows(rig, after_it) == [(0,)]
    if in_time:
        rig.holds.release(placed[0][0])
        reports.append(rig.round())
    assert listing(disk) == {}
    check_sums(rig, reports, before, listing(disk))


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
    last = rig.round()

    assert late_exists
    assert second.deleted == 0
    assert listing(disk) == {}
    written = {"data/held/0.dat": 11, "data/held/late.dat": 11}
    check_sums(rig, [first, second, last], written, listing(disk))
