"""Hold the exact files of a chunk of marks as one value, with the outcome of each file. Pure.

A file is known by its number in its batch; the files of a list have consecutive numbers. Files and outcomes are encoded
as compressed JSON: one row of SQL for some thousand files, which the same transactions read and write as every row.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
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
    Origin,
    dump,
    load,
)
from sexton.marks.model import DONE, File, FilePage, Ref
from sexton.storage.model import PAGE_KEYS, KeyOutcome, KeyResult

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
    """One file of a list. ``bytes``: None if its size is unknown; ``outcome``: None if it was not tried yet.

    ``stated``: as in ``File``; ``origin``: which round tried it, and the batch of its outcome.
    """

    number: int
    ref: Ref
    vault: str
    key: str
    bytes: int | None
    outcome: KeyOutcome | None
    reason: str
    stated: int | None = None
    origin: Origin = Origin(0)


class FileSums(NamedTuple):
    """Sums over the files of one mark with one outcome in one vault.

    ``bytes``: of deleted and hidden objects, as measured, otherwise as the owner states them; 0 where neither is known.
    """

    vault: str
    outcome: KeyOutcome | None
    files: int
    bytes: int
    reason: str | None


class _Files(NamedTuple):
    """What never changes in a list. ``sizes``, ``etags``, ``stated``, ``written``: None if no file has one."""

    runs: Sequence[FileRun]
    keys: Sequence[str]
    sizes: Sequence[int | None] | None
    etags: Sequence[str] | None
    stated: Sequence[int | None] | None
    written: Sequence[str] | None


class FileList:
    """Files with consecutive numbers of one batch, in the order in which they were resolved."""

    def __init__(self, batch: int, first: int, files: _Files, results: FileResults) -> None:
        """``first``: the number of the first file."""
        self.batch, self.first, self.results = batch, first, results
        self.runs, self.keys, self._sizes, self._etags, self._stated, self._written = files

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
        stated = [f.stated for f in files] if any(f.stated is not None for f in files) else None
        written = [f.written for f in files] if any(f.written for f in files) else None
        listed = _Files(runs, [f.key for f in files], sizes, etags, stated, written)
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
        return dump([stored_runs, self.keys, self._sizes, self._etags, self._stated, self._written])

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
        origin_of_most = Origin(self.results.round, self.batch)
        for run in self.runs:
            if refs is None or run.ref in refs:
                for n in range(run.start, run.end):
                    if codes[n] != DROPPED:
                        origin = self.results.origins.get(n, origin_of_most)
                        yield ListedFile(
                            self.first + n,
                            run.ref,
                            run.vault,
                            self.keys[n],
                            self._size(n),
                            OUTCOMES.get(codes[n]),
                            reasons.get(n, ""),
                            self._share(n),
                            origin if origin.batch else origin._replace(batch=self.batch),
                        )

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
        pages: list[FilePage] = []
        for vault, untried in sorted(by_vault.items()):
            for start in range(0, len(untried), PAGE_KEYS):
                page = untried[start : start + PAGE_KEYS]
                etags = ("",) * len(page) if self._etags is None else [self._etags[n] for n in page]
                written = () if self._written is None else [self._written[n] for n in page]
                numbers, keys = [self.first + n for n in page], [self.keys[n] for n in page]
                pages.append(FilePage(vault, numbers, keys, etags, written))
        return pages

    def record(self, by_number: Mapping[int, KeyResult], round_: int) -> Mapping[tuple[str, str], Mapping[str, int]]:
        """Store the outcomes of this list's files by their numbers; return what was deleted now.

        The counts are by (kind, vault); their names are those of ``KindVaultCounts``. A file that was done before, in
        this round or an earlier one, is not counted again; a failure is counted when its mark is settled.
        """
        counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        starts = [run.start for run in self.runs]
        for number, result in by_number.items():
            position, outcome = number - self.first, result.outcome
            is_new = 0 <= position < len(self.keys) and self.results.record(position, result, round_)
            if not is_new or outcome not in DONE:
                continue
            run = self.runs[bisect_right(starts, position) - 1]
            of_run = counts[run.ref.kind, run.vault]
            of_run[str(outcome)] += 1
            if outcome is KeyOutcome.HIDDEN:
                of_run["bytes_hidden"] += self._known_bytes(position)
            elif outcome is KeyOutcome.DELETED:
                if (size := self._size(position)) is not None:
                    of_run["bytes_freed"] += size
                elif (stated := self._share(position)) is not None:
                    of_run["bytes_estimated"] += stated
                else:
                    of_run["size_unknown"] += 1
        return counts

    def sums(self, refs: Set[Ref]) -> dict[Ref, list[FileSums]]:
        """Return sums over the files of each of these marks, by vault and outcome."""
        by_mark: dict[Ref, list[FileSums]] = {}
        sizes, reasons = self.results.sizes, self.results.reasons
        has_details = bool(self._sizes is not None or self._stated is not None or sizes or reasons)
        for run in self.runs_of(refs):
            of_mark = by_mark.setdefault(run.ref, [])
            codes = self.results.codes[run.start : run.end]
            for code in sorted(set(codes) - {DROPPED}):
                # Where neither sizes nor reasons are known, the files are only counted.
                positions = [n for n, one in enumerate(codes, run.start) if one == code] if has_details else []
                outcome = OUTCOMES.get(code)
                is_deleted = outcome in (KeyOutcome.DELETED, KeyOutcome.HIDDEN)
                freed = sum(self._known_bytes(n) for n in positions) if is_deleted else 0
                reason = max((reasons[n] for n in positions if n in reasons), default=None)
                of_mark.append(FileSums(run.vault, outcome, codes.count(code), freed, reason))
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

    def _share(self, position: int) -> int | None:
        """Return a file's share of the bytes that its owner states; None: the owner states none."""
        return None if self._stated is None else self._stated[position]

    def _known_bytes(self, position: int) -> int:
        """Return a file's size as measured, otherwise as its owner states it; 0 where neither is known."""
        size = self._size(position)
        return (self._share(position) or 0) if size is None else size


@lru_cache(LISTS_DECODED)
def _decode(files: bytes) -> _Files:
    """Return the files of a list; each step reads the same ones, which nothing changes."""
    runs: list[FileRun] = []
    start = 0
    value = load(files)
    try:
        stored_runs, keys, sizes, etags, stated, written = value
        for kind, id_, vault, count in stored_runs:
            runs.append(FileRun(Ref(kind, id_), vault, start, start + count))
            start += count
    except (ValueError, TypeError) as e:
        raise DamagedList(f"a stored file list is damaged ({e}); {WAY_OUT}") from e
    return _Files(runs, keys, sizes, etags, stated, written)


def lists_of(batch: int, first: int, files: Sequence[File]) -> Iterator[FileList]:
    """Yield lists of at most ``LIST_FILES`` of these files, numbered from ``first`` on."""
    for start in range(0, len(files), LIST_FILES):
        yield FileList.of(batch, first + start, files[start : start + LIST_FILES])
