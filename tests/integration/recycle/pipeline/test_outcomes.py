"""Outcomes of one batch are stored concurrently, and only by its newest attempt."""

import threading

import pytest

from sexton.marks.lease import LeaseLost
from sexton.marks.model import File, FilePage, Ref
from sexton.marks.sql.file_lists import Span, in_span, read_lists, save_results
from sexton.recycle.pipeline.sql.batches import verify
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import token
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.files import stored_files
from tests.support.locks import wait_for_lock_waiter
from tests.support.rig import Rig


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
    rig.stores.files.store(with_, [File("dropped", name, "disk", f"{name}.dat", 1) for name in ("a", "b")])
    dropping = threading.Thread(target=lambda: rig.stores.files.drop(with_, [Ref("dropped", "b")]))

    with rig.db.write() as recording:
        verify(recording, with_, shared=True)
        [files] = read_lists(rig.db, recording, in_span(rig.db, Span(with_.batch)), lock=True)
        files.results.record(0, KeyResult("a.dat", KeyOutcome.DELETED))
        save_results(rig.db, recording, files)
        dropping.start()
        wait_for_lock_waiter(rig.db)
    dropping.join(PATIENCE_SECONDS)

    assert [(file.id, file.outcome) for file in stored_files(rig.db)] == [("a", KeyOutcome.DELETED)]


def test_two_threads_record_pages_of_one_list(rig: Rig) -> None:
    with_ = token(rig)
    rig.stores.files.store(with_, [File("dropped", name, "disk", f"{name}.dat", 1) for name in ("a", "b")])
    page, deleted = FilePage("disk", [2], ["b.dat"]), KeyResult("b.dat", KeyOutcome.DELETED)
    other = threading.Thread(target=lambda: rig.stores.outcomes.record(with_, page, [deleted]))

    with rig.db.write() as recording:
        [files] = read_lists(rig.db, recording, in_span(rig.db, Span(with_.batch)), lock=True)
        files.results.record(0, KeyResult("a.dat", KeyOutcome.ABSENT))
        save_results(rig.db, recording, files)
        other.start()
        wait_for_lock_waiter(rig.db)
    other.join(PATIENCE_SECONDS)

    assert [file.outcome for file in stored_files(rig.db)] == [KeyOutcome.ABSENT, KeyOutcome.DELETED]
