"""A worker whose round deletes thirty files in three pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.rig import Rig

FILES, PAGE, SIZE = 30, 10, 10


@pytest.fixture
def worker(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A worker that deletes pages of ten keys one after the other; a prefix with thirty files is due."""
    monkeypatch.setattr("sexton.marks.file_list.PAGE_KEYS", PAGE)
    worker = Rig(rig.url, threads=1, beside=False)
    root = worker.local(tmp_path / "v")
    worker.drop_files(root, "p", *(f"t/{n:02}.dat" for n in range(FILES)), prefix="t/")
    worker.later(10_801)
    yield worker
    worker.db.close()
