"""K13: an object is kept however the live view spells its key, and while its row is rewritten."""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.owners.sql import live_keys
from sexton.storage.kinds import url_roots
from sexton.storage.model import VaultSpec
from sexton.storage.policy import canonical
from tests.integration.owners.views import execute, new_worker, show
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put

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


def kept(rig: Rig, root: Path, key: str, shown: str) -> bool:
    """Mark the object by its key and by a prefix, run a round of a new worker, and return whether both are kept."""
    with new_worker(rig) as worker:
        path, garbage = put(root, key), NewMark(id=f"x{worker.count('mark_history')}", vault="disk", keys=("other/x",))
        put(root, "other/x")
        by_key = NewMark(id="k", vault="disk", keys=(key,))
        by_prefix = NewMark(id="p", vault="disk", prefix="data/t1/")
        worker.mark("dropped", by_key, by_prefix, garbage)
        show(worker, shown, "data/t2/plain.dat")
        report = worker.round(after=10_801)
    is_kept = (report.claimed, kept_texts(report), path.exists()) == (1, {"live": 2}, True)
    path.unlink(missing_ok=True)
    return is_kept


@pytest.mark.parametrize("as_url", [False, True], ids=["key", "url"])
def test_k13_a_live_key_may_be_spelled_in_any_way(rig: Rig, tmp_path: Path, as_url: bool) -> None:
    root = rig.local(tmp_path / "v")
    begin = url_of(rig) if as_url else ""

    assert [how for how, (key, shown) in LOOSE.items() if not kept(rig, root, key, begin + shown)] == []


def test_k13_a_view_too_large_to_read_through_is_looked_up(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_keys, "MOST_ROWS", 0)
    root = rig.local(tmp_path / "v")

    assert [how for how, (key, shown) in ENCODED.items() if not kept(rig, root, key, shown)] == []


def test_k13_a_url_of_any_scheme_makes_the_view_unreadable(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    for n, scheme in enumerate(("S3:/", "file:", "Weird+2:/")):
        with new_worker(rig) as worker:
            worker.drop(root, "data/t1/a.dat", f"k{n}")
            show(worker, f"{scheme}/bucket/data/t1/a.dat")
            report = worker.round(after=10_801)

        [text] = kept_texts(report)
        assert (report.claimed, "write keys relative to the vault" in text) == (0, True), scheme


@pytest.mark.slow
def test_k13_a_look_that_is_cut_off_finds_what_is_exact(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = rig.local(tmp_path / "v")
    rig.drop(root, "data/t1/a.dat", "k")
    show(rig, "data/t1/a.dat")
    execute(
        rig,
        "CREATE OR REPLACE VIEW sexton_live AS SELECT kind, id, vault, "
        "key || (SELECT left(count(*)::text, 0) FROM generate_series(1, 4000000)) AS key FROM file OFFSET 0",  # slow
    )
    monkeypatch.setattr(live_keys, "LOOK_SECONDS", 0.1)
    rig.later(10_801)

    assert kept_texts(rig.round()) == {"live": 1}


@contextmanager
def marked_after_a_look(rig: Rig, root: Path, key: str) -> Iterator[Rig]:
    """Mark an object by its key after a worker has looked through the view, whose look stays trusted; yield it."""
    with new_worker(rig) as worker:
        for name in (key, "other/x"):
            put(root, name)
        garbage = f"x{worker.count('mark_history')}"
        worker.mark("dropped", NewMark(id=garbage, vault="disk", keys=("other/x",)))
        show(worker, "data/t2/plain.dat")
        assert worker.round(after=10_801).claimed == 1
        looks = {of: look._replace(until=float("inf")) for of, look in worker.owner._looks.items()}
        worker.owner._looks = looks

        worker.mark("dropped", NewMark(id="k", vault="disk", keys=(key,)))
        worker.later(10_801)
        yield worker


def test_k13_a_view_defined_anew_is_looked_at_again(rig: Rig, tmp_path: Path) -> None:
    root, key = rig.local(tmp_path / "v"), "data/t1/a.dat"
    for shown in (url_of(rig) + key, "data%2Ft1%2Fa.dat"):
        with marked_after_a_look(rig, root, key) as worker:
            view = f"SELECT kind, id, vault, '{shown}' AS key FROM file"
            execute(worker, "DROP VIEW sexton_live", f"CREATE VIEW sexton_live AS {view}")

            assert kept_texts(worker.round()) == {"live": 1}


def test_k13_a_row_encoded_since_the_last_look_is_found(rig: Rig, tmp_path: Path) -> None:
    root = rig.local(tmp_path / "v")
    for how, (key, shown) in ENCODED.items():
        if how != "encoded with its slashes":
            with marked_after_a_look(rig, root, key) as worker:
                execute(worker, f"INSERT INTO file VALUES ('f', 'new', 'disk', '{shown}')")

                assert kept_texts(worker.round()) == {"live": 1}, how


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
    execute(rig, "CREATE TABLE shown (k text)", "INSERT INTO shown VALUES ('p/q/a')", VIEW)
    rig.registry.set_live_view("shop", "public.shop_live")
    return root


def test_n2_a_row_that_becomes_a_url_keeps_its_object(rig: Rig, root: Path) -> None:
    for mark in (NewMark(id="m", vault="disk", keys=("p/q/a",)), NewMark(id="m", vault="disk", prefix="p/q/")):
        execute(rig, "UPDATE shown SET k = 'p/q/a'")
        with new_worker(rig) as worker:
            worker.mark("dropped", mark)
            worker.later(10_801)
            first = kept_texts(worker.round())
            execute(worker, f"UPDATE shown SET k = 'file://{root}/p/q/a'")
            second = kept_texts(worker.round())

        assert first
        assert second
        assert set(listing(root)) == {"p/q/a"}


def test_a_view_whose_texts_are_not_exact_keeps_everything(rig: Rig, tmp_path: Path) -> None:
    for type_ in ("char(8)", "name"):
        for why in reasons_to_keep(rig, tmp_path / "v", type_):
            assert "make it text" in why


def test_a_view_whose_texts_ignore_case_keeps_everything(debian_url: str, tmp_path: Path) -> None:
    rig = Rig(debian_url).instance()
    execute(rig, "CREATE COLLATION shown_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")

    for why in reasons_to_keep(rig, tmp_path / "v", 'text COLLATE "shown_ci"'):
        assert "nondeterministic" in why
    rig.db.close()


def reasons_to_keep(rig: Rig, root: Path, type_: str) -> list[str]:
    """Return why rounds keep an object whose view has a vault, then a key of a type that compares not exactly."""
    if not root.exists():
        rig.local(root)
    put(root, "a")
    reasons = []
    for column in ("vault", "key"):
        types = {"vault": "text", "key": "text", column: type_}
        shown = f"'DISK'::{types['vault']} AS vault, 'other'::{types['key']} AS key"
        view = f"CREATE VIEW shop_live AS SELECT text 'file' AS kind, text 'x' AS id, {shown}"
        execute(rig, "DROP VIEW IF EXISTS shop_live", view)
        rig.registry.set_live_view("shop", "public.shop_live")
        with new_worker(rig) as worker:
            worker.mark("dropped", NewMark(id="m", vault="disk", keys=("a",)))
            worker.later(10_801)
            [why] = kept_texts(worker.round())
        assert set(listing(root)) == {"a"}
        assert f"shop_live.{column}" in why
        reasons.append(why)
    return reasons


def test_n2_a_vault_that_is_added_after_a_look_is_looked_at(
    rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_keys, "TRUSTED_TIMES", 1_000_000)
    for vault, shown in (("url", f"file://{root.parent}/url/data/a"), ("loose", "d%61ta/a")):
        put(root.parent / vault, "data/a")
        more = f"UNION ALL SELECT 'file', 'y', '{vault}', '{shown}' FROM shown"
        execute(rig, "DROP VIEW shop_live", f"{VIEW} {more}")
        with new_worker(rig) as worker:
            worker.mark("dropped", NewMark(id="m", vault="disk", keys=("p/q/a",)))
            worker.mark("dropped", NewMark(id="n", vault=vault, keys=("data/a",)))
            worker.round(after=10_801)
            worker.local(root.parent / vault, vault)
            report = worker.round()

        assert report.claimed == 0
        assert set(listing(root.parent / vault)) == {"data/a"}
