"""Read directories and SQLite files without any code of Sexton.

A test that asked Sexton whether Sexton lost anything would believe the suspect.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

OWN_FOLDER = "_sexton"
"""The folder of Sexton's own files, at the top of a vault."""


class Mark(NamedTuple):
    """A mark or, with ``state`` GONE or DISCARDED, a row of the history; instants in ms since 1970."""

    kind: str
    id: str
    state: str
    vault: str | None
    prefix: str | None
    keys: Sequence[str]
    parent: tuple[str, str] | None
    in_second_pass: bool
    next_try_at: int | None
    aside: str | None
    epoch: int | None

    @property
    def ref(self) -> tuple[str, str]:
        """Return (kind, id)."""
        return self.kind, self.id

    def names(self, vault: str, key: str) -> bool:
        """Return whether the mark names this object."""
        inside = self.prefix is not None and key.startswith(self.prefix)
        return vault == self.vault and (inside or key in self.keys)


def objects(root: Path) -> dict[str, int]:
    """Return key → bytes of every file below a vault's directory, without Sexton's own files."""
    return dict(_walk(root, ""))


def _walk(folder: Path, above: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if above or entry.name != OWN_FOLDER:
                    yield from _walk(Path(entry.path), f"{above}{entry.name}/")
            else:
                yield above + entry.name, entry.stat(follow_symlinks=False).st_size


class DatabaseReader:
    """The tables, read-only, over a connection of its own; each call sees what is committed then."""

    def __init__(self, file: Path) -> None:
        self._c = sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)

    def close(self) -> None:
        """Close the file."""
        self._c.close()

    def now(self) -> int:
        """Return the clock by which marks age, in ms since 1970."""
        seconds = "(julianday('now') - 2440587.5) * 86400 + offset_seconds"
        return int(self.number(f"SELECT CAST({seconds} AS real) * 1000 FROM sexton_clock"))

    def number(self, sql: str, *parameters: object) -> int:
        """Return the single number of a query's answer, 0 for NULL."""
        return int(self._c.execute(sql, parameters).fetchone()[0] or 0)

    def marks(self) -> dict[tuple[str, str], Mark]:
        """Return every mark that is marked or claimed, by (kind, id)."""
        rows = self._c.execute(
            "SELECT kind, id, state, vault, prefix, keys, parent_kind, parent_id, first_pass_at IS NOT NULL, "
            "next_try_at, quarantined_reason, lease_epoch FROM sexton_mark"
        )
        return {(r[0], r[1]): _mark(r) for r in rows}

    def history(self) -> dict[tuple[str, str], Mark]:
        """Return every mark that is deleted or discarded, by (kind, id)."""
        rows = self._c.execute(
            "SELECT kind, id, iif(discarded IS NULL, 'GONE', 'DISCARDED'), vault, prefix, keys, parent_kind, "
            "parent_id, 0, NULL, NULL, NULL FROM sexton_mark_history"
        )
        return {(r[0], r[1]): _mark(r) for r in rows}

    def files(self, ref: tuple[str, str]) -> list[tuple[str, str]]:
        """Return (vault, key) of each resolved file of a mark."""
        return [(vault, key) for owner, vault, key, _ in self._stored_files() if owner == ref]

    def undone_files(self) -> list[tuple[object, ...]]:
        """Return every stored file that is left, with the code of its outcome."""
        return list(self._stored_files())

    def _stored_files(self) -> Iterator[tuple[tuple[str, str], str, str, str]]:
        """Yield mark, vault, key and the code of the outcome of each stored file; ``x``: it was dropped."""
        for files, results in self._c.execute("SELECT files, results FROM sexton_file_list ORDER BY batch, last"):
            runs, keys, *_ = json.loads(zlib.decompress(files))
            codes, *_ = json.loads(zlib.decompress(results))
            names = [((kind, id_), vault) for kind, id_, vault, count in runs for _ in range(count)]
            for (owner, vault), key, code in zip(names, keys, codes, strict=True):
                if code != "x":
                    yield owner, vault, key, code

    def busy_until(self) -> Mapping[int, int]:
        """Return epoch → end of each active lease."""
        return dict(self._c.execute("SELECT epoch, expires_at FROM sexton_lease WHERE state = 'BUSY'"))

    def tally(self) -> Mapping[str, int]:
        """Return the sums of all rounds' figures, by name."""
        names = ("claimed", "removed", "deleted", "absent", "hidden", "bytes_freed", "bytes_hidden")
        row = self._c.execute(f"SELECT {', '.join(f'coalesce(sum({n}), 0)' for n in names)} FROM sexton_tally")
        return dict(zip(names, row.fetchone(), strict=True))

    def live(self) -> set[tuple[str, str]]:
        """Return (vault, key) of every object that the owner's own tables reference."""
        rows = self._c.execute("SELECT file.vault, key FROM file JOIN thing ON thing.id = file.thing WHERE thing.live")
        return set(rows)


def _mark(r: Sequence[object]) -> Mark:
    kind, id_, state, vault, prefix, keys, parent_kind, parent, in_second_pass, *rest = r
    above = None if parent is None else (parent_kind, parent)
    return Mark(kind, id_, state, vault, prefix, json.loads(keys or "[]"), above, bool(in_second_pass), *rest)
