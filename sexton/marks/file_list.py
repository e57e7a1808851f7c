"""Hold the exact files of a chunk of marks as one value, with the outcome of each file. Pure.

A file is known by its number in its batch; the files of a list have consecutive numbers. Files and outcomes are encoded
as compressed JSON: one row of SQL for some thousand files, which the same transactions read and write as every row.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from sexton.marks.file_results import (
    DROPPED,
    OUTCOMES,
    UNDONE_CODES,
    UNTRIED,
    WAY_OUT,
    DamagedList,
    FileResults,
    dump,
    load,
)
from sexton.marks.model import NO_LAST_FILE, File, FilePage, Ref
from sexton.storage.model import PAGE_KEYS, KeyOutcome

LIST_FILES = 5_000
"""Files of one list, at most: it is decoded in a few milliseconds."""
LISTS_DECODED = 16
"""Decoded lists that a process keeps, each of up to about 1 MB."""


class FileRun(NamedTuple):
    """Files of one mark in one vault that follow each other: positions from ``start`` up to, without, ``end``."""

    ref: Ref
    vault: str
    start: int
    end: int


class ListedFile(NamedTuple):
    """One file of a list. ``bytes``: None if its size is unknown; ``outcome``: None if it was not tried yet."""

    number: int
    ref: Ref
    vault: str
    key: str
    bytes: int | None
    outcome: KeyOutcome | None
    reason: str


class FileSums(NamedTuple):
    """Sums over the files of one mark with one outcome in one vault.

    ``bytes``: of deleted and hidden objects, as far as known; ``unmeasured``: files of unknown size.
    """

    vault: str
    outcome: KeyOutcome | None
    files: int
    bytes: int
    unmeasured: int
    reason: str | None


class _Files(NamedTuple):
    """What never changes in a list. ``sizes``, ``etags``: None if no file has one."""

    runs: Sequence[FileRun]
    keys: Sequence[str]
    sizes: Sequence[int | None] | None
    etags: Sequence[str] | None


class FileList:
    """Files with consecutive numbers of one batch, in the order in which they were resolved."""

    def __init__(self, batch: int, first: int, files: _Files, results: FileResults) -> None:
        """``first``: the number of the first file."""
        self.batch, self.first, self.results = batch, first, results
        self.runs, self.keys, self._sizes, self._etags = files

    @classmethod
    def of(cls, batch: int, first: int, files: Sequence[File]) -> "FileList":
        """Return a list of files that were not tried yet; files of one mark and vault stand together."""
        runs: list[FileRun] = []
        start = 0
        for (kind, id_, vault), group in groupby(files, key=lambda f: (f.kind, f.id, f.vault)):
            end = start + sum(1 for _ in group)
            runs.append(FileRun(Ref(kind, id_), vault, start, end))
            start = end
        sizes = [f.bytes for f in files] if any(f.bytes is not None for f in files) else None
        etags = [f.etag for f in files] if any(f.etag for f in files) else None
        listed = _Files(runs, [f.key for f in files], sizes, etags)
        return cls(batch, first, listed, FileResults.untried(len(files)))

    @classmethod
    def decode(cls, batch: int, first: int, files: bytes, results: bytes) -> "FileList":
        """Read an encoded list; raise ``DamagedList`` if it is damaged."""
        decoded, decoded_results = _decode(files), FileResults.decode(results)
        listed = decoded.runs[-1].end if decoded.runs else 0
        if not listed == len(decoded.keys) == len(decoded_results.codes):
            raise DamagedList(f"the file list of batch {batch}, from number {first}, is incomplete; {WAY_OUT}")
        return cls(batch, first, decoded, decoded_results)

    def encode_files(self) -> bytes:
        """Return the files, without their outcomes, as bytes."""
        stored_runs = [(run.ref.kind, run.ref.id, run.vault, run.end - run.start) for run in self.runs]
        return dump([stored_runs, self.keys, self._sizes, self._etags])

    @property
    def last(self) -> int:
        """Return the number of the last file."""
        return self.first + len(self.keys) - 1

    @property
    def refs(self) -> set[Ref]:
        """Return the marks that have a file here which is not dropped."""
        codes = self.results.codes
        return {run.ref for run in self.runs if codes.count(DROPPED, run.start, run.end) < run.end - run.start}

    def runs_of(self, refs: Set[Ref]) -> Iterator[FileRun]:
        """Yield the runs of these marks."""
        return (run for run in self.runs if run.ref in refs)

    def keys_of(self, run: FileRun, *, undone: bool = False) -> list[str]:
        """Return the keys of a run, without dropped files; ``undone``: only of files to be tried, or tried again."""
        codes = self.results.codes
        if undone:
            return [self.keys[n] for n in range(run.start, run.end) if codes[n] in UNDONE_CODES]
        return [self.keys[n] for n in range(run.start, run.end) if codes[n] != DROPPED]

    def files(self, refs: Set[Ref] | None = None) -> Iterator[ListedFile]:
        """Yield the files that are not dropped, of these marks or of all."""
        codes, reasons = self.results.codes, self.results.reasons
        for run in self.runs:
            if refs is None or run.ref in refs:
                for n in range(run.start, run.end):
                    if codes[n] != DROPPED:
                        outcome, reason = OUTCOMES.get(codes[n]), reasons.get(n, "")
                        yield ListedFile(
                            self.first + n, run.ref, run.vault, self.keys[n], self._size(n), outcome, reason
                        )

    def count(self, codes: Collection[int], after: int = 0, to: int = NO_LAST_FILE) -> int:
        """Return how many files numbered above ``after``, up to ``to``, have one of these codes."""
        first, end = max(0, after - self.first + 1), max(0, min(len(self.keys), to - self.first + 1))
        return sum(self.results.codes.count(code, first, end) for code in codes)

    def untried_pages(self, refs: Set[Ref], after: int, to: int) -> list[FilePage]:
        """Return the untried files of these marks numbered above ``after``, up to ``to``, as pages of one vault each.

        A page has at most ``PAGE_KEYS`` keys.
        """
        first, end = max(0, after - self.first + 1), min(len(self.keys), to - self.first + 1)
        by_vault: dict[str, list[int]] = {}
        codes = self.results.codes
        for run in self.runs:
            if run.ref in refs:
                positions = range(max(run.start, first), min(run.end, end))
                by_vault.setdefault(run.vault, []).extend(n for n in positions if codes[n] == UNTRIED)
        return [
            self._page(vault, positions[start : start + PAGE_KEYS])
            for vault, positions in sorted(by_vault.items())
            for start in range(0, len(positions), PAGE_KEYS)
        ]

    def sums(self, refs: Set[Ref]) -> dict[Ref, list[FileSums]]:
        """Return sums over the files of each of these marks, by vault and outcome."""
        by_mark: dict[Ref, list[FileSums]] = {}
        for run in self.runs:
            if run.ref in refs:
                counts = Counter(self.results.codes[run.start : run.end])
                sums = (self._sums(run, code, files) for code, files in sorted(counts.items()) if code != DROPPED)
                by_mark.setdefault(run.ref, []).extend(sums)
        return by_mark

    def drop(self, refs: Set[Ref], codes: Collection[int] | None = None) -> bool:
        """Take the files of marks out of the list, all or those with one of the codes; return whether there were any.

        Dropped files are neither deleted nor counted nor shown.
        """
        changed = False
        for run in self.runs:
            if run.ref in refs:
                for n in range(run.start, run.end):
                    code = self.results.codes[n]
                    if code != DROPPED and (codes is None or code in codes):
                        self.results.drop(n)
                        changed = True
        return changed

    def _size(self, position: int) -> int | None:
        measured = self.results.sizes.get(position)
        return measured if measured is not None or self._sizes is None else self._sizes[position]

    def _page(self, vault: str, positions: Sequence[int]) -> FilePage:
        etags = ("",) * len(positions) if self._etags is None else [self._etags[n] for n in positions]
        return FilePage(vault, [self.first + n for n in positions], [self.keys[n] for n in positions], etags)

    def _sums(self, run: FileRun, code: int, files: int) -> FileSums:
        outcome = OUTCOMES.get(code)
        if self._sizes is None and not self.results.sizes:
            sizes: list[int | None] = []
            unmeasured = files
        else:
            positions = [n for n in range(run.start, run.end) if self.results.codes[n] == code]
            sizes = [self._size(n) for n in positions]
            unmeasured = sizes.count(None)
        freed = sum(size or 0 for size in sizes) if outcome in (KeyOutcome.DELETED, KeyOutcome.HIDDEN) else 0
        reasons = self.results.reasons
        reason = None
        if reasons:
            in_run = (reasons[n] for n in range(run.start, run.end) if self.results.codes[n] == code and n in reasons)
            reason = max(in_run, default=None)
        return FileSums(run.vault, outcome, files, freed, unmeasured, reason)


@lru_cache(LISTS_DECODED)
def _decode(files: bytes) -> _Files:
    """Return the files of a list; each step reads the same ones, which nothing changes."""
    runs: list[FileRun] = []
    start = 0
    value = load(files)
    try:
        stored_runs, keys, sizes, etags = value
        for kind, id_, vault, count in stored_runs:
            runs.append(FileRun(Ref(kind, id_), vault, start, start + count))
            start += count
    except (ValueError, TypeError) as e:
        raise DamagedList(f"a stored file list is damaged ({e}); {WAY_OUT}") from e
    return _Files(runs, keys, sizes, etags)


def lists_of(batch: int, first: int, files: Sequence[File]) -> Iterator[FileList]:
    """Yield lists of at most ``LIST_FILES`` of these files, numbered from ``first`` on."""
    for start in range(0, len(files), LIST_FILES):
        yield FileList.of(batch, first + start, files[start : start + LIST_FILES])


def add_sums(total: dict[Ref, list[FileSums]], more: Mapping[Ref, Iterable[FileSums]]) -> None:
    """Add the sums of another list: a mark's files may be in several."""
    for ref, sums in more.items():
        total.setdefault(ref, []).extend(sums)
