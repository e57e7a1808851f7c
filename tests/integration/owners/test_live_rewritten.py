"""An object that the live view shows at each moment is kept: while its row is rewritten, and however texts compare."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.owners.sql import loose_keys
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put
from tests.support.transactions import owner_write

VIEW = "CREATE VIEW shop_live AS SELECT 'file' AS kind, 'x' AS id, 'disk' AS vault, k AS key FROM shown"


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
