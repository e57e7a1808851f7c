"""A copy as live view counts only while it says that it is fresh; a view that no instance names is not overlooked.

Every key has one meaning. A view that no instance names is not read either.
"""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.owners.plugins import add_instance
from sexton.owners.port import NoLiveSide, OwnerSilent
from sexton.storage.kinds import url_roots
from tests.integration.owners.views import COLUMNS, execute, show
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put

KEY, OTHER = "data/t1/a.dat", "data/t2/b.dat"


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """A vault with two files, each marked as garbage."""
    place = rig.local(tmp_path / "v")
    for name, key in (("m1", KEY), ("m2", OTHER)):
        rig.drop(place, key, name)
    return place


COPIES = (
    (f"CREATE TABLE sexton_live ({COLUMNS})", "DROP TABLE sexton_live"),
    ("CREATE MATERIALIZED VIEW sexton_live AS SELECT * FROM file", "DROP MATERIALIZED VIEW sexton_live"),
    (
        "CREATE MATERIALIZED VIEW copy AS SELECT * FROM file; CREATE VIEW sexton_live AS SELECT * FROM copy",
        "DROP VIEW sexton_live",
    ),
)


def test_n1_a_copy_that_says_no_age_keeps_everything(rig: Rig, root: Path) -> None:
    execute(rig, f"CREATE TABLE file ({COLUMNS})")
    rig.later(10_801)
    for create_copy, drop_copy in COPIES:
        execute(rig, create_copy)

        report = rig.round()

        assert (report.claimed, len(listing(root))) == (0, 2)
        assert all("is a copy" in why and "sexton_live_as_of" in why for why in kept_texts(report))
        execute(rig, drop_copy)


@pytest.mark.parametrize("place", ["column", "column beside instance", "view"])
def test_n1_a_copy_counts_while_it_is_fresh(rig: Rig, root: Path, place: str) -> None:
    rig.later(10_801)
    if place == "column":
        execute(
            rig,
            f"CREATE TABLE sexton_live ({COLUMNS}, as_of timestamptz)",
            f"INSERT INTO sexton_live VALUES ('f', 'x', 'disk', '{KEY}', sexton.now())",
        )
    elif place == "column beside instance":
        execute(
            rig,
            f"CREATE TABLE sexton_live ({COLUMNS}, as_of timestamptz, instance text)",
            f"INSERT INTO sexton_live VALUES ('f', 'x', 'disk', '{KEY}', sexton.now(), 'shop')",
        )
    else:
        execute(
            rig,
            f"CREATE TABLE sexton_live ({COLUMNS})",
            f"INSERT INTO sexton_live VALUES ('f', 'x', 'disk', '{KEY}')",
            "CREATE TABLE sexton_live_as_of (as_of timestamptz)",
            "INSERT INTO sexton_live_as_of VALUES (sexton.now())",
        )

    fresh = rig.round()

    assert (fresh.claimed, kept_texts(fresh), set(listing(root))) == (1, {"live": 1}, {KEY})
    execute(rig, "UPDATE sexton_live SET key = 'elsewhere'")  # the copy lost a file, and is never refreshed again
    stale = rig.round(after=3_700)
    assert (stale.claimed, set(listing(root))) == (0, {KEY})
    assert all("was last true" in why and "live_max_age_seconds" in why for why in kept_texts(stale))


def test_n1_a_copy_says_nothing_of_later_marks(rig: Rig, root: Path) -> None:
    execute(rig, f"CREATE TABLE sexton_live ({COLUMNS})", "CREATE TABLE sexton_live_as_of (as_of timestamptz)")
    execute(rig, "INSERT INTO sexton_live_as_of VALUES (sexton.now())")
    rig.later(60)
    put(root, "data/t3/new.dat")  # written after the refresh, and marked by mistake
    rig.mark("compacted", NewMark(id="new", vault="disk", keys=("data/t3/new.dat",)))

    before = rig.round(after=1_801)
    execute(rig, "UPDATE sexton_live_as_of SET as_of = sexton.now()")
    after = rig.round()

    assert (before.claimed, kept_texts(before)) == (0, {"live": 1})
    assert "before the mark was made" in str(before.kept)
    assert after.claimed == 1


def test_n1_an_age_in_the_future_or_none_keeps_everything(rig: Rig, root: Path) -> None:
    execute(rig, f"CREATE TABLE sexton_live ({COLUMNS})", "CREATE TABLE sexton_live_as_of (as_of timestamptz)")
    empty = rig.round(after=10_801)
    execute(rig, "INSERT INTO sexton_live_as_of VALUES (sexton.now() + interval '1 day')")
    ahead = rig.round()

    assert (empty.claimed, ahead.claimed, len(listing(root))) == (0, 0, 2)
    assert all("does not say as of when" in why for why in kept_texts(empty))
    assert all("still to come" in why for why in kept_texts(ahead))


def test_n2_a_url_in_the_view_keeps_its_object(rig: Rig, root: Path) -> None:
    url = url_roots(rig.registry.vault("shop", "disk"))[0]
    rig.mark("dropped", NewMark(id="p", vault="disk", prefix="data/t1/"))
    rig.later(10_801)
    for shown, marks, left in (("data/", 3, {KEY, OTHER}), (KEY, 2, {KEY}), ("data/t1/new.dat", 1, set())):
        show(rig, url + shown)

        assert sum(kept_texts(rig.round()).values()) == marks
        assert set(listing(root)) == left


def test_n2_a_key_that_means_no_object_keeps_everything(rig: Rig, root: Path) -> None:
    url = url_roots(rig.registry.vault("shop", "disk"))[0]
    rig.later(10_801)
    for vault, key in (
        ("disk", "s3a://elsewhere/data/t1/a.dat"),
        ("disk", "file:///elsewhere/data/t1/a.dat"),
        ("disk", "/data/t1/a.dat"),
        ("disk", ""),
        ("typo", f"{url}data/t1/a.dat"),
        ("disk", url),
        ("disk", f"{url}/data/t1/a.dat"),
    ):
        show(rig, key, vault=vault)

        report = Rig(rig.url).round()

        assert (report.claimed, len(listing(root))) == (0, 2)
        assert all("write keys relative to the vault" in why for why in kept_texts(report))


VIEW = "public.sexton_live"


def create(rig: Rig, name: str, key: str = KEY) -> None:
    """Create a view of one live file, which no instance names."""
    with rig.db.write() as c:
        c.exec_driver_sql(f"CREATE VIEW {name} AS SELECT 'f' AS kind, '1' AS id, 'disk' AS vault, '{key}' AS key")


def test_a_view_that_is_not_named_keeps_everything(rig: Rig, root: Path) -> None:
    create(rig, VIEW)

    report = rig.round(after=10_801)

    assert (report.claimed, len(listing(root))) == (0, 2)
    assert all(f"sexton instance live-view shop {VIEW}" in why for why in kept_texts(report))
    with pytest.raises(OwnerSilent, match="names no live view"):
        rig.live_side.as_of("shop", lambda: None)
    rig.registry.set_live_view("shop", "none")  # as an operator does who knows better
    assert (rig.round().claimed, listing(root)) == (2, {})
    with pytest.raises(NoLiveSide, match="sexton instance live-view shop"):
        rig.live_side.as_of("shop", lambda: None)


def test_a_named_view_that_is_missing_keeps_everything(rig: Rig, root: Path) -> None:
    rig.registry.set_live_view("shop", "public.later")
    before = rig.round(after=10_801)
    create(rig, "public.later")
    after = rig.round()

    assert (before.claimed, after.claimed, set(listing(root))) == (0, 1, {KEY})
    assert all("the live view public.later does not exist" in why for why in kept_texts(before))


def test_instances_with_views_of_their_own_share_no_rows(rig: Rig, root: Path) -> None:
    rig.instance("toys")
    create(rig, "public.ours", OTHER)
    for name in (VIEW, "public.theirs"):
        create(rig, name)
    rig.registry.set_live_view("shop", "public.ours")
    rig.registry.set_live_view("toys", "public.theirs")

    assert rig.live_side.as_of("shop", lambda: None) is None
    assert kept_texts(rig.round(after=10_801)) == {"live": 1}
    assert set(listing(root)) == {OTHER}


def test_the_age_of_a_copy_is_in_the_view_beside_it(rig: Rig, root: Path) -> None:
    execute(rig, f"CREATE TABLE ours ({COLUMNS})", "CREATE VIEW ours_as_of AS SELECT now() AS as_of")
    rig.registry.set_live_view("shop", "public.ours")

    report = rig.round(after=10_801)

    assert (report.claimed, len(listing(root))) == (0, 2)
    assert all("last true" in why or "no instant" in why for why in kept_texts(report))


def test_only_an_owners_own_view_can_be_named(rig: Rig) -> None:
    for name in ["", "a b", "pg_temp.sexton_live", "sexton.mark", "a.b.c", "a;b"]:
        with pytest.raises(BadInput, match="no name of a live view"):
            rig.registry.set_live_view("shop", name)
    add_instance(rig.db, rig.registry, "lake", "catalog")
    with pytest.raises(BadInput, match="needs no view"):
        rig.registry.set_live_view("lake", VIEW)
