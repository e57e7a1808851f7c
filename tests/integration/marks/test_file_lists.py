"""Which file lists are read: each that may have a key, a prefix or a number, and no list that cannot have it."""

from collections.abc import Callable

import pytest
from sqlalchemy import ColumnElement

from sexton.database.engine import Database
from sexton.marks.model import File
from sexton.marks.sql.file_lists import Span, in_span, may_have_keys, may_have_prefix, read_lists
from tests.support.claims import token
from tests.support.rig import Rig

KEYS = ("d/1", "d/2", "d/3")
Condition = Callable[[Database, int], ColumnElement[bool]]
"""Of a database and a batch."""


def is_read(rig: Rig, condition: Condition) -> bool:
    """Store one list, and return whether it meets the condition."""
    write_token = token(rig)
    rig.stores.files.store(write_token, [File("dropped", "m", "disk", key, 1) for key in KEYS])
    with rig.db.read() as c:
        return any(read_lists(rig.db, c, condition(rig.db, write_token.batch)))


@pytest.mark.parametrize(
    ("smallest", "largest", "expected"),
    [("c", "d/0", False), ("c", "d/1", True), ("d/2", "d/2", True), ("d/3", "e", True), ("d/4", "e", False)],
)
def test_a_list_is_read_for_its_first_and_last_key(rig: Rig, smallest: str, largest: str, expected: bool) -> None:
    assert is_read(rig, lambda db, _: may_have_keys(db, smallest, largest)) == expected


@pytest.mark.parametrize(
    ("prefix", "expected"), [("", True), ("d/", True), ("d/1", True), ("d/3", True), ("d/4", False), ("c/", False)]
)
def test_a_list_is_read_for_a_prefix_of_its_keys(rig: Rig, prefix: str, expected: bool) -> None:
    assert is_read(rig, lambda db, _: may_have_prefix(db, prefix)) == expected


@pytest.mark.parametrize(("after", "to", "expected"), [(0, 0, False), (0, 1, True), (2, 3, True), (3, 9, False)])
def test_a_list_is_read_for_its_first_and_last_number(rig: Rig, after: int, to: int, expected: bool) -> None:
    assert is_read(rig, lambda db, batch: in_span(db, Span(batch, after, to))) == expected
