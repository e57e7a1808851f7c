"""`sexton why` over all instances: what one owner writes neither hides nor invents what is shown of another one."""

from collections import Counter

import pytest
from sqlalchemy import insert, text

from sexton.contract import NewMark
from sexton.insight.views import Story
from sexton.insight.why import story as why
from sexton.owners.catalog.owner import CatalogOwner
from sexton.owners.plugin import OwnerContext
from tests.support.claims import claim, token
from tests.support.rig import Rig
from tests.support.stories import stories_of
from tests.support.transactions import owner_write


def instances_of(found: list[Story], event: str) -> Counter[str]:
    return Counter(s.instance for s in found if any(e.event == event for e in s.events))


@pytest.fixture
def two(rig: Rig) -> Rig:
    rig.instance("blog")
    return rig


def test_a_row_of_a_view_is_never_a_story_of_another_instance(two: Rig) -> None:
    with owner_write(two.db) as c:
        for name in ("of_shop", "of_both"):
            c.execute(text(f"CREATE TABLE {name} (instance text, kind text, id text, vault text, key text)"))
            for instance in ("'shop'", "'blog'", "'lake'", "NULL"):
                c.execute(text(f"INSERT INTO {name} VALUES ({instance}, 'file', '{name}', 'disk', 'x')"))
    two.registry.set_live_view("shop", "public.of_shop")

    assert instances_of(stories_of(two, "x"), "live") == {"shop": 2}
    assert instances_of(stories_of(two, "x", "shop"), "live") == {"shop": 2}
    assert instances_of(stories_of(two, "x", "blog"), "live") == {}

    for instance in ("shop", "blog"):
        two.registry.set_live_view(instance, "public.of_both")

    assert instances_of(stories_of(two, "x"), "live") == {"shop": 1, "blog": 1, why.ANY: 1}
    assert instances_of(stories_of(two, "x", "blog"), "live") == {"blog": 2}


def test_marks_of_one_instance_hide_none_of_another(two: Rig) -> None:
    many = [NewMark(id=f"m{n}", vault="disk", keys=("x",)) for n in range(why.MAX_STORIES + 1)]
    two.mark("dropped", *many)
    two.mark("dropped", NewMark(id="own", vault="disk", keys=("x",)), instance="blog")

    found = stories_of(two, "x")

    assert instances_of(found, "marked") == {"shop": why.MAX_STORIES, "blog": 1}
    assert instances_of(found, "more") == {"shop": 1}
    assert instances_of(stories_of(two, "x", "blog"), "more") == {}


def test_rows_of_a_view_that_are_left_out_are_reported(two: Rig) -> None:
    with owner_write(two.db) as c:
        c.execute(text("CREATE TABLE many (kind text, id text, vault text, key text)"))
        for n in range(why.MAX_STORIES + 1):
            c.execute(text(f"INSERT INTO many VALUES ('file', '{n}', 'disk', 'x')"))
    two.registry.set_live_view("shop", "public.many")

    found = stories_of(two, "x")

    assert instances_of(found, "live") == {"shop": why.MAX_STORIES}
    assert instances_of(found, "more") == {"shop": 1}


def test_live_views_that_time_is_left_for_are_read(two: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with owner_write(two.db) as c:
        for instance in ("shop", "blog"):
            c.execute(text(f"CREATE TABLE of_{instance} (kind text, id text, vault text, key text)"))
            c.execute(text(f"INSERT INTO of_{instance} VALUES ('file', 'f', 'disk', 'x')"))
    for instance in ("shop", "blog"):
        two.registry.set_live_view(instance, f"public.of_{instance}")
    assert instances_of(stories_of(two, "x"), "live") == {"shop": 1, "blog": 1}

    monkeypatch.setattr(why, "VIEWS_SECONDS", -1)
    found = stories_of(two, "x")

    assert instances_of(found, "live") == {}
    assert instances_of(found, "owner_silent") == {"shop": 1, "blog": 1}
    assert all(f"ask for instance {s.instance} alone" in s.events[0].text for s in found)


def test_a_stored_file_names_a_mark_of_its_own_instance_only(two: Rig) -> None:
    for instance in ("shop", "blog"):
        two.mark("dropped", NewMark(id="m", vault="disk", prefix="elsewhere/"), instance=instance)
    two.later(10_801)
    claim(two, token(two), "dropped", "m")

    found = stories_of(two, "data/m.dat")

    assert instances_of(found, "marked") == {"shop": 1}


def test_a_search_that_takes_too_long_is_reported(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "SEARCH_SECONDS", 1)
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("x",)))

    with rig.db.write() as c:
        c.execute(text("LOCK TABLE sexton.mark IN ACCESS EXCLUSIVE MODE"))
        [slow] = stories_of(rig, "x")

    assert [e.event for e in slow.events] == ["incomplete"]
    assert "not complete" in slow.events[0].text
    assert instances_of(stories_of(rig, "x"), "marked") == {"shop": 1}


@pytest.mark.slow
def test_why_asks_many_catalogs(rig: Rig) -> None:
    others = rig.db.t.instance
    with rig.db.write() as c:
        shop = {"mode": "enabled", "owner": "catalog", "knows_live": True}
        c.execute(insert(others), [{"id": f"catalog-{n}", **shop} for n in range(1_100)])
    rig.owner = CatalogOwner(OwnerContext(rig.db, rig.registry))

    assert len(stories_of(rig, "data/12/ab-1_0.dat")) == 1_100  # none of these catalogs has tables
