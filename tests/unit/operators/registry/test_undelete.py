"""The place that an undelete of keys holds."""

from sexton.operators.registry.undelete import common_folder


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
