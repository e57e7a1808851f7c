"""Marks with as many and as long keys as the contract permits take a bounded part of a worker's memory."""

from sexton.contract import NewMark
from sexton.recycle.pipeline.model import Cursor
from tests.support.claims import FAR_MS
from tests.support.rig import Rig


def test_a_worker_reads_few_marks_of_many_keys_at_once(rig: Rig) -> None:
    keys = tuple(f"{n:01000}" for n in range(1_000))
    rig.mark("dropped", *(NewMark(id=f"m{n}", vault="disk", keys=keys) for n in range(12)))
    pages: list[list[str]] = []
    after = Cursor()
    while due := rig.stores.due_marks.select_due("shop", "dropped", FAR_MS, after, 1_000):
        pages.append([mark.id for mark in due])
        after = Cursor(retention_starts_at=due[-1].retention_starts_at, id=due[-1].id)

    assert [len(page) for page in pages] == [5, 5, 2]
    assert sorted(id_ for page in pages for id_ in page) == sorted(f"m{n}" for n in range(12))
