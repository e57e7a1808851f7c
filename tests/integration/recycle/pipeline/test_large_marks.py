"""Marks with as many and as long keys as the contract permits take a bounded part of a worker's memory."""

from sexton.contract import NewMark
from sexton.recycle.pipeline.model import Cursor
from tests.support.claims import FAR_MS
from tests.support.rig import Rig


def pages_of(rig: Rig) -> list[list[str]]:
    """Read all due marks, as many at once as a worker does."""
    pages: list[list[str]] = []
    after = Cursor()
    while due := rig.stores.due_marks.select_due("shop", "dropped", FAR_MS, after, 1_000):
        pages.append([mark.id for mark in due])
        after = Cursor(retention_starts_at=due[-1].retention_starts_at, id=due[-1].id)
    return pages


def test_a_worker_reads_few_marks_of_many_keys_at_once(rig: Rig) -> None:
    keys = tuple(f"{n:01000}" for n in range(1_000))
    rig.mark("dropped", *(NewMark(id=f"m{n}", vault="disk", keys=keys) for n in range(12)))

    pages = pages_of(rig)

    assert [len(page) for page in pages] == [5, 5, 2]
    assert sorted(id_ for page in pages for id_ in page) == sorted(f"m{n}" for n in range(12))


def test_large_marks_after_many_small_ones_are_read_later(rig: Rig) -> None:
    small = [NewMark(id=f"a{n:03}", vault="disk", keys=(f"{n}.dat",)) for n in range(600)]
    large = [NewMark(id=f"b{n}", vault="disk", keys=tuple(f"{n}-{k}" for k in range(1_000))) for n in range(7)]
    rig.mark("dropped", *small, *large)

    pages = pages_of(rig)

    assert [len(page) for page in pages] == [600 + 5, 2]
    assert pages[0] == sorted(pages[0])
