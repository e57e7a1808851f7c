"""A file list is what rows of single files were: the same files, outcomes, pages and sums, whatever is done to it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.marks import file_list
from sexton.marks.file_list import FileList, lists_of
from sexton.marks.file_results import UNDONE_CODES, DamagedList, FileResults, Origin
from sexton.marks.model import File, Ref
from sexton.storage.model import KeyOutcome, KeyResult

FIRST = 7
MARKS = ("a", "b", "c")
UNDONE = (None, KeyOutcome.FAILED)


@dataclass(frozen=True)
class Row:
    """One file as a row of its own."""

    number: int
    file: File
    outcome: KeyOutcome | None = None
    reason: str = ""
    dropped: bool = False


FILES = st.lists(
    st.tuples(st.sampled_from(MARKS), st.sampled_from(("cold", "warm")), st.none() | st.integers(0, 9), st.text("e")),
    min_size=1,
    max_size=12,
).map(
    lambda drawn: [
        File("dropped", mark, vault, f"{mark}/{n}.dat", size, etag)
        for n, (mark, vault, size, etag) in enumerate(sorted(drawn, key=lambda d: d[:2]))
    ]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, 11), st.sampled_from(KeyOutcome), st.none() | st.integers(0, 9)),
        st.tuples(st.just("drop"), st.sampled_from(MARKS), st.just(None), st.just(None)),
        st.tuples(st.just("drop undone"), st.sampled_from(MARKS), st.just(None), st.just(None)),
        st.tuples(st.just("store"), st.just(0), st.just(None), st.just(None)),
    ),
    max_size=25,
)


def apply(files: FileList, rows: list[Row], step: tuple[object, ...]) -> FileList:
    """Do one step to the list and to the rows; return the list."""
    action, target, outcome, size = step
    if action == "store":
        return FileList.decode(files.batch, files.first, files.encode_files(), files.results.encode())
    if action == "record":
        assert isinstance(target, int)
        assert isinstance(outcome, KeyOutcome)
        n = target % len(rows)
        reason = "no" if outcome is KeyOutcome.FAILED else ""
        result = KeyResult(rows[n].file.key, outcome, reason, bytes=size if isinstance(size, int) else None)
        files.results.record(n, result)
        if not rows[n].dropped and rows[n].outcome in UNDONE and outcome is not KeyOutcome.THROTTLED:
            size_now = rows[n].file.bytes if result.bytes is None else result.bytes
            rows[n] = replace(rows[n], outcome=outcome, reason=reason, file=rows[n].file._replace(bytes=size_now))
        return files
    codes = UNDONE_CODES if action == "drop undone" else None
    files.drop({Ref("dropped", str(target))}, codes)
    for n, row in enumerate(rows):
        if row.file.id == target and (codes is None or row.outcome in UNDONE):
            rows[n] = replace(row, dropped=True)
    return files


@given(FILES, STEPS)
def test_a_list_answers_as_single_rows_would(listed: Sequence[File], steps: Sequence[tuple[object, ...]]) -> None:
    files = FileList.of(1, FIRST, listed)
    rows = [Row(FIRST + n, file) for n, file in enumerate(listed)]
    for step in steps:
        files = apply(files, rows, step)

    left = [row for row in rows if not row.dropped]
    assert [(f.number, *f.ref, f.vault, f.key, f.bytes, f.outcome, f.reason) for f in files.files()] == [
        (r.number, r.file.kind, r.file.id, r.file.vault, r.file.key, r.file.bytes, r.outcome, r.reason) for r in left
    ]
    assert files.refs == {Ref(r.file.kind, r.file.id) for r in left}
    assert files.results.all_dropped == (not left)
    for mark in MARKS:
        ref, own = Ref("dropped", mark), [r for r in left if r.file.id == mark]
        pages = files.untried_pages({ref}, FIRST, FIRST + 5)
        untried = [r for r in own if r.outcome is None and FIRST < r.number <= FIRST + 5]
        assert sorted(zip(
            (n for page in pages for n in page.seqs), (k for page in pages for k in page.keys), strict=True
        )) == [(r.number, r.file.key) for r in untried]  # fmt: skip
        assert all(len({row.file.vault for row in untried if row.number in page.seqs}) == 1 for page in pages)
        sums = files.sums({ref}).get(ref, [])
        freed = [r.file.bytes or 0 for r in own if r.outcome in (KeyOutcome.DELETED, KeyOutcome.HIDDEN)]
        assert (sum(n.files for n in sums), sum(n.bytes for n in sums)) == (len(own), sum(freed))


def test_numbers_continue_over_the_lists_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_list, "LIST_FILES", 2)

    lists = list(lists_of(1, FIRST, [File("dropped", "a", "cold", f"{n}", None) for n in range(5)]))

    assert [(files.first, files.last, len(files.keys)) for files in lists] == [(7, 8, 2), (9, 10, 2), (11, 11, 1)]


def test_marks_of_two_kinds_may_have_one_id() -> None:
    files = FileList.of(1, 1, [File(kind, "a", "cold", f"{kind}.dat", 1) for kind in ("dropped", "orphan")])

    files.drop({Ref("dropped", "a")})

    assert files.refs == {Ref("orphan", "a")}


def test_a_thousand_keys_of_a_folder_need_a_few_bytes_each() -> None:
    keys = [File("dropped", f"m{n // 100}", "cold", f"data/2026/{n:08}.parquet", None) for n in range(1_000)]
    files = FileList.of(1, 1, keys)
    for n, file in enumerate(keys):
        files.results.record(n, KeyResult(file.key, KeyOutcome.DELETED))

    assert len(files.encode_files()) + len(files.results.encode()) < 10 * len(keys)


def test_changed_bytes_or_results_of_another_list_are_refused() -> None:
    files = FileList.of(1, 1, [File("dropped", "a", "cold", "a.dat", 1)])
    stored = {"files": files.encode_files(), "results": files.results.encode()}

    for part, whole in stored.items():
        changed = whole[:-1] + bytes([whole[-1] ^ 1])
        with pytest.raises(DamagedList, match="damaged"):
            FileList.decode(1, 1, **stored | {part: changed})
    with pytest.raises(DamagedList, match="incomplete"):
        FileList.decode(1, 1, stored["files"], FileResults.untried(2).encode())


def test_an_outcome_is_counted_once_with_its_size() -> None:
    listed = [
        File("dropped", "a", "cold", "measured", 5),
        File("dropped", "a", "cold", "stated", None, stated=7),
        File("orphan", "b", "warm", "unknown", None),
        File("orphan", "b", "warm", "hidden", 3),
    ]
    files = FileList.of(1, FIRST, listed)
    outcomes = dict.fromkeys(range(FIRST, FIRST + 3), KeyOutcome.DELETED) | {FIRST + 3: KeyOutcome.HIDDEN}
    results = {number: KeyResult("", outcome) for number, outcome in outcomes.items()}

    first = files.record(results, 4)
    files = FileList.decode(1, FIRST, files.encode_files(), files.results.encode())

    assert first == {
        ("dropped", "cold"): {"deleted": 2, "bytes_freed": 5, "bytes_estimated": 7},
        ("orphan", "warm"): {"deleted": 1, "size_unknown": 1, "hidden": 1, "bytes_hidden": 3},
    }
    assert files.record(results, 5) == {}
    assert {file.origin for file in files.files()} == {Origin(4, 1)}


def test_a_failure_that_ends_later_is_of_the_later_round() -> None:
    files = FileList.of(1, 1, [File("dropped", "a", "cold", key, 1) for key in "xy"])
    files.record({1: KeyResult("x", KeyOutcome.DELETED), 2: KeyResult("y", KeyOutcome.FAILED)}, 4)

    counts = files.record({1: KeyResult("x", KeyOutcome.ABSENT), 2: KeyResult("y", KeyOutcome.DELETED)}, 5)

    assert counts == {("dropped", "cold"): {"deleted": 1, "bytes_freed": 1}}
    assert [file.origin.round for file in files.files()] == [4, 5]
