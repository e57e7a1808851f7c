"""An instance names its live view; a view that no instance names is neither read nor overlooked."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.owners.plugins import add_instance
from sexton.owners.port import NoLiveSide, OwnerSilent
from sexton.recycle.model import RoundReport
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put
from tests.support.transactions import owner_write

KEY, OTHER = "data/t1/a.dat", "data/t2/b.dat"


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """A vault with two files, each marked as garbage."""
    place = rig.local(tmp_path / "v")
    for name, key in (("m1", KEY), ("m2", OTHER)):
        put(place, key)
        rig.mark("dropped", NewMark(id=name, vault="disk", keys=(key,)))
    return place


def create(rig: Rig, name: str, key: str = KEY) -> None:
    """Create a view of one live file, which no instance names."""
    with rig.db.write() as c:
        c.exec_driver_sql(f"CREATE VIEW {name} AS SELECT 'f' AS kind, '1' AS id, 'disk' AS vault, '{key}' AS key")


def run(rig: Rig) -> RoundReport:
    rig.later(10_801)
    return rig.round()


def test_a_view_that_is_not_named_keeps_everything(rig: Rig, root: Path) -> None:
    create(rig, "public.sexton_live")

    report = run(rig)

    assert (report.claimed, len(listing(root))) == (0, 2)
    assert all("sexton instance live-view shop public.sexton_live" in why for why in kept_texts(report))
    with pytest.raises(OwnerSilent, match="names no live view"):
        rig.live_side.as_of("shop")


def test_an_operator_may_say_that_there_is_no_view(rig: Rig, root: Path) -> None:
    create(rig, "public.sexton_live")
    rig.registry.set_live_view("shop", "none")

    report = run(rig)

    assert (report.claimed, listing(root)) == (2, {})
    with pytest.raises(NoLiveSide, match="sexton instance live-view shop"):
        rig.live_side.as_of("shop")


def test_only_the_named_view_is_read(rig: Rig, root: Path) -> None:
    create(rig, "public.sexton_live")
    create(rig, "public.ours", OTHER)
    rig.registry.set_live_view("shop", "public.ours")

    report = run(rig)

    assert (kept_texts(report), set(listing(root))) == ({"live": 1}, {OTHER})


def test_a_named_view_that_is_missing_keeps_everything(rig: Rig, root: Path) -> None:
    rig.registry.set_live_view("shop", "public.later")
    before = run(rig)
    create(rig, "public.later")
    after = rig.round()

    assert (before.claimed, after.claimed, set(listing(root))) == (0, 1, {KEY})
    assert all("the live view public.later does not exist" in why for why in kept_texts(before))


def test_instances_with_views_of_their_own_share_no_rows(rig: Rig, root: Path) -> None:
    rig.instance("toys")
    create(rig, "public.ours", OTHER)
    create(rig, "public.theirs")
    rig.registry.set_live_view("shop", "public.ours")
    rig.registry.set_live_view("toys", "public.theirs")

    assert rig.live_side.as_of("shop") is None
    assert kept_texts(run(rig)) == {"live": 1}
    assert set(listing(root)) == {OTHER}


def test_the_age_of_a_copy_is_in_the_view_beside_it(rig: Rig, root: Path) -> None:
    with owner_write(rig.db) as c:
        c.exec_driver_sql("CREATE TABLE ours (kind text, id text, vault text, key text)")
        c.exec_driver_sql("CREATE VIEW ours_as_of AS SELECT now() AS as_of")
    rig.registry.set_live_view("shop", "public.ours")

    report = run(rig)

    assert (report.claimed, len(listing(root))) == (0, 2)
    assert all("last true" in why or "no instant" in why for why in kept_texts(report))


@pytest.mark.parametrize("name", ["", "a b", "pg_temp.sexton_live", "sexton.mark", "a.b.c", "sexton_live", "a;b"])
def test_a_name_that_is_no_owners_view_is_refused(rig: Rig, name: str) -> None:
    with pytest.raises(BadInput, match="no name of a live view"):
        rig.registry.set_live_view("shop", name)


def test_the_catalog_takes_no_view(rig: Rig) -> None:
    add_instance(rig.db, rig.registry, "lake", "catalog")
    with pytest.raises(BadInput, match="needs no view"):
        rig.registry.set_live_view("lake", "public.sexton_live")
