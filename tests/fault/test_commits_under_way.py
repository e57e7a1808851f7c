"""No round deletes what a commit names, wherever the steps of both meet: each order of them is tried.

The committer stores its names, looks at the marks, commits in its own system, and ends. The owner reads that system
only when it is told to, as one does whose catalog is far away.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
from sqlalchemy import text

from sexton.contract import NewMark
from sexton.database.contract_errors import Collected, translate_errors
from sexton.kernel.crash_points import installed
from sexton.marks.kept import KeepReason, Kept
from sexton.marks.model import DueMark, Fenced, Ref
from sexton.owners.port import Heartbeat, Owner
from tests.support.crashes import Crash, crash_at
from tests.support.rig import Rig, listing, put

BEFORE, AFTER = "before the round", "after it"
FEW = ("keepers.asked", "fence.written", "commits.read", "owner.fenced", "claim.committed")
REST = ("resolve.stored", "claim.asked", "claim.checked", "claim.committed", "files.deleted", "marks.removed", AFTER)
ALL = (BEFORE, *FEW[:4], *REST)
STEPS = 4
"""Of a committer: store, look, commit, end."""


class Catalog(Owner):
    """Names keys in a catalog elsewhere, of which it has a copy."""

    def __init__(self) -> None:
        self.named: set[str] = set()
        self.copy: frozenset[str] = frozenset()

    def refresh(self, instance: str, heartbeat: Heartbeat) -> None:
        self.copy = frozenset(self.named)

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, str]:
        return {mark.ref: "the catalog names it" for mark in marks if self.copy.intersection(mark.keys or ())}

    def fence(
        self, instance: str, batch: int, marks: Sequence[DueMark], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        live = self.live(instance, marks, heartbeat)
        return {m.ref: (Fenced.NOT_GARBAGE, "") if m.ref in live else (Fenced.FENCED, "") for m in marks}


class Committer:
    """Commits one object, step by step."""

    def __init__(self, rig: Rig, catalog: Catalog, key: str) -> None:
        self._rig, self._catalog, self.key = rig, catalog, key
        self.committed = self.refused = False
        self._steps = iter((self._call, self._call, self._commit, self._end))

    def step(self) -> None:
        if not self.refused:
            next(self._steps)()

    def _call(self) -> None:
        statement = text("SELECT sexton.admit('shop', :c, ARRAY['disk'], ARRAY[:k], interval '10 minutes')")
        try:
            with translate_errors(), self._rig.db.write() as c:
                c.execute(statement, {"c": f"commit-{self.key}", "k": self.key})
        except Collected:
            self.refused = True
            self._end()

    def _commit(self) -> None:
        self._catalog.named.add(self.key)
        self.committed = True

    def _end(self) -> None:
        self._rig.stores.commits.end("shop", f"commit-{self.key}")


@pytest.fixture
def shop(rig: Rig, tmp_path: Path) -> tuple[Rig, Catalog, Path]:
    catalog = Catalog()
    rig.owner, rig.recycler = catalog, rig.recycler_of(catalog)
    rig.instance()
    return rig, catalog, rig.local(tmp_path / "v")


def orders(points: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield at which point each step of the committer comes, in every order that keeps theirs."""
    for at in combinations_with_replacement(range(len(points)), STEPS):
        yield tuple(points[n] for n in at)


@pytest.mark.parametrize(
    ("points", "share"),
    [(FEW, 0), *(pytest.param(ALL, n, marks=pytest.mark.soak) for n in range(4))],
    ids=["few", "all-0", "all-1", "all-2", "all-3"],
)
def test_no_round_deletes_what_a_commit_names(
    shop: tuple[Rig, Catalog, Path], points: Sequence[str], share: int
) -> None:
    rig, catalog, root = shop
    tried = list(orders(points))
    tried = tried if points == FEW else tried[share::4]
    outcomes = set()
    for n, at in enumerate(tried):
        committer, waiting = Committer(rig, catalog, f"d/{n}.dat"), list(at)
        put(root, committer.key)
        rig.mark("dropped", NewMark(id=f"m{n}", vault="disk", keys=(committer.key,)))
        rig.later(10_801)

        def do_steps(point: str, committer: Committer = committer, waiting: list[str] = waiting) -> None:
            while waiting and waiting[0] == point:
                waiting.pop(0)
                committer.step()

        do_steps(BEFORE)
        with installed(do_steps):
            rig.round()
        for point in points:  # steps at points that this round did not come to, and after it
            do_steps(point)
        rig.round()
        rig.round(after=700)
        there = committer.key in listing(root)

        assert not waiting
        assert there == committer.committed, f"steps {at}: {'it stays' if there else 'LOST'}"
        outcomes.add((committer.committed, committer.refused))
        catalog.named.discard(committer.key)
        if there:
            (root / committer.key).unlink()

    assert outcomes == {(True, False), (False, True)}


def test_names_of_a_commit_keep_marks_of_every_form(shop: tuple[Rig, Catalog, Path]) -> None:
    rig, _, root = shop
    keys = ["one/a.dat", "many/a.dat", "many/b.dat", "below/x/a.dat", "free.dat"]
    for key in keys:
        put(root, key)
    rig.mark("dropped", NewMark(id="one", vault="disk", keys=("one/a.dat",)))
    rig.mark("dropped", NewMark(id="many", vault="disk", keys=("many/a.dat", "many/b.dat")))
    rig.mark("dropped", NewMark(id="below", vault="disk", prefix="below/"))
    rig.mark("dropped", NewMark(id="free", vault="disk", keys=("free.dat",)))
    commit = rig.stores.commits.admit(
        "shop", [("disk", k) for k in ("one/a.dat", "many/b.dat", "below/x/a.dat")], 3_600
    )
    rig.sql("UPDATE {}commit_under_way SET until = until + interval '4 hours'")
    kept = rig.round(after=10_801).kept
    during = set(listing(root))
    rig.stores.commits.end("shop", commit)
    rig.round()

    assert during == set(keys) - {"free.dat"}
    assert kept == {Kept(KeepReason.COMMIT, commit): 3}
    assert rig.count("commit_under_way") == 0
    assert not {"one/a.dat", "many/a.dat", "many/b.dat"} & set(listing(root))


@pytest.mark.parametrize("point", ["fence.written", "claim.committed", "files.deleted", AFTER])
@pytest.mark.parametrize("form", ["one", "many", "below"])
def test_a_commit_of_what_is_being_deleted_is_refused(shop: tuple[Rig, Catalog, Path], form: str, point: str) -> None:
    rig, _, root = shop
    marks = {
        "one": NewMark(id="one", vault="disk", keys=("d/a.dat",)),
        "many": NewMark(id="many", vault="disk", keys=("d/a.dat", "d/b.dat")),
        "below": NewMark(id="below", vault="disk", prefix="d/"),
    }
    for name in ("a", "b"):
        put(root, f"d/{name}.dat")
    rig.mark("dropped", marks[form])
    rig.later(10_801)
    if point == AFTER:
        rig.round()
    else:
        with installed(crash_at(point)), pytest.raises(Crash):
            rig.round()
    if form == "below" and point == AFTER:  # it waits for its second pass
        assert rig.count("mark") == 1
    with pytest.raises(Collected, match=r"d/a\.dat"):
        rig.stores.commits.admit("shop", [("disk", "d/a.dat"), ("disk", "d/new.dat")], 60)

    assert rig.count("commit_under_way") == 0
    assert rig.stores.commits.admit("shop", [("disk", "e/new.dat")], 60)


def test_a_committer_that_dies_keeps_its_names_until_their_end(shop: tuple[Rig, Catalog, Path]) -> None:
    rig, _, root = shop
    put(root, "d/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("d/a.dat",)))
    rig.later(10_801)
    with installed(crash_at("commit.stored")), pytest.raises(Crash):
        rig.stores.commits.admit("shop", [("disk", "d/a.dat")], 600)
    rig.round()
    kept = set(listing(root))
    rig.round(after=601)

    assert kept == {"d/a.dat"}
    assert not listing(root)
    assert rig.count("commit_under_way") == 0


def test_both_calls_in_one_transaction_admit_nothing(rig: Rig) -> None:
    rig.instance()
    call = text("SELECT sexton.admit('shop', 'c', ARRAY['disk'], ARRAY['k'], interval '1 minute')")
    with rig.db.write() as c:
        together = [c.execute(call).scalar_one() for _ in range(2)]
    with rig.db.write() as c:
        later = c.execute(call).scalar_one()

    assert (together, later) == ([False, False], True)
