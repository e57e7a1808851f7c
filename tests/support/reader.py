"""Read directories and databases without any code of Sexton.

A test that asked Sexton whether Sexton lost anything would believe the suspect.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

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

    def __init__(self, url: str) -> None:
        """Connect to the database at a URL of psycopg."""
        self._c = psycopg.connect(url, autocommit=True, options="-c default_transaction_read_only=on")

    def close(self) -> None:
        """Close the connection."""
        self._c.close()

    def now(self) -> int:
        """Return the clock by which marks age, in ms since 1970."""
        return self.number(f"SELECT {_ms('clock_timestamp()')} + 1000 * offset_seconds FROM sexton.clock")

    def number(self, sql: str) -> int:
        """Return the single number of a query's answer, 0 for NULL."""
        [(number,)] = self._c.execute(sql.encode())
        return int(number or 0)

    def marks(self) -> dict[tuple[str, str], Mark]:
        """Return every mark that is marked or claimed, by (kind, id)."""
        rows = self._c.execute(
            "SELECT kind, id, state, vault, prefix, keys, parent_kind, parent_id, first_pass_at IS NOT NULL, "
            f"{_ms('next_try_at')}, quarantined_reason, lease_epoch FROM sexton.mark"
        )
        return {(r[0], r[1]): _mark(r) for r in rows}

    def history(self) -> dict[tuple[str, str], Mark]:
        """Return every mark that is deleted or discarded, by (kind, id)."""
        rows = self._c.execute(
            "SELECT kind, id, CASE WHEN discarded IS NULL THEN 'GONE' ELSE 'DISCARDED' END, vault, prefix, keys, "
            "parent_kind, parent_id, false, NULL, NULL, NULL FROM sexton.mark_history"
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
        for files, results in self._c.execute("SELECT files, results FROM sexton.file_list ORDER BY batch, last"):
            runs, keys, *_ = json.loads(zlib.decompress(files))
            codes, *_ = json.loads(zlib.decompress(results))
            names = [((kind, id_), vault) for kind, id_, vault, count in runs for _ in range(count)]
            for (owner, vault), key, code in zip(names, keys, codes, strict=True):
                if code != "x":
                    yield owner, vault, key, code

    def busy_until(self) -> Mapping[int, int]:
        """Return epoch → end of each active lease."""
        rows = self._c.execute(f"SELECT epoch, {_ms('expires_at')} FROM sexton.lease WHERE state = 'BUSY'")
        return dict(rows.fetchall())

    def tally(self) -> Mapping[str, int]:
        """Return the sums of all rounds' figures, by name."""
        names = ("claimed", "removed", "deleted", "absent", "hidden", "bytes_freed", "bytes_hidden")
        [sums] = self._c.execute(f"SELECT {', '.join(f'coalesce(sum({n}), 0)::int' for n in names)} FROM sexton.tally")
        return dict(zip(names, sums, strict=True))

    def live(self) -> set[tuple[str, str]]:
        """Return (vault, key) of every object that the owner's own tables reference."""
        rows = self._c.execute("SELECT file.vault, key FROM file JOIN thing ON thing.id = file.thing WHERE thing.live")
        return set(rows)


def _ms(instant: str) -> str:
    """Return SQL for an instant in ms since 1970."""
    return f"(extract(epoch FROM {instant}) * 1000)::bigint"


def _mark(r: Sequence[Any]) -> Mark:
    kind, id_, state, vault, prefix, keys, parent_kind, parent, in_second_pass, *rest = r
    above = None if parent is None else (parent_kind, parent)
    return Mark(kind, id_, state, vault, prefix, keys or (), above, in_second_pass, *rest)
