"""A prefix search returns the keys that an undelete and a mark have in common."""

import pytest

from sexton.operators.registry.undelete_check import any_key_under, common_folder


@pytest.mark.parametrize(
    ("prefix", "found"), [("a/", True), ("a/2", True), ("b", True), ("a/3", False), ("c", False), ("", True)]
)
def test_a_prefix_finds_any_key_under_it(prefix: str, found: bool) -> None:
    assert any_key_under(["a/1", "a/2/x", "b"], prefix) is found


def test_no_keys_are_under_no_prefix() -> None:
    assert any_key_under([], "") is False


@pytest.mark.parametrize(
    ("keys", "folder"),
    [
        (["d/1/x"], "d/1/x"),
        (["d/1/x", "d/1/y"], "d/1/"),
        (["d/1/x", "d/12/x"], "d/"),
        (["d/1", "d/1/x"], "d/"),
        (["a", "b"], ""),
        (["d/1", "d/1"], "d/"),
    ],
)
def test_the_common_folder_contains_every_key(keys: list[str], folder: str) -> None:
    assert common_folder(keys) == folder
