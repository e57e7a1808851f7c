"""What was done is said in sentences that name it."""

from types import SimpleNamespace

from sexton.interfaces.sentences import SENTENCES


def test_a_region_that_is_not_shown_is_reset_all_the_same() -> None:
    standing = SimpleNamespace(topic=SimpleNamespace(name="orders"), lines=())

    [line] = SENTENCES["wal reset"](standing, {"region": "r9"})

    assert line == "region r9 of topic orders is reset; see: sexton wal explain orders"
