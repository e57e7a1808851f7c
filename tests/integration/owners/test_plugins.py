"""Owners are found by their names; what cannot be found or loaded keeps its own instances' marks, and says so."""

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from sexton.kernel.errors import BadInput
from sexton.owners import plugins
from sexton.owners.owners import Owners
from sexton.owners.plugin import OwnerContext, OwnerKind, OwnerPlugin
from sexton.owners.plugins import add_instance, build
from sexton.owners.port import Owner
from tests.support.command import run
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing

BROKEN = EntryPoint("broken", "no.such.module:PLUGIN", plugins.GROUP)
STRANGE = EntryPoint("strange", "json:dumps", plugins.GROUP)
SHADOW = EntryPoint("sql", "json:dumps", plugins.GROUP)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three packages that declare owners wrongly."""
    points = [BROKEN, STRANGE, SHADOW]
    monkeypatch.setattr(plugins, "entry_points", lambda **_: points)
    plugins.installed.cache_clear()
    yield
    plugins.installed.cache_clear()


def test_owners_that_cannot_be_loaded_are_listed_with_the_reason(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    printed = run(rig, capsys, "owner", "list").out

    assert "No module named 'no'" in printed
    assert "is no sexton.owners.plugin.OwnerPlugin" in re.sub(r"\s+", " ", printed)
    assert "SQL transactions of a database" in re.sub(r"\s+", " ", printed)  # no package replaces an owner of Sexton


def test_an_instance_needs_an_owner_that_works_and_keeps_it(rig: Rig) -> None:
    for owner, options, says in [
        ("folder", {}, "not installed; installed are: broken, catalog, ducklake, http, sql, strange"),
        ("broken", {}, "owner broken of package .* cannot be loaded"),
        (
            "sql",
            {"folder": "x"},
            "the options of owner sql are wrong: folder: is unknown.*has the options: front_end, ",
        ),
        ("http", {}, "the options of owner http are wrong: url: is missing"),
    ]:
        with pytest.raises(BadInput, match=says):
            add_instance(rig.db, rig.registry, "lake", owner, options)
    with pytest.raises(BadInput, match="is registered with owner sql"):
        add_instance(rig.db, rig.registry, "shop", "catalog")


def test_a_kind_states_its_retention(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> OwnerPlugin:
        return OwnerPlugin("forgets one", build=lambda _: Owner(), kinds=(OwnerKind("archived"),))

    forgetful = EntryPoint("forgetful", "forgetful:PLUGIN", plugins.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: load())
    monkeypatch.setattr(plugins, "entry_points", lambda **_: [forgetful])
    plugins.installed.cache_clear()

    with pytest.raises(BadInput, match=r"'archived' states no retention.*kinds\.archived\.retention_seconds"):
        load()
    with pytest.raises(BadInput, match=r"owner forgetful .* cannot be loaded: BadInput: kind 'archived'"):
        add_instance(rig.db, rig.registry, "lake", "forgetful")


def test_options_are_corrected_until_the_list_is_read(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add = ("instance", "add", "lake", "--owner", "http", "--option")
    unasked = run(rig, capsys, *add, "url=http://127.0.0.1:1").err
    (tmp_path / "v").mkdir()
    warned = run(rig, capsys, "vault", "add", "lake", "disk", "--local", str(tmp_path / "v")).err
    corrected = run(rig, capsys, *add, "url=http://127.0.0.1:2").err
    options = rig.registry.instance("lake").owner_options
    rig.sql("UPDATE {}instance SET owner_cursor = '1' WHERE id = 'lake'")

    assert unasked == ""
    assert "127.0.0.1:1" in warned
    assert "repeat sexton instance add with the right ones" in warned
    assert "127.0.0.1:2" in corrected
    assert options == {"url": "http://127.0.0.1:2"}
    with pytest.raises(BadInput, match="is registered with owner http"):
        add_instance(rig.db, rig.registry, "lake", "http", {"url": "http://127.0.0.1:3"})


def test_an_owner_that_is_not_installed_here_keeps_every_mark(rig: Rig, root: Path) -> None:
    rig.drop(root, "data/a.dat", "a")
    rig.sql("UPDATE {}instance SET owner = 'folder'")
    rig.later(10_801)
    context = OwnerContext(rig.db, rig.registry, 3_600)
    rig.recycler = rig.recycler_of(Owners(lambda _: build(context, "folder"), rig.registry.vaults))

    report = rig.round()

    assert listing(root) == {"data/a.dat": 10}
    assert all("owner 'folder' is not installed" in text for text in kept_texts(report))
    assert report.faults > 0
