"""Whose turn it is: pages of due topics, the same again for whoever repeats one, and none that starves."""

import pytest

from sexton.db import schema
from sexton.db.engine import Database
from sexton.wal import turns
from sexton.wal.model import MapOrder, Mapped, Mode, Terms
from sexton.wal.turns import WalTurns
from sexton.wal.wal import Wal

TERMS = Terms(interval_seconds=1_800, purge_entries=300, purge_bytes=10_000)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of three topics, and two of them in a run."""
    monkeypatch.setattr(turns, "PAGE_TOPICS", 3)
    monkeypatch.setattr(turns, "MOST_PAGES", 2)


def enabled(db: Database, *names: str) -> None:
    for name in names:
        Wal(db, TERMS).store.enable(name, Mode.DELETE)


def test_due_topics_are_cut_into_pages_by_name_and_what_is_left_comes_next(db: Database, few: None) -> None:
    enabled(db, *(f"t{n}" for n in range(8)))
    its = WalTurns(db, TERMS)

    first = its.pages()
    names = [name for page in first.pages for name in its.names(page)]
    looked(db, *names)
    again = [its.names(page) for page in first.pages]
    rest = its.pages()

    assert ([(p.first, p.last) for p in first.pages], first.more) == ([("t0", "t2"), ("t3", "t5")], True)
    assert names == [f"t{n}" for n in range(6)]
    assert again == [["t0", "t1", "t2"], ["t3", "t4", "t5"]]
    assert ([(p.first, p.last) for p in rest.pages], rest.more) == ([("t6", "t7")], False)


def looked(db: Database, *names: str) -> None:
    with db.write() as c:
        t = db.t.wal_topic
        c.execute(t.update().where(t.c.name.in_(names)).values(looked_at=db.now(c)))


def test_a_topic_is_due_again_when_its_time_has_come_and_a_disabled_one_never_is(db: Database) -> None:
    enabled(db, "on", "off")
    Wal(db, TERMS).store.disable("off")
    its = WalTurns(db, TERMS)
    due = [its.due()]
    looked(db, "on")
    schema.move_clock(db, 10)
    due.append(its.due())
    schema.move_clock(db, 1_790)
    due.append(its.due())

    assert due == [True, False, True]
    assert its.pages().topics == 1


def test_names_of_any_case_and_sign_are_in_exactly_one_page(db: Database, few: None) -> None:
    names = ["a", "B", "b", "_x", "-x", ".x", "Z9"][:6]
    enabled(db, *names)
    its = WalTurns(db, TERMS)

    pages = its.pages().pages

    assert sorted(name for page in pages for name in its.names(page)) == sorted(names)


def test_the_size_that_could_go_is_what_makes_a_topic_due_early(db: Database) -> None:
    names = ["many", "large", "small", "silent", "gone"]
    enabled(db, *names)
    wal = Wal(db, TERMS)
    for name in names:
        wal.maps.put(MapOrder(topic=name, generation=1, regions=(Mapped(region="r"), Mapped(region="s", first=0))))
    needs = {"many": 350, "large": 60, "small": 60, "silent": None, "gone": 350}
    with db.write() as c:
        t, r = db.t.wal_topic, db.t.wal_region
        c.execute(t.update().values(log_start=10, log_end=1_000, looked_at=db.now(c)))
        for name, need in needs.items():
            c.execute(r.update().where(r.c.topic == name).values(keep_from=need))
        c.execute(t.update().where(t.c.name == "large").values(entry_bytes=200.0))
        c.execute(t.update().where(t.c.name == "gone").values(quarantined="for the test"))
    schema.move_clock(db, 10)

    due = WalTurns(db, TERMS).pages()

    assert [its for page in due.pages for its in WalTurns(db, TERMS).names(page)] == ["large", "many"]
    assert (due.pages[0].first, due.pages[-1].last) == ("large", "many")
