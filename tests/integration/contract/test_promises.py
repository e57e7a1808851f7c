"""The owner contract keeps its promises inside the owner's transactions: prepare, commit, mark and undrop."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from sexton import contract
from sexton.contract import AlreadyMarked, Collected, Gone, InstanceNotRegistered, NewMark, Refused
from sexton.marks.model import Ref
from tests.servers.postgres import new_database
from tests.support.claims import claim, finish, token
from tests.support.rig import Rig
from tests.support.transactions import owner_write

OF_ROUNDS = ("mark", "mark_history", "file_list", "claim", "tally", "batch", "round", "lease")
"""Tables that the rounds of a test fill."""


@pytest.fixture(scope="module")
def deployment() -> Iterator[Rig]:
    """A rig for all tests of this file, with the owner's table."""
    rig = Rig(new_database()).instance()
    with owner_write(rig.db) as c:
        c.execute(text("CREATE TABLE visible (id text PRIMARY KEY)"))
    yield rig
    rig.db.close()


@pytest.fixture
def rig(deployment: Rig) -> Iterator[Rig]:
    """The rig without a mark, a round or a row of the owner."""
    yield deployment
    with deployment.db.write() as c:
        c.exec_driver_sql("SET LOCAL session_replication_role = replica")
        for table in ("public.visible", *(f"sexton.{name}" for name in OF_ROUNDS)):
            c.exec_driver_sql(f"DELETE FROM {table}")


def load(rig: Rig, *ids: str, also: str = "") -> None:
    """The owner's metadata commit: its own rows and the removal of the marks, in one transaction; then one more row."""
    with owner_write(rig.db) as c:
        c.execute(text("INSERT INTO visible VALUES (:id)"), [{"id": i} for i in ids])
        contract.commit(c, "shop", ids)
        if also:
            c.execute(text("INSERT INTO visible VALUES (:id)"), {"id": also})


def visible(rig: Rig) -> list[str]:
    with owner_write(rig.db) as c:
        return list(c.execute(text("SELECT id FROM visible ORDER BY id")).scalars())


def test_a_prepared_mark_ages_from_the_end_of_its_transaction(rig: Rig) -> None:
    before = rig.now()

    rig.prepare("r1", ttl=60)

    row = rig.row("prepared", "r1")
    assert (row.state, row.vault, row.prefix, row.owner_txn) == ("MARKED", "disk", "data/r1/", "load")
    assert 60_000 <= row.expires_at - before < 70_000
    assert row.retention_starts_at == row.expires_at


def test_a_commit_removes_only_its_own_marks(rig: Rig) -> None:
    rig.prepare("r1", "r2", "r3")
    rig.mark("dropped", NewMark(id="r1", vault="disk", keys=("x",)))

    load(rig, "r1", "r2")

    assert visible(rig) == ["r1", "r2"]
    assert rig.row("prepared", "r1") is None
    assert rig.row("prepared", "r3").state == "MARKED"
    assert rig.row("dropped", "r1").state == "MARKED"


def test_a_commit_of_a_claimed_or_gone_mark_rolls_the_owner_back(rig: Rig) -> None:
    rig.prepare("r1", "r2", "r3")
    taken = token(rig, "prepared")
    claim(rig, taken, "prepared", "r2", "r3")
    for _ in "12":  # a prefix: swept once
        finish(rig, taken, "prepared", "r3")

    with pytest.raises(Collected, match=rf"SX001 collected: .*r2 claimed in batch {taken.batch}\b"):
        load(rig, "r1", "r2")
    with pytest.raises(Collected, match=rf"r3 gone in batch {taken.batch}\b"):
        load(rig, "r3")

    assert visible(rig) == []
    assert rig.row("prepared", "r1").state == "MARKED"
    assert rig.row("prepared", "r2").state == "CLAIMED"


def test_a_commit_repeated_or_never_prepared_is_refused(rig: Rig) -> None:
    rig.prepare("r1", "r2")
    load(rig, "r1")

    with pytest.raises(Collected, match="r1 was never prepared, or is committed already"):
        rig.commit("r1", "r2")
    with pytest.raises(Collected, match="r2 was never prepared"), rig.db.write() as c:
        contract.commit(c, "elsewhere", ["r2"])

    assert rig.row("prepared", "r2").state == "MARKED"
    assert visible(rig) == ["r1"]


def test_a_commit_that_rolls_back_leaves_its_marks(rig: Rig) -> None:
    rig.prepare("r1")

    with pytest.raises(IntegrityError, match=r"(?i)unique"):
        load(rig, "r1", also="r1")

    assert rig.row("prepared", "r1").state == "MARKED"


def test_undrop_restores_all_marks_or_none(rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=f"t{n}", vault="disk", keys=("x",)) for n in range(3)))
    rig.mark("dropped", NewMark(id="part", vault="disk", prefix="t/p/", parent=("dropped", "t0")))

    with pytest.raises(Refused, match="t9 is not marked"):
        rig.undrop_marks("dropped", "t0", "t9")
    assert rig.count("mark") == 4
    assert rig.undrop_marks("dropped", "t0", "part", "t1", "t0") == 3

    assert [rig.row("dropped", f"t{n}") is None for n in range(3)] == [True, True, False]


def test_undrop_of_a_claimed_or_deleted_mark_is_refused(rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=i, vault="disk", keys=("x",)) for i in ("stays", "claimed", "gone")))
    taken = token(rig)
    claim(rig, taken, "dropped", "claimed", "gone")
    finish(rig, taken, "dropped", "gone")

    with pytest.raises(Refused, match=rf"(?=.*claimed is claimed in batch {taken.batch}\b)(?=.*gone is gone)"):
        rig.undrop_marks("dropped", "claimed", "gone", "stays")

    assert rig.row("dropped", "stays").state == "MARKED"
    assert rig.row("dropped", "claimed").state == "CLAIMED"


DEEP = [("part", "p", ("dropped", "table")), ("tablet", "leaf", ("part", "p"))]
UNDROPPABLE = {
    "a claimed child": ([DEEP[0]], False, "part p is claimed"),
    "a claimed grandchild": (DEEP, False, "tablet leaf is claimed"),
    "a deleted child": ([("tablet", "leaf", ("dropped", "table"))], True, "tablet leaf is gone"),
    "a deleted child of a marked one": (DEEP, True, "tablet leaf is gone"),
}


@pytest.mark.parametrize("below", UNDROPPABLE)
def test_undrop_is_refused_for_what_is_claimed_or_deleted_below(rig: Rig, below: str) -> None:
    children, is_deleted, why = UNDROPPABLE[below]
    rig.mark("dropped", NewMark(id="table", vault="disk", prefix="t/"))
    for kind, id_, parent in children:
        rig.mark(kind, NewMark(id=id_, vault="disk", keys=(f"t/{id_}.dat",), parent=parent))
    with pytest.raises(Refused, match=f"{id_}: its ancestor dropped table is marked"):
        rig.undrop_marks(kind, id_)
    taken = token(rig, kind)
    claim(rig, taken, kind, id_)
    if is_deleted:
        finish(rig, taken, kind, id_)

    with pytest.raises(Refused, match=f"table: its descendant {why}"):
        rig.undrop_marks("dropped", "table")

    assert rig.row("dropped", "table").state == "MARKED"


def test_a_fenced_mark_is_neither_committed_nor_undropped(rig: Rig) -> None:
    rig.prepare("r1")
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("x",)))
    rig.stores.owner_marks.fence(token(rig), [Ref("prepared", "r1"), Ref("dropped", "t1")])

    with pytest.raises(Collected, match="r1 is fenced"):
        load(rig, "r1")
    with pytest.raises(Refused, match="t1 is fenced"):
        rig.undrop_marks("dropped", "t1")

    assert (visible(rig), rig.count("mark", state="FENCED")) == ([], 2)


def test_a_commit_cancels_orphans_of_its_files_or_is_refused(rig: Rig) -> None:
    rig.prepare("r1", "r2")
    for n in (1, 2):
        key = f"data/r{n}/a.dat"
        rig.mark("orphan", NewMark(id=f"o{n}", vault="disk", keys=(key,), parent=("rowset", f"r{n}")))
    taken = token(rig, "orphan")
    claim(rig, taken, "orphan", "o2")

    load(rig, "r1")
    assert rig.row("orphan", "o1") is None
    with pytest.raises(Collected, match="r2 lost a file as orphan o2"):
        load(rig, "r2")
    finish(rig, taken, "orphan", "o2")
    with pytest.raises(Collected, match="r2 lost a file as orphan o2"):
        load(rig, "r2")

    assert (visible(rig), rig.row("prepared", "r2").state) == (["r1"], "MARKED")


def test_an_owner_changes_no_marks_of_other_instances(rig: Rig) -> None:
    rig.instance("zoo")
    rig.prepare("r1")
    with rig.db.write() as c:
        contract.prepare(c, "zoo", "load-1", ["r1"], "disk", ["data/r1/"], 60)
    for instance in ("shop", "zoo"):
        rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("x",)), instance=instance)

    load(rig, "r1")
    rig.undrop_marks("dropped", "t1")

    assert (rig.count("mark", instance="shop"), rig.count("mark", instance="zoo", state="MARKED")) == (0, 2)


def test_a_prepared_mark_is_never_undropped(rig: Rig) -> None:
    rig.prepare("r1")

    with pytest.raises(Refused, match="a prepared mark is committed, never undropped"):
        rig.undrop_marks("prepared", "r1")
    with pytest.raises(InstanceNotRegistered), rig.db.write() as c:
        contract.undrop(c, "elsewhere", "dropped", ["r1"])


def test_an_existing_or_deleted_id_is_not_marked_again(rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=id_, vault="disk", keys=("x",)) for id_ in ("t1", "t2", "gone")))
    taken = token(rig)
    claim(rig, taken, "dropped", "t2", "gone")
    finish(rig, taken, "dropped", "gone")

    for id_, error in (("t1", AlreadyMarked), ("t2", (AlreadyMarked, Collected)), ("gone", Gone)):
        new = [NewMark(id=each, vault="disk", keys=("y",)) for each in ("new", id_)]
        with pytest.raises(error):
            rig.mark("dropped", *new)

    assert (rig.count("mark"), rig.row("dropped", "t2").state) == (2, "CLAIMED")


@pytest.mark.parametrize("leaves", [10_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_many_leaves_are_marked_by_one_statement(rig: Rig, leaves: int) -> None:
    series = f"generate_series(1, {leaves}) AS s (n)"
    prefix = "'data/' || n || '/'"

    rig.sql(
        "INSERT INTO {}mark (instance, kind, id, parent_kind, parent_id, vault, prefix, bytes) "
        f"SELECT 'shop', 'tablet', 't-' || n, 'dropped', 'table', 'disk', {prefix}, n FROM {series}"
    )

    marks = rig.rows("mark")
    assert {mark.state for mark in marks} == {"MARKED"}
    assert (len(marks), sum(mark.bytes for mark in marks)) == (leaves, leaves * (leaves + 1) // 2)
