"""Which file lists are read: each that may have a key, a prefix or a number, and no list that cannot have it."""

from sqlalchemy import ColumnElement

from sexton.contract import NewMark
from sexton.marks.model import File, FilePage, Ref, Span
from sexton.marks.sql.file_lists import find_spans, in_span, may_have_keys, may_have_prefix, of_instance, read_lists
from sexton.protection.sql.admission import claimed_files
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import claim, token
from tests.support.files import stored_files
from tests.support.rig import Rig

KEYS = ("d/2", "d/3", "d/1")
"""Not in order: a list has the keys of one mark after those of another."""
KEY_RANGES = [("c", "d/0", False), ("c", "d/1", True), ("d/2", "d/2", True), ("d/3", "e", True), ("d/4", "e", False)]
PREFIXES = [("", True), ("d/", True), ("d/1", True), ("d/3", True), ("d/4", False), ("c/", False)]
SPANS = [(0, 0, False), (0, 1, True), (2, 3, True), (3, 9, False)]


def test_a_list_is_read_for_its_keys_prefixes_and_numbers(rig: Rig) -> None:
    write_token = token(rig)
    rig.stores.files.store(write_token, [File("dropped", "m", "disk", key, 1) for key in KEYS])

    def is_read(condition: ColumnElement[bool]) -> bool:
        with rig.db.read() as c:
            return any(read_lists(rig.db, c, condition))

    for smallest, largest, expected in KEY_RANGES:
        assert is_read(may_have_keys(rig.db, smallest, largest)) == expected, (smallest, largest)
    for prefix, expected in PREFIXES:
        assert is_read(may_have_prefix(rig.db, prefix)) == expected, prefix
    for after, to, expected in SPANS:
        assert is_read(in_span(rig.db, Span(write_token.batch, after, to))) == expected, (after, to)


def test_lists_of_all_batches_are_read_in_pages(rig: Rig) -> None:
    for number in range(2):
        write_token = token(rig, number=number)
        for key in KEYS:
            rig.stores.files.store(write_token, [File("dropped", "m", "disk", key, 1)])

    with rig.db.read() as c:
        read = [files.first for files in read_lists(rig.db, c, of_instance(rig.db, "shop"), at_once=3)]

    assert read == [1, 2, 3, 1, 2, 3]


def test_a_filter_is_tested_by_files_of_all_batches(rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"data/{name}.dat",)) for name in "ab"))
    for number, name in enumerate("ab"):
        claim(rig, token(rig, number=number), "dropped", name)

    pages = list(claimed_files(rig.db, "shop"))

    assert pages == [[("disk", "data/a.dat")], [("disk", "data/b.dat")]]


def test_marks_of_two_chunks_have_two_spans(rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"data/{name}.dat",)) for name in "ab"))
    write_token = token(rig)
    claim(rig, write_token, "dropped", "a", "b")
    rig.sql("UPDATE {}mark SET files_after = 0, last_file = 1 WHERE id = 'a'")
    rig.sql("UPDATE {}mark SET files_after = 1, last_file = 2 WHERE id = 'b'")

    with rig.db.read() as c:
        spans = find_spans(rig.db, c, "shop", [Ref("dropped", "a"), Ref("dropped", "b")])

    assert spans == [Span(write_token.batch, after=0, to=1), Span(write_token.batch, after=1, to=2)]


def test_saved_results_change_no_other_list(rig: Rig) -> None:
    write_token = token(rig)
    for name in "abc":
        rig.stores.files.store(write_token, [File("dropped", name, "disk", name, 1)])

    rig.stores.outcomes.record(write_token, FilePage("disk", [2], ["b"]), [KeyResult("b", KeyOutcome.DELETED)])
    after_update = [(file.key, file.outcome) for file in stored_files(rig.db)]
    rig.stores.files.drop(write_token, [Ref("dropped", "c")])

    assert after_update == [("a", None), ("b", KeyOutcome.DELETED), ("c", None)]
    assert [file.key for file in stored_files(rig.db)] == ["a", "b"]
