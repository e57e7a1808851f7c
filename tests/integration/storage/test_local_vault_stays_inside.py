"""A local vault lists and deletes only regular files below its root, and follows no link."""

import os
from pathlib import Path

import pytest

from sexton.storage.model import KeyOutcome
from sexton.storage.port import Vault, VaultFault
from tests.support.places import MARKER, Directory, keys


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("keep")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "wh" / "d").mkdir(parents=True)
    (folder / "wh" / "d" / "1").write_text("one")
    return folder


@pytest.fixture
def vault(root: Path) -> Vault:
    return Directory(root).vault()


def test_links_are_neither_listed_nor_deleted_through(root: Path, vault: Vault, outside: Path) -> None:
    (root / "wh" / "d" / "link").symlink_to(outside)
    (root / "wh" / "e").symlink_to(root / "wh" / "d")
    (root / "wh" / "d" / "file").symlink_to(outside / "precious")

    results = vault.delete(["d/link/precious", "e/1", "d/file"])

    assert [result.outcome for result in results] == [KeyOutcome.FAILED] * 3
    assert "symbolic link" in results[0].reason
    assert (outside / "precious").read_text() == "keep"
    assert keys(vault, "d/") == ["d/1"]
    with pytest.raises(VaultFault, match="symbolic link"):
        keys(vault, "d/link/")


def test_a_linked_prefix_is_a_fault(tmp_path: Path, root: Path, outside: Path) -> None:
    (root / "linked").symlink_to(outside)
    vault = Directory(root).vault("linked/")

    for attempt in (lambda: vault.delete(["precious"]), lambda: keys(vault, "p"), lambda: vault.write_marker(MARKER)):
        with pytest.raises(VaultFault):
            attempt()
    assert [entry.name for entry in outside.iterdir()] == ["precious"]


def test_files_are_measured_and_directories_kept_even_if_empty(root: Path, vault: Vault) -> None:
    results = vault.delete(["d", "d/", "d/1", "d/2", "d/1"])

    assert [(result.outcome, result.bytes) for result in results] == [
        (KeyOutcome.FAILED, None),
        (KeyOutcome.FAILED, None),
        (KeyOutcome.DELETED, 3),
        (KeyOutcome.ABSENT, None),
        (KeyOutcome.ABSENT, None),
    ]
    assert (root / "wh" / "d").is_dir()


def test_a_file_in_the_place_of_a_folder_is_kept(root: Path, vault: Vault) -> None:
    assert vault.delete(["d/1/x"])[0].outcome is KeyOutcome.FAILED
    assert keys(vault, "d/1/") == []
    assert (root / "wh" / "d" / "1").exists()


def test_an_unmounted_prefix_is_a_fault_not_an_absence(root: Path, vault: Vault) -> None:
    (root / "wh").rename(root / "away")

    for attempt in (lambda: vault.delete(["d/1"]), lambda: keys(vault, "d/")):
        with pytest.raises(VaultFault, match=": NO_BUCKET:"):
            attempt()
    assert vault.read_marker() is None


def test_a_name_that_is_not_utf8_stops_the_listing(root: Path, vault: Vault) -> None:
    Path(os.fsdecode(os.fsencode(root / "wh" / "d") + b"/\xff")).write_text("x")

    with pytest.raises(VaultFault, match="BAD_REPLY"):
        keys(vault, "d/")


def test_a_forbidden_directory_fails_keys_and_listings(root: Path, vault: Vault) -> None:
    (root / "wh" / "d").chmod(0o500)
    if os.access(root / "wh" / "d", os.W_OK):
        pytest.skip("needs a user who is not root")
    assert vault.delete(["d/1"])[0].outcome is KeyOutcome.FAILED
    (root / "wh" / "d").chmod(0o000)

    with pytest.raises(VaultFault, match="DENIED"):
        keys(vault, "d/")
    (root / "wh" / "d").chmod(0o700)
    assert keys(vault, "d/") == ["d/1"]


def test_a_marker_leaves_no_draft_behind(root: Path, vault: Vault) -> None:
    vault.write_marker(MARKER)
    with pytest.raises(VaultFault, match="FOREIGN_MARKER"):
        vault.write_marker(MARKER)

    assert [entry.name for entry in (root / "wh" / "_sexton").iterdir()] == ["vault.json"]
