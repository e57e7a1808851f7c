"""K13: an object is kept however the live view spells its key, and while its row is rewritten."""

import unicodedata
from pathlib import Path

import pytest
from sqlalchemy import text

from sexton.contract import NewMark
from sexton.owners.sql import loose_keys
from sexton.storage.model import VaultSpec
from sexton.storage.object_names import canonical, url_roots
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put
from tests.support.transactions import owner_write

COLUMNS = "kind text, id text, vault text, key text"
ENCODED = {
    "encoded": ("data/t1/a b.dat", "data/t1/a%20b.dat"),
    "encoded twice": ("data/t1/a b.dat", "data/t1/a%2520b.dat"),
    "encoded with its slashes": ("data/t1/a.dat", "data%2Ft1%2Fa.dat"),
    "decoded": ("data/t1/a%20b.dat", "data/t1/a b.dat"),
    "decomposed": ("data/t1/é.dat", unicodedata.normalize("NFD", "data/t1/é.dat")),
    "a prefix": ("data/t1/a b/c.dat", "data/t1/a%20b/"),
}
LOOSE = ENCODED | {
    "a doubled slash": ("data/t1/a.dat", "data//t1/a.dat"),
    "a doubled slash of the object": ("data/t1//a.dat", "data/t1/a.dat"),
    "a letter encoded": ("data/t1/a.dat", "%64ata/t1/a.dat"),
    "a prefix with doubled slash": ("data/t1/a.dat", "data//t1/"),
    "a colon before slashes": ("data/t1/a:/b.dat", "data/t1/a://b.dat"),
}
PREFIXES = ("data/t1/a b/", "data/t1/")
VIEW = "CREATE VIEW shop_live AS SELECT 'file' AS kind, 'x' AS id, 'disk' AS vault, k AS key FROM shown"


def show(rig: Rig, *keys: str) -> None:
    with owner_write(rig.db) as c:
        c.exec_driver_sql(f"CREATE TABLE file ({COLUMNS})")
        for n, key in enumerate(keys):
            literal = key.replace("%", "%%")
            c.exec_driver_sql(f"INSERT INTO file VALUES ('f', '{n}', 'disk', '{literal}')")
        c.exec_driver_sql("CREATE VIEW sexton_live AS SELECT * FROM file")


def kept(rig: Rig, root: Path, key: str, shown: str) -> bool:
    """Mark the object by its key and by a prefix, run a round, and return whether both marks are kept."""
    put(root, key)
    put(root, "other/x.dat")
    rig.mark("dropped", NewMark(id="k", vault="disk", keys=(key,)), NewMark(id="p", vault="disk", prefix="data/t1/"))
    rig.mark("dropped", NewMark(id="x", vault="disk", keys=("other/x.dat",)))
    show(rig, shown, "data/t2/plain.dat")
    rig.later(10_801)

    report = rig.round()

    assert report.claimed == 1  # of the object that is garbage
    return kept_texts(report) == {"live": 2} and len(listing(root)) == 1


@pytest.mark.parametrize("how", LOOSE)
@pytest.mark.parametrize("as_url", [False, True], ids=["key", "url"])
def test_k13_a_live_key_may_be_spelled_in_any_way(rig: Rig, tmp_path: Path, how: str, as_url: bool) -> None:
    root = rig.local(tmp_path / "v")
    key, shown = LOOSE[how]

    assert kept(rig, root, key, url_of(rig) + shown if as_url else shown)


@pytest.mark.parametrize("how", ENCODED)
def test_k13_a_view_too_large_to_read_through_is_looked_up(
    rig: Rig, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loose_keys, "MOST_ROWS", 0)

    assert kept(rig, rig.local(tmp_path / "v"), *ENCODED[how])


@pytest.mark.slow
def test_k13_a_look_that_is_cut_off_finds_what_is_exact(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "data/t1/a.dat")
    rig.mark("dropped", NewMark(id="k", vault="disk", keys=("data/t1/a.dat",)))
    show(rig, "data/t1/a.dat")
    with owner_write(rig.db) as c:
        c.exec_driver_sql("DROP VIEW sexton_live")
        c.exec_driver_sql(
            "CREATE VIEW sexton_live AS SELECT kind, id, vault, "
            "key || (SELECT left(count(*)::text, 0) FROM generate_series(1, 4000000)) AS key FROM file OFFSET 0"  # slow
        )
    monkeypatch.setattr(loose_keys, "LOOK_SECONDS", 0.1)
    rig.later(10_801)

    assert kept_texts(rig.round()) == {"live": 1}


def mark_after_a_look(rig: Rig, root: Path, key: str) -> None:
    """Mark an object by its key after a round has looked through the view, whose look stays trusted."""
    for name in (key, "other/x.dat"):
        put(root, name)
    rig.mark("dropped", NewMark(id="x", vault="disk", keys=("other/x.dat",)))
    show(rig, "data/t2/plain.dat")
    rig.later(10_801)
    assert rig.round().claimed == 1
    rig.owner._looks = {of: look._replace(until=float("inf")) for of, look in rig.owner._looks.items()}

    rig.mark("dropped", NewMark(id="k", vault="disk", keys=(key,)))
    rig.later(10_801)


@pytest.mark.parametrize("how", ["url", "encoded"])
def test_k13_a_view_defined_anew_is_looked_at_again(rig: Rig, tmp_path: Path, how: str) -> None:
    root, key = rig.local(tmp_path / "v"), "data/t1/a.dat"
    mark_after_a_look(rig, root, key)
    shown = url_of(rig) + key if how == "url" else "data%2Ft1%2Fa.dat"
    shown = shown.replace("%", "%%")
    with owner_write(rig.db) as c:
        c.exec_driver_sql("DROP VIEW sexton_live")
        c.exec_driver_sql(f"CREATE VIEW sexton_live AS SELECT kind, id, vault, '{shown}' AS key FROM file")

    assert kept_texts(rig.round()) == {"live": 1}


@pytest.mark.parametrize("how", [how for how in ENCODED if how != "encoded with its slashes"])
def test_k13_a_row_encoded_since_the_last_look_is_found(rig: Rig, tmp_path: Path, how: str) -> None:
    root, (key, shown) = rig.local(tmp_path / "v"), ENCODED[how]
    mark_after_a_look(rig, root, key)
    with owner_write(rig.db) as c:
        c.execute(text("INSERT INTO file VALUES ('f', 'new', 'disk', :key)"), {"key": shown})

    assert kept_texts(rig.round()) == {"live": 1}


def url_of(rig: Rig) -> str:
    spec: VaultSpec = rig.registry.vault("shop", "disk")
    return url_roots(spec)[0]


def test_the_canonical_form_of_every_loose_key_is_the_objects() -> None:
    assert [how for how, (key, shown) in LOOSE.items() if canonical(shown) not in (canonical(key), *PREFIXES)] == []


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    """An instance with the object ``p/q/a``, which its view shows under its own key."""
    root = rig.local(tmp_path / "v")
    put(root, "p/q/a")
    write(rig, "CREATE TABLE shown (k text)", "INSERT INTO shown VALUES ('p/q/a')", VIEW)
    rig.registry.set_live_view("shop", "public.shop_live")
    return root


def write(rig: Rig, *statements: str) -> None:
    with owner_write(rig.db) as c:
        for statement in statements:
            c.exec_driver_sql(statement)


@pytest.mark.parametrize("mark", [{"keys": ("p/q/a",)}, {"prefix": "p/q/"}], ids=["key", "prefix"])
def test_n2_a_row_that_becomes_a_url_keeps_its_object(rig: Rig, root: Path, mark: dict[str, str]) -> None:
    rig.mark("dropped", NewMark(id="m", vault="disk", **mark))  # type: ignore[arg-type]
    rig.later(10_801)
    first = kept_texts(rig.round())
    write(rig, f"UPDATE shown SET k = 'file://{root}/p/q/a'")
    second = kept_texts(rig.round())

    assert first
    assert second
    assert set(listing(root)) == {"p/q/a"}


@pytest.mark.parametrize("type_", ["char(8)", "name"])
@pytest.mark.parametrize("column", ["vault", "key"])
def test_a_view_whose_texts_are_not_exact_keeps_everything(rig: Rig, tmp_path: Path, type_: str, column: str) -> None:
    [why] = kept_by_inexact(rig, tmp_path / "v", column, type_)

    assert "make it text" in why


@pytest.mark.parametrize("column", ["vault", "key"])
def test_a_view_whose_texts_ignore_case_keeps_everything(debian_url: str, tmp_path: Path, column: str) -> None:
    rig = Rig(debian_url).instance()
    write(rig, "CREATE COLLATION shown_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")

    [why] = kept_by_inexact(rig, tmp_path / "v", column, 'text COLLATE "shown_ci"')

    rig.db.close()
    assert "nondeterministic" in why


def kept_by_inexact(rig: Rig, root: Path, column: str, type_: str) -> list[str]:
    """Return why a round keeps an object whose live view has a column of a type that compares other than exactly."""
    rig.local(root)
    put(root, "a")
    types = {"vault": "text", "key": "text", column: type_}
    write(
        rig,
        f"CREATE VIEW shop_live AS SELECT text 'file' AS kind, text 'x' AS id, 'DISK'::{types['vault']} AS vault, "
        f"'other'::{types['key']} AS key",
    )
    rig.registry.set_live_view("shop", "public.shop_live")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a",)))
    rig.later(10_801)
    texts = kept_texts(rig.round())
    assert set(listing(root)) == {"a"}
    assert all(f"shop_live.{column}" in text for text in texts)
    return [*texts]


@pytest.mark.parametrize("shown", ["file://{}/data/a", "d%61ta/a"], ids=["url", "loose"])
def test_n2_a_vault_that_is_added_after_a_look_is_looked_at(
    rig: Rig, root: Path, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loose_keys, "TRUSTED_TIMES", 1_000_000)
    warm = root.parent / "warm"
    put(warm, "data/a")
    key = shown.format(warm)
    literal = key.replace("%", "%%")
    write(rig, "CREATE TABLE other (k text)", f"INSERT INTO other VALUES ('{literal}')", "DROP VIEW shop_live")
    write(rig, f"{VIEW} UNION ALL SELECT 'file', 'y', 'warm', k FROM other")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("p/q/a",)))
    rig.mark("dropped", NewMark(id="n", vault="warm", keys=("data/a",)))
    rig.later(10_801)
    rig.round()
    rig.local(warm, "warm")
    report = rig.round()

    assert report.claimed == 0
    assert set(listing(warm)) == {"data/a"}
