"""What was done is said in sentences that name it."""

from types import SimpleNamespace

from sexton.interfaces.sentences import SENTENCES


def test_a_region_that_is_not_shown_is_reset_all_the_same() -> None:
    standing = SimpleNamespace(topic=SimpleNamespace(name="orders"), lines=())

    [line] = SENTENCES["wal reset"](standing, {"region": "r9"})

    assert line == "region r9 of topic orders is reset; see: sexton wal explain orders"


def test_a_removed_consumer_is_named_with_its_log() -> None:
    removed = SENTENCES["binlog remove-consumer"]
    values = {"name": "lisbon", "db": "sales", "table": "orders"}

    assert list(removed(None, values)) == ["consumer lisbon of sales/orders no longer blocks deletions"]
    assert list(removed(None, values | {"table": None})) == ["consumer lisbon of sales no longer blocks deletions"]
