"""A worker whose round deletes thirty files in three pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from tests.support.rig import Rig, put

FILES, PAGE, SIZE = 30, 10, 10


@pytest.fixture
def worker(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A worker that deletes pages of ten keys one after the other; a prefix with thirty files is due."""
    monkeypatch.setattr("sexton.marks.file_list.PAGE_KEYS", PAGE)
    worker = Rig(rig.url, threads=1, beside=False)
    root = worker.local(tmp_path / "v")
    for n in range(FILES):
        put(root, f"t/{n:02}.dat", SIZE)
    worker.mark("dropped", NewMark(id="p", vault="disk", prefix="t/"))
    worker.later(10_801)
    yield worker
    worker.db.close()
