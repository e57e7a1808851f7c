"""Columns hold what rows would hold: names in canonical form, and all entries whatever their number."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sexton.check import columns
from sexton.marks.live import LiveEntry
from sexton.storage.model import ListedObject
from sexton.storage.policy import canonical

TEXTS = ("a", "/", "//", "%41", "%2541", "%", "é", "e\u0301", "_", "雪", "\0", "\n")


def test_names_are_the_canonical_forms_of_keys() -> None:
    r = random.Random(1)
    for _ in range(300):
        keys = ["".join(r.choices(TEXTS, k=r.randint(0, 4))) for _ in range(r.randint(1, 8))]
        array = pa.array(keys, pa.string())

        assert columns.names(array).to_pylist() == [canonical(key) for key in keys]
        assert columns.names(array.slice(1)).to_pylist() == [canonical(key) for key in keys[1:]]
    assert columns.names(pa.array([], pa.string())).to_pylist() == []


def test_pages_before_an_error_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "GROUP_BYTES", 200)
    file = str(tmp_path / "objects")
    listed = [ListedObject(f"d//{n}", n, "e", "2026-01-01T00:00:00") for n in range(100)]

    def pages() -> object:
        yield from (columns.objects("hot", listed[n : n + 3]) for n in range(0, 90, 3))
        raise OSError("the listing ends")

    with pytest.raises(OSError, match="the listing ends"):
        columns.write_pages(file, columns.OBJECTS, pages())  # type: ignore[arg-type]

    rows = pq.read_table(file).to_pylist()
    assert [(row["key"], row["name"], row["bytes"]) for row in rows] == [(f"d//{n}", f"d/{n}", n) for n in range(90)]
    assert pq.ParquetFile(file).num_row_groups > 1


def test_entries_without_sizes_are_columns_too() -> None:
    entries = [LiveEntry("hot", "a%20b/", prefix=True, live=False, record="f/1")]

    [row] = columns.records(entries).to_pylist()

    assert row == entries[0]._asdict() | {"name": "a b/"}
