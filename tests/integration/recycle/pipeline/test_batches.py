"""A batch that is opened again: what its earlier attempt stored, and which deletes are tried again."""

from sexton.contract import NewMark
from sexton.marks.model import File, FilePage
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.claims import claim, token
from tests.support.rig import Rig


def test_a_reopened_batch_keeps_only_files_of_claimed_marks(rig: Rig) -> None:
    rig.mark("dropped", *(NewMark(id=name, vault="disk", keys=(f"{name}.dat",)) for name in "ab"))
    first = token(rig)
    claim(rig, first, "dropped", "a")
    rig.stores.files.store(first, [File("dropped", "b", "disk", "b.dat", 1)])

    second = token(rig, attempt=2)

    assert second.batch == first.batch
    assert (rig.count("mark_file", id="a"), rig.count("mark_file", id="b")) == (1, 0)


def test_a_reopened_batch_tries_failed_deletes_again(rig: Rig) -> None:
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("a.dat",)))
    first = token(rig)
    claim(rig, first, "dropped", "a")
    failed = KeyResult(key="data/a.dat", outcome=KeyOutcome.FAILED, reason="AccessDenied")
    rig.stores.outcomes.record(first, FilePage("disk", [1], ["data/a.dat"]), [failed])
    assert rig.stores.files.pages(first, 0, 10) == []

    second = token(rig, attempt=2)

    assert [list(page.seqs) for page in rig.stores.files.pages(second, 0, 10)] == [[1]]
