"""A listing is accepted only in order, and a page only with complete columns."""

from dataclasses import replace

import pytest

from sexton.storage.s3.listing import OrderProof
from sexton.storage.s3.listing_page import Columns, PageCounts, PageTexts, UnreadableReply

COUNTS = PageCounts(objects=2, sized_keys=2, etags=2, dates=2, folders=1, named_folders=1, has_split_text=False)
TEXTS = PageTexts(keys=["a", "b"], sizes=["1", "2"], etags=["e", "f"], dates=["d", "d"], folders=["c/"])


def accepts(*pages: list[str], allow_path_order: bool = True) -> bool:
    """Return whether every page of a listing continues the order."""
    proof = OrderProof(allow_path_order=allow_path_order)
    return all(proof.extend(page) for page in pages)


@pytest.mark.parametrize(
    "pages",
    [
        [["a-x", "a/x"], [], ["a0"]],
        [["a/x", "a-x"], ["a0"]],
        [["a/x"], ["a-x", "a0"]],
        [[], []],
    ],
    ids=["byte order", "path order", "path order across pages", "empty pages"],
)
def test_byte_order_and_path_order_are_accepted(pages: list[list[str]]) -> None:
    assert accepts(*pages)


@pytest.mark.parametrize(
    "pages",
    [
        [["b", "a"]],
        [["a", "a"]],
        [["a", "b"], ["b", "c"]],
        [["a", "b"], ["a", "b"]],
        [["a-x", "a/x"], ["b/x", "b-x"]],
    ],
    ids=["steps back", "a key twice", "overlapping pages", "a repeated page", "first one order, then the other"],
)
def test_a_key_that_steps_back_is_refused(pages: list[list[str]]) -> None:
    assert not accepts(*pages)


def test_path_order_is_refused_for_a_range_of_keys() -> None:
    assert not accepts(["a/x", "a-x"], allow_path_order=False)


def test_a_complete_page_is_valid() -> None:
    COUNTS.validate(TEXTS)


@pytest.mark.parametrize(
    ("counts", "texts"),
    [
        (replace(COUNTS, has_split_text=True), TEXTS),
        (replace(COUNTS, sized_keys=1), TEXTS),
        (COUNTS, replace(TEXTS, keys=["a"])),
        (COUNTS, replace(TEXTS, sizes=["1"])),
        (replace(COUNTS, objects=3), TEXTS),
        (replace(COUNTS, named_folders=0), TEXTS),
        (COUNTS, replace(TEXTS, folders=[])),
    ],
    ids=["split text", "two keys and none", "no key", "no size", "an empty object", "unnamed folder", "empty folder"],
)
def test_a_page_without_one_key_and_size_per_object_is_refused(counts: PageCounts, texts: PageTexts) -> None:
    with pytest.raises(UnreadableReply):
        counts.validate(texts)


def test_missing_etags_and_dates_do_not_refuse_a_page() -> None:
    replace(COUNTS, etags=0, dates=1).validate(replace(TEXTS, etags=[], dates=["d"]))


def test_columns_are_cut_together() -> None:
    columns = Columns(["a", "b", "c"], [1, 2, 3], ["e", "f", "g"], ["1", "2", "3"])

    assert columns.between(1, 3) == Columns(["b", "c"], [2, 3], ["f", "g"], ["2", "3"])
