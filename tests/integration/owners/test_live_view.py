"""A mark that touches an object of the owner's live view is kept."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from sexton.contract import NewMark
from sexton.kernel import crash_points
from sexton.marks.kept import LIVE, NAMED_LIVE, KeepReason, Kept, describe, way_out
from sexton.marks.model import DueMark
from sexton.marks.policy import covering_prefixes
from sexton.owners.sql import live_keys
from tests.integration.owners.views import execute, new_worker
from tests.support.crashes import at_point
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put
from tests.support.transactions import owner_write

FILES = ("data/t1/a.dat", "data/t1/b.dat", "data/t2/c.dat")


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """A vault with files, and the owner's view over its own table."""
    place = rig.local(tmp_path / "v")
    for name in FILES:
        put(place, name)
    show(rig, "kind, id, vault, key")
    return place


def show(rig: Rig, columns: str) -> None:
    execute(
        rig,
        "CREATE TABLE live (instance text, kind text, id text, vault text, key text)",
        f"CREATE VIEW sexton_live AS SELECT {columns} FROM live",
    )


def live(
    rig: Rig, *, kind: str = "rowset", id: str = "L", vault: str = "disk", key: str, instance: str = "shop"
) -> None:
    with owner_write(rig.db) as c:
        c.execute(
            text("INSERT INTO live VALUES (:instance, :kind, :id, :vault, :key)"),
            {"instance": instance, "kind": kind, "id": id, "vault": vault, "key": key},
        )


BY_KEYS = NewMark(id="m", vault="disk", keys=("data/t1/a.dat", "data/t2/c.dat"))
BY_PREFIX = NewMark(id="m", vault="disk", prefix="data/t1/")
TOUCHES = {
    "its id": (BY_KEYS, {"kind": "dropped", "id": "m", "key": "elsewhere"}),
    "its id, in no vault": (BY_PREFIX, {"kind": "dropped", "id": "m", "vault": "other", "key": "x"}),
    "one of its keys": (BY_KEYS, {"key": "data/t2/c.dat"}),
    "a key inside its prefix": (BY_PREFIX, {"key": "data/t1/b.dat"}),
    "a key inside its prefix that is not there": (BY_PREFIX, {"key": "data/t1/\U0010fffe"}),
    "a prefix inside its prefix": (BY_PREFIX, {"key": "data/t1/deep/"}),
    "the same prefix": (BY_PREFIX, {"key": "data/t1/"}),
    "a prefix above one of its keys": (BY_KEYS, {"key": "data/t2/"}),
    "a prefix above its prefix": (BY_PREFIX, {"key": "data/"}),
    "a prefix that ends with an underscore": (NewMark(id="m", vault="disk", keys=("a_1/x",)), {"key": "a_"}),
}


def test_a_mark_on_a_live_object_is_kept_while_it_is_live(rig: Rig, root: Path) -> None:
    for how, (mark, row) in TOUCHES.items():
        for name in FILES:
            put(root, name)
        with new_worker(rig) as worker:
            id_ = f"m{worker.count('mark_history')}"
            worker.mark("dropped", mark.model_copy(update={"id": id_}))
            live(worker, **row | ({"id": id_} if row.get("id") else {}))

            report = worker.round(after=10_801)

            assert (kept_texts(report), report.claimed, report.due) == ({"live": 1}, 0, 1), how
            assert (len(listing(root)), worker.row("dropped", id_).state) == (3, "MARKED"), how
            execute(worker, "DELETE FROM live")
            again = worker.round()
            assert (kept_texts(again), again.claimed) == ({}, 1), how
            assert len(listing(root)) == (1 if mark is BY_KEYS or mark is BY_PREFIX else 3), how


def test_live_objects_of_another_vault_block_nothing(rig: Rig, root: Path) -> None:
    rig.mark("dropped", BY_PREFIX)
    live(rig, key="data/t10/x")
    live(rig, key="data/t")
    live(rig, key="data/t1")
    live(rig, key="data/t2/c.dat")
    live(rig, key="data/t1/a.dat", vault="other")
    live(rig, kind="rowset", id="m", key="elsewhere")

    report = rig.round(after=10_801)

    assert (kept_texts(report), report.claimed) == ({}, 1)
    assert set(listing(root)) == {"data/t2/c.dat"}


def test_live_rows_block_only_marks_of_their_instance(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "data/t1/a.dat")
    put(root, "data/t2/c.dat")
    show(rig, "instance, kind, id, vault, key")
    rig.mark("dropped", BY_PREFIX, NewMark(id="m2", vault="disk", prefix="data/t2/"))
    live(rig, instance="bank", key="data/t1/a.dat")
    live(rig, instance="shop", key="data/t2/c.dat")

    report = rig.round(after=10_801)

    assert kept_texts(report) == {"live": 1}
    assert set(listing(root)) == {"data/t2/c.dat"}


def test_a_broken_view_blocks_every_mark(rig: Rig, root: Path) -> None:
    rig.mark("dropped", BY_PREFIX, NewMark(id="m2", vault="disk", keys=("data/t2/c.dat",)))
    rig.later(10_801)
    for columns in ("kind, id", "kind, id, vault", "id, vault, key"):
        execute(rig, "DROP VIEW sexton_live", f"CREATE VIEW sexton_live AS SELECT {columns} FROM live")

        report = rig.round()

        assert (report.claimed, len(listing(root)), sum(kept_texts(report).values())) == (0, 3, 2)
        assert all(why.startswith("owner: the live view cannot be read: ") for why in kept_texts(report))
    execute(rig, "DROP VIEW sexton_live", "CREATE VIEW sexton_live AS SELECT kind, id, vault, key FROM live")
    assert rig.round().claimed == 2


def test_a_lost_connection_to_the_view_costs_one_round(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    show(rig, "instance, kind, id, vault, key")
    live(rig, key="data/t9/x")
    rig.drop_files(root, "m", "data/t1/a.dat", prefix="data/t1/")
    cut = []

    def in_the_way(c: Connection, _cursor: object, statement: str, *_: object) -> None:
        if ".sexton_live" in statement and not cut:
            cut.append(c.connection.driver_connection.info.backend_pid)  # type: ignore[union-attr]
            with rig.db.read() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": cut[0]})

    event.listen(rig.db.live("shop").engine, "before_cursor_execute", in_the_way)
    report = rig.round(after=10_801)

    assert len(cut) == 1
    assert (report.claimed, ["cannot be read" in why for why in kept_texts(report)]) == (0, [True])
    assert (rig.round().claimed, listing(root)) == (1, {})


def test_a_late_upload_that_is_live_is_kept(rig: Rig, root: Path) -> None:
    rig.mark("dropped", BY_PREFIX)
    rig.round(after=10_801)
    put(root, "data/t1/late.dat")
    live(rig, key="data/t1/late.dat")

    report = rig.round(after=3_601)

    assert kept_texts(report) == {"live": 1}
    assert set(listing(root)) == {"data/t1/late.dat", "data/t2/c.dat"}


def test_an_object_that_becomes_live_after_resolve_is_kept(rig: Rig, root: Path) -> None:
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("data/t1/a.dat",)))

    with crash_points.installed(at_point("resolve.stored", lambda: live(rig, key="data/t1/a.dat"))):
        report = rig.round(after=10_801)

    assert (report.claimed, len(listing(root))) == (0, 3)
    assert kept_texts(report) == {"live": 1}


def test_n5_a_report_names_the_keys_that_are_live(rig: Rig, root: Path) -> None:
    keys = tuple(f"data/t1/{n}.dat" for n in range(46))
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=keys), NewMark(id="p", vault="disk", prefix="data/t2/"))
    for n in (3, 7, 11, 40):
        live(rig, id=f"L{n}", key=keys[n])
    live(rig, kind="dropped", id="p", key="elsewhere")

    report = rig.round(after=10_801)

    told = {describe(kept): marks for kept, marks in report.kept.items()}
    [of_keys] = [text for text in told if text.startswith("live: dropped/m (rowset/L")]
    assert of_keys.endswith(" and more)")
    assert all(f" shows data/t1/{part.partition('/L')[2].split()[0]}.dat" in part for part in of_keys.split(", "))
    assert told == {of_keys: 1, "live: dropped/p (dropped/p shows elsewhere)": 1}
    assert way_out(Kept(KeepReason.LIVE, "m", "L"), "shop")


def test_n5_a_report_names_only_the_first_of_many_marks(rig: Rig, root: Path) -> None:
    rig.mark("dropped", *(NewMark(id=f"m{n}", vault="disk", keys=(FILES[0],)) for n in range(NAMED_LIVE + 3)))
    live(rig, key=FILES[0])

    report = rig.round(after=10_801)

    assert report.kept.pop(LIVE) == 3
    assert len(report.kept) == NAMED_LIVE


def test_a_live_prefix_may_end_with_any_separator() -> None:
    separators = "/_=#: ~@+,é"

    assert [s for s in separators if f"data/t1{s}" not in covering_prefixes(f"data/t1{s}a.dat")] == []


@pytest.mark.slow
def test_a_live_view_is_queried_for_deep_keys_in_pages(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_keys, "NAMES_AT_ONCE", 500)
    execute(rig, "CREATE INDEX live_by_key ON live (vault, key)")
    live(rig, key="00/")
    mark = DueMark("dropped", "m", 0, "disk", None, tuple(f"{n:02}/" + "d/" * 510 for n in range(50)), 0)
    characters: list[int] = []

    def note(*call: Any) -> None:
        characters.append(sum(len(value) for value in call[3].values() if isinstance(value, str)))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        live_rows = rig.owner.live("shop", [mark], lambda: None)
    finally:
        event.remove(Engine, "before_cursor_execute", note)

    assert live_rows == {mark.ref: "rowset/L shows 00/"}
    assert sum(characters) > 20_000_000 > 10 * max(characters)
