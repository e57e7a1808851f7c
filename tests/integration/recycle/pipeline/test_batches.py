"""A batch that is opened again: what its earlier attempt stored, and which deletes are tried again."""

import pytest

from sexton.contract import NewMark
from sexton.marks import file_list
from sexton.marks.model import File, FilePage
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import claim, drop_unclaimed, token
from tests.support.rig import Rig


def test_a_reopened_batch_keeps_only_files_of_claimed_marks(rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"{name}.dat",)) for name in "ab"))
    first = token(rig)
    claim(rig, first, "dropped", "a")
    rig.stores.files.store(first, [File("dropped", "b", "disk", "b.dat", 1)])

    second = token(rig, attempt=2)

    assert second.batch == first.batch
    assert (rig.count_files(id="a"), rig.count_files(id="b")) == (1, 0)


def test_a_reopened_batch_tries_failed_deletes_again(rig: Rig) -> None:
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)))
    first = token(rig)
    claim(rig, first, "dropped", "a")
    failed = KeyResult(key="data/a.dat", outcome=KeyOutcome.FAILED, reason="AccessDenied")
    rig.stores.outcomes.record(first, FilePage("disk", [1], ["data/a.dat"]), [failed])
    assert rig.stores.files.pages(first, 0, 10) == []

    second = token(rig, attempt=2)

    assert [list(page.seqs) for page in rig.stores.files.pages(second, 0, 10)] == [[1]]


def test_a_take_over_drops_unclaimed_files_in_pages(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_list, "LIST_FILES", 2)
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"{name}.dat",)) for name in "abcdefg"))
    first = token(rig)
    claim(rig, first, "dropped", "c", "f")
    rig.stores.files.store(first, [File("dropped", name, "disk", f"{name}.dat", 1) for name in "abdeg"])

    second = token(rig, attempt=2)
    drop_unclaimed(rig, second)

    assert [page.keys for page in rig.stores.files.pages(second, 0, 10)] == [["data/c.dat", "data/f.dat"]]
    assert rig.count_files() == 2


def test_pages_skip_any_number_of_unclaimed_files(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_list, "LIST_FILES", 2)
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"{name}.dat",)) for name in "abcdefg"))
    write_token = token(rig)
    rig.stores.files.store(write_token, [File("dropped", name, "disk", f"{name}.dat", 1) for name in "abdeg"])
    claim(rig, write_token, "dropped", "c", "f")

    assert [page.keys for page in rig.stores.files.pages(write_token, 0, 10)] == [["data/c.dat", "data/f.dat"]]
    assert [page.keys for page in rig.stores.files.pages(write_token, 6, 10)] == [["data/f.dat"]]
    assert rig.stores.files.pages(write_token, 0, 5) == []


@pytest.mark.parametrize("change", ["quarantined_reason = 'CHANGED'", "batch = 7"], ids=["quarantined", "other batch"])
def test_pages_leave_out_marks_that_the_batch_may_not_delete(rig: Rig, change: str) -> None:
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"{name}.dat",)) for name in "ab"))
    write_token = token(rig)
    claim(rig, write_token, "dropped", "a", "b")
    rig.sql(f"UPDATE {{}}mark SET {change} WHERE id = 'a'")

    assert [page.keys for page in rig.stores.files.pages(write_token, 0, 10)] == [["data/b.dat"]]
