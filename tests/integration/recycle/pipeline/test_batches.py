"""A batch that is opened again: what is tried again, whose outcomes are stored, and no number of a file is reused."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sexton.kernel import crash_points
from sexton.marks import file_list
from sexton.marks.model import File, FilePage, LeaseLost, Ref, Span, WriteToken
from sexton.marks.sql.file_lists import in_span, read_lists, save_results
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.parts import Deleter, Deletion
from sexton.recycle.pipeline.sql.batches import verify
from sexton.storage.model import KeyOutcome, KeyResult
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, delete_claimed, hanging_request, range_order
from tests.support.claims import claim, mark_keys, token
from tests.support.crashes import Crash, at_point, crash_at
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.files import stored_files
from tests.support.locks import wait_for_lock_waiter
from tests.support.rig import Rig, listing


def store_keys(rig: Rig, with_: WriteToken, names: str) -> None:
    """Store a file for each letter."""
    rig.stores.files.store(with_, [File("dropped", name, "disk", f"{name}.dat", 1) for name in names])


def test_a_reopened_batch_tries_failed_deletes_again(rig: Rig) -> None:
    mark_keys(rig, "a")
    first = token(rig)
    claim(rig, first, "dropped", "a")
    failed = KeyResult(key="data/a.dat", outcome=KeyOutcome.FAILED, reason="AccessDenied")
    rig.stores.outcomes.record(first, FilePage("disk", [1], ["data/a.dat"]), [failed])
    assert rig.stores.files.pages(first, 0, 10) == []

    second = token(rig, attempt=2)

    assert [list(page.seqs) for page in rig.stores.files.pages(second, 0, 10)] == [[1]]


def test_pages_skip_unclaimed_files_and_a_take_over_drops_them(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_list, "LIST_FILES", 2)
    mark_keys(rig, *"abcdefg")
    first = token(rig)
    store_keys(rig, first, "abdeg")
    claim(rig, first, "dropped", "c", "f")

    assert [page.keys for page in rig.stores.files.pages(first, 0, 10)] == [["data/c.dat", "data/f.dat"]]
    assert [page.keys for page in rig.stores.files.pages(first, 6, 10)] == [["data/f.dat"]]
    assert rig.stores.files.pages(first, 0, 5) == []

    second = token(rig, attempt=2)

    assert second.batch == first.batch
    assert [page.keys for page in rig.stores.files.pages(second, 0, 10)] == [["data/c.dat", "data/f.dat"]]
    assert rig.count_files() == 2


def test_pages_leave_out_marks_that_the_batch_may_not_delete(rig: Rig) -> None:
    mark_keys(rig, *"abc")
    write_token = token(rig)
    claim(rig, write_token, "dropped", "a", "b", "c")
    rig.sql("UPDATE {}mark SET quarantined_reason = 'CHANGED' WHERE id = 'a'")
    rig.sql("UPDATE {}mark SET batch = 7 WHERE id = 'c'")

    assert [page.keys for page in rig.stores.files.pages(write_token, 0, 10)] == [["data/b.dat"]]


def test_only_the_newest_attempt_stores_outcomes(rig: Rig) -> None:
    """Executors store them at the same time."""
    first = token(rig)
    stored: list[bool] = []
    with rig.db.write() as c:
        verify(c, first, shared=True)
        other = threading.Thread(
            target=lambda: stored.append(rig.stores.outcomes.record(first, FilePage("disk", [], []), []) is None)
        )
        other.start()
        other.join(PATIENCE_SECONDS)
        assert stored == [True]
    second = token(rig, attempt=2)

    with pytest.raises(LeaseLost):
        rig.stores.outcomes.record(first, FilePage("disk", [], []), [])
    rig.stores.outcomes.record(second, FilePage("disk", [], []), [])


def test_a_drop_waits_for_an_outcome_of_the_same_list(rig: Rig) -> None:
    with_ = token(rig)
    store_keys(rig, with_, "ab")

    with recording_first(rig, with_, KeyOutcome.DELETED) as pool:
        pool.submit(rig.stores.files.drop, with_, [Ref("dropped", "b")])

    assert [(file.id, file.outcome) for file in stored_files(rig.db)] == [("a", KeyOutcome.DELETED)]


@contextmanager
def recording_first(rig: Rig, with_: WriteToken, outcome: KeyOutcome) -> Iterator[ThreadPoolExecutor]:
    """Record the outcome of the first file until what the block submits waits for it; yield a pool for that."""
    with ThreadPoolExecutor(1) as pool, rig.db.write() as c:
        verify(c, with_, shared=True)
        [files] = read_lists(rig.db, c, in_span(rig.db, Span(with_.batch)), lock=True)
        files.results.record(0, KeyResult("a.dat", outcome))
        save_results(rig.db, c, files)
        yield pool
        wait_for_lock_waiter(rig.db)


def test_two_threads_record_pages_of_one_list(rig: Rig) -> None:
    with_ = token(rig)
    store_keys(rig, with_, "ab")
    page, deleted = FilePage("disk", [2], ["b.dat"]), KeyResult("b.dat", KeyOutcome.DELETED)

    with recording_first(rig, with_, KeyOutcome.ABSENT) as pool:
        pool.submit(rig.stores.outcomes.record, with_, page, [deleted])

    assert [file.outcome for file in stored_files(rig.db)] == [KeyOutcome.ABSENT, KeyOutcome.DELETED]


class DuplicatedFirst:
    """Runs its first deletion twice, as Spark may: a lost executor goes on while its task is repeated elsewhere."""

    leaves_requests = True

    def __init__(self, deleter: Deleter, start_other: Any) -> None:
        self._deleter, self._start_other, self._first = deleter, start_other, True

    def begin(self, token: WriteToken, active_lease: ActiveLease, after: int = 0) -> Deletion:
        if self._first:
            self._first = False
            self._start_other(token)
        return self._deleter.begin(token, active_lease, after)


def test_a_late_outcome_is_not_that_of_another_file(rig: Rig, root: Path) -> None:
    for name in ("a", "b"):
        rig.drop(root, f"{name}.dat", name)
        rig.later(10)
    rig.later(DUE_SECONDS)
    order = range_order(rig)
    with crash_points.installed(crash_at("claim.committed")), pytest.raises(Crash):
        rig.recycler.recycle(order.model_copy(update={"limit": 1}), 1, lambda: None)
    assert rig.row("dropped", "a").state == "CLAIMED"
    recorded = threading.Event()

    def start_other(token: WriteToken) -> None:
        def delete() -> None:
            delete_claimed(rig, token, rig.stores.files.last_number(token))
            recorded.set()

        threading.Thread(target=delete, daemon=True).start()
        assert request.reached.wait(PATIENCE_SECONDS)

    def answer() -> None:
        request.open()
        assert recorded.wait(PATIENCE_SECONDS)

    with hanging_request() as request, crash_points.installed(at_point("claim.committed", answer)):
        rig.recycler_of(rig.owner, DuplicatedFirst(rig.deleter, start_other)).recycle(order, 2, lambda: None)

    assert (listing(root), rig.count("mark"), rig.count("mark_history")) == ({}, 0, 2)
