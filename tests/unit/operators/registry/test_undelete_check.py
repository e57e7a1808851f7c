"""A prefix search returns the keys that an undelete and a mark have in common."""

from sexton.operators.registry.undelete_check import any_key_under, common_folder


def test_a_prefix_finds_any_key_under_it() -> None:
    prefixes = {"a/": True, "a/2": True, "b": True, "a/3": False, "c": False, "": True}

    assert {prefix: any_key_under(["a/1", "a/2/x", "b"], prefix) for prefix in prefixes} == prefixes
    assert any_key_under([], "") is False


def test_the_common_folder_contains_every_key() -> None:
    folders = {
        ("d/1/x",): "d/1/x",
        ("d/1/x", "d/1/y"): "d/1/",
        ("d/1/x", "d/12/x"): "d/",
        ("d/1", "d/1/x"): "d/",
        ("a", "b"): "",
        ("d/1", "d/1"): "d/",
    }

    assert {keys: common_folder(list(keys)) for keys in folders} == folders
