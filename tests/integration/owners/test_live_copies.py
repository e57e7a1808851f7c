"""A copy as live view counts only while it says that it is fresh; a view that no instance names is not overlooked.

Every key has one meaning. A view that no instance names is not read either.
"""

from pathlib import Path

import pytest
from sqlalchemy import text

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.owners.plugins import add_instance
from sexton.owners.port import NoLiveSide, OwnerSilent
from sexton.recycle.model import RoundReport
from sexton.storage.model import VaultSpec
from sexton.storage.object_names import url_roots
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put
from tests.support.transactions import owner_write

KEY, OTHER = "data/t1/a.dat", "data/t2/b.dat"
COLUMNS = "kind text, id text, vault text, key text"


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """A vault with two files, each marked as garbage."""
    place = rig.local(tmp_path / "v")
    for name, key in (("m1", KEY), ("m2", OTHER)):
        put(place, key)
        rig.mark("dropped", NewMark(id=name, vault="disk", keys=(key,)))
    return place


def run(rig: Rig) -> RoundReport:
    rig.later(10_801)
    return rig.round()


def execute(rig: Rig, *statements: str) -> None:
    with owner_write(rig.db) as c:
        for statement in statements:
            c.execute(text(statement))


def test_n1_a_copy_that_says_no_age_keeps_everything(rig: Rig, root: Path) -> None:
    execute(rig, f"CREATE TABLE sexton_live ({COLUMNS})", f"INSERT INTO sexton_live VALUES ('f', 'x', 'disk', '{KEY}')")

    report = run(rig)

    assert (report.claimed, len(listing(root))) == (0, 2)
    assert all("is a copy" in why and "sexton_live_as_of" in why for why in kept_texts(report))


@pytest.mark.parametrize("place", ["column", "view"])
def test_n1_a_copy_counts_while_it_is_fresh(rig: Rig, root: Path, place: str) -> None:
    rig.later(10_801)
    if place == "column":
        execute(
            rig,
            f"CREATE TABLE sexton_live ({COLUMNS}, as_of timestamptz)",
            f"INSERT INTO sexton_live VALUES ('f', 'x', 'disk', '{KEY}', sexton.now())",
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
    rig.later(3_700)
    stale = rig.round()
    assert (stale.claimed, set(listing(root))) == (0, {KEY})
    assert all("was last true" in why and "live_max_age_seconds" in why for why in kept_texts(stale))


def test_n1_a_copy_says_nothing_of_later_marks(rig: Rig, root: Path) -> None:
    execute(rig, f"CREATE TABLE sexton_live ({COLUMNS})", "CREATE TABLE sexton_live_as_of (as_of timestamptz)")
    execute(rig, "INSERT INTO sexton_live_as_of VALUES (sexton.now())")
    rig.later(60)
    put(root, "data/t3/new.dat")  # written after the refresh, and marked by mistake
    rig.mark("compacted", NewMark(id="new", vault="disk", keys=("data/t3/new.dat",)))
    rig.later(1_801)

    before = rig.round()
    execute(rig, "UPDATE sexton_live_as_of SET as_of = sexton.now()")
    after = rig.round()

    assert (before.claimed, kept_texts(before)) == (0, {"live": 1})
    assert "before the mark was made" in str(before.kept)
    assert after.claimed == 1


def test_n1_an_age_in_the_future_or_none_keeps_everything(rig: Rig, root: Path) -> None:
    execute(
        rig,
        f"CREATE TABLE sexton_live ({COLUMNS})",
        "CREATE TABLE sexton_live_as_of (as_of timestamptz)",
    )
    empty = run(rig)
    execute(rig, "INSERT INTO sexton_live_as_of VALUES (sexton.now() + interval '1 day')")
    ahead = rig.round()

    assert (empty.claimed, ahead.claimed, len(listing(root))) == (0, 0, 2)
    assert all("does not say as of when" in why for why in kept_texts(empty))
    assert all("still to come" in why for why in kept_texts(ahead))


@pytest.mark.parametrize("over", ["", "CREATE VIEW sexton_live AS SELECT * FROM copy"])
def test_n1_a_materialized_view_is_a_copy(rig: Rig, tmp_path: Path, over: str) -> None:
    root = rig.local(tmp_path / "v")
    put(root, KEY)
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=(KEY,)))
    execute(
        rig,
        f"CREATE TABLE file ({COLUMNS})",
        f"CREATE MATERIALIZED VIEW {'copy' if over else 'sexton_live'} AS SELECT * FROM file",
        *([over] if over else []),
    )

    report = run(rig)

    assert (report.claimed, len(listing(root))) == (0, 1)
    assert all("is a copy" in why for why in kept_texts(report))


@pytest.mark.parametrize("shown", ["key", "prefix", "inside"])
def test_n2_a_url_in_the_view_keeps_its_object(rig: Rig, root: Path, shown: str) -> None:
    spec = rig.registry.vault("shop", "disk")
    rig.mark("dropped", NewMark(id="p", vault="disk", prefix="data/t1/"))
    show_urls(rig, spec, {"key": KEY, "prefix": "data/", "inside": "data/t1/new.dat"}[shown])

    report = run(rig)

    kept = {"key": {KEY}, "prefix": {KEY, OTHER}, "inside": set()}[shown]
    assert sum(kept_texts(report).values()) == {"key": 2, "prefix": 3, "inside": 1}[shown]
    assert set(listing(root)) == kept


def show_urls(rig: Rig, spec: VaultSpec, *keys: str) -> None:
    """Create the view with URLs below the vault's root."""
    rows = (f"('f', '{n}', 'disk', '{url_roots(spec)[0]}{key}')" for n, key in enumerate(keys))
    execute(
        rig,
        f"CREATE TABLE file ({COLUMNS})",
        f"INSERT INTO file VALUES {', '.join(rows)}",
        "CREATE VIEW sexton_live AS SELECT * FROM file",
    )


@pytest.mark.parametrize(
    ("vault", "key"),
    [
        ("disk", "s3a://elsewhere/data/t1/a.dat"),
        ("disk", "file:///elsewhere/data/t1/a.dat"),
        ("disk", "/data/t1/a.dat"),
        ("disk", ""),
        ("typo", "{root}data/t1/a.dat"),
        ("disk", "{root}"),
        ("disk", "{root}/data/t1/a.dat"),
    ],
)
def test_n2_a_key_that_means_no_object_keeps_everything(rig: Rig, root: Path, vault: str, key: str) -> None:
    key = key.format(root=url_roots(rig.registry.vault("shop", "disk"))[0])
    execute(
        rig,
        f"CREATE TABLE file ({COLUMNS})",
        f"INSERT INTO file VALUES ('f', '1', '{vault}', '{key}')",
        "CREATE VIEW sexton_live AS SELECT * FROM file",
    )

    report = run(rig)

    assert (report.claimed, len(listing(root))) == (0, 2)
    assert all("write keys relative to the vault" in why for why in kept_texts(report))


VIEW = "public.sexton_live"


def create(rig: Rig, name: str, key: str = KEY) -> None:
    """Create a view of one live file, which no instance names."""
    with rig.db.write() as c:
        c.exec_driver_sql(f"CREATE VIEW {name} AS SELECT 'f' AS kind, '1' AS id, 'disk' AS vault, '{key}' AS key")


def test_a_view_that_is_not_named_keeps_everything(rig: Rig, root: Path) -> None:
    create(rig, VIEW)

    report = run(rig)

    assert (report.claimed, len(listing(root))) == (0, 2)
    assert all(f"sexton instance live-view shop {VIEW}" in why for why in kept_texts(report))
    with pytest.raises(OwnerSilent, match="names no live view"):
        rig.live_side.as_of("shop")


def test_an_operator_may_say_that_there_is_no_view(rig: Rig, root: Path) -> None:
    create(rig, VIEW)
    rig.registry.set_live_view("shop", "none")

    report = run(rig)

    assert (report.claimed, listing(root)) == (2, {})
    with pytest.raises(NoLiveSide, match="sexton instance live-view shop"):
        rig.live_side.as_of("shop")


def test_only_the_named_view_is_read(rig: Rig, root: Path) -> None:
    create(rig, VIEW)
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
        as_of = "now()"
        c.exec_driver_sql(f"CREATE VIEW ours_as_of AS SELECT {as_of} AS as_of")
    rig.registry.set_live_view("shop", "public.ours")

    report = run(rig)

    assert (report.claimed, len(listing(root))) == (0, 2)
    assert all("last true" in why or "no instant" in why for why in kept_texts(report))


def test_a_name_that_is_no_owners_view_is_refused(rig: Rig) -> None:
    for name in ["", "a b", "pg_temp.sexton_live", "sexton.mark", "a.b.c", "a;b"]:
        with pytest.raises(BadInput, match="no name of a live view"):
            rig.registry.set_live_view("shop", name)


def test_the_catalog_takes_no_view(rig: Rig) -> None:
    add_instance(rig.db, rig.registry, "lake", "catalog")
    with pytest.raises(BadInput, match="needs no view"):
        rig.registry.set_live_view("lake", VIEW)
