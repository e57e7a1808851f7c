"""Sexton stores its own files in a vault apart from the vault's objects."""

from functools import partial
from pathlib import Path

import pytest

from sexton.kernel.errors import BadInput
from sexton.storage.port import Vault, VaultFault
from tests.support.places import MARKER, Directory, Place


@pytest.fixture
def place(either: Place) -> Place:
    return either


@pytest.fixture
def vault(place: Place) -> Vault:
    made = place.vault()
    made.write_marker(MARKER)
    return made


def own(vault: Vault, prefix: str) -> list[tuple[str, int]]:
    return [(listed.key, listed.bytes) for page in vault.list_own(prefix) for listed in page]


def test_an_own_file_is_stored_under_sexton_and_read_back(place: Place, vault: Vault) -> None:
    vault.write_own("audit/2026-01-02/7.parquet", b"rows")
    vault.write_own("audit/2026-01-03/8.parquet", b"more rows")
    vault.write_own("other", b"")

    assert vault.read_own("audit/2026-01-02/7.parquet") == b"rows"
    assert place.has("wh/_sexton/audit/2026-01-02/7.parquet")
    assert own(vault, "audit/") == [("audit/2026-01-02/7.parquet", 4), ("audit/2026-01-03/8.parquet", 9)]
    assert own(vault, "audit/2026-01-03") == [("audit/2026-01-03/8.parquet", 9)]
    assert own(vault, "nothing/") == []


def test_writing_again_replaces_and_leaves_no_draft(vault: Vault) -> None:
    vault.write_own("audit/1", b"long, first")
    vault.write_own("audit/1", b"new")

    assert vault.read_own("audit/1") == b"new"
    assert own(vault, "audit/") == [("audit/1", 3)]


def test_an_own_file_may_be_removed_twice(vault: Vault) -> None:
    for name in ("audit/1", "audit/2", "audit/10"):
        vault.write_own(name, b"x")

    for _ in range(2):
        vault.remove_own(["audit/1", "never/there"])

    assert [vault.read_own(name) for name in ("audit/1", "audit/2", "audit/10")] == [None, b"x", b"x"]
    assert [name for name, _ in own(vault, "a")] == ["audit/10", "audit/2"]


def test_more_own_files_than_a_page_are_removed(vault: Vault, place: Place) -> None:
    for name in ("audit/0000", "audit/1001"):
        vault.write_own(name, b"x")

    vault.remove_own([f"audit/{n:04}" for n in range(1_002)])

    assert own(vault, "audit/") == []


def test_the_marker_is_not_an_own_file(vault: Vault, subtests: pytest.Subtests) -> None:
    for name in ["vault.json", "vault.json.bak", ".vault.json.1", "vault.json/x", ".draft-1", "a/.draft-1"]:
        with subtests.test(name=name):
            for attempt in (
                partial(vault.write_own, name, b"x"),
                partial(vault.read_own, name),
                partial(vault.remove_own, ["audit/1", name]),
            ):
                with pytest.raises(BadInput, match="marker"):
                    attempt()
            assert vault.read_marker() == MARKER


def test_a_name_that_could_lead_elsewhere_is_refused(vault: Vault, subtests: pytest.Subtests) -> None:
    for name in ["", "/x", "a//b", "../vault.json", "a/../../x", "a/", "a\0", "\ud800", "_sexton/x"]:
        with subtests.test(name=name):
            with pytest.raises(BadInput):
                vault.write_own(name, b"x")
            with pytest.raises(BadInput):
                vault.remove_own([name])
            assert own(vault, "a") == []


def test_a_list_of_own_files_never_contains_the_marker(vault: Vault) -> None:
    vault.write_own("v", b"x")

    assert own(vault, "v") == [("v", 1)]
    with pytest.raises(BadInput):
        vault.list_own("")


def test_own_files_are_not_objects_of_the_vault(vault: Vault) -> None:
    vault.write_own("audit/1", b"x")

    with pytest.raises(BadInput):
        vault.delete(["_sexton/audit/1"])
    with pytest.raises(BadInput):
        vault.stat(["_sexton/audit/1"])
    assert vault.read_own("audit/1") == b"x"


def test_stat_returns_what_exists_as_a_listing_shows_it(place: Place, vault: Vault) -> None:
    for n in range(20):
        place.put(f"wh/d/{n}", b"x" * n)

    found = vault.stat(["d/19", "d/nothing", "d/3", "e/f/g"])

    listed = {one.key: one for page in vault.list("d/") for one in page}
    assert list(found) == [listed["d/19"], listed["d/3"]]
    assert vault.stat([]) == []


def test_stat_of_a_missing_bucket_is_a_fault(place: Place) -> None:
    with pytest.raises(VaultFault) as caught:
        place.vault(location="nowhere-at-all").stat(["d/1"])
    assert caught.value.reason == "NO_BUCKET"


def test_an_own_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (root / "wh" / "_sexton").mkdir(parents=True)
    (root / "wh" / "_sexton" / "audit").symlink_to(outside)
    vault = Directory(root).vault()

    for attempt in (
        lambda: vault.write_own("audit/1", b"x"),
        lambda: vault.read_own("audit/1"),
        lambda: own(vault, "audit/"),
    ):
        with pytest.raises(VaultFault):
            attempt()
    assert list(outside.iterdir()) == []


def test_a_stat_of_a_local_link_shows_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "wh" / "d").mkdir(parents=True)
    (root / "wh" / "d" / "1").write_text("one")
    (root / "wh" / "d" / "2").symlink_to(root / "wh" / "d" / "1")

    [found] = Directory(root).vault().stat(["d/1", "d/2", "d", "d/1/x"])

    assert (found.key, found.bytes) == ("d/1", 3)
