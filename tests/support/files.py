"""Read the stored files of marks, whatever list they are in."""

from dataclasses import dataclass

from sqlalchemy import true

from sexton.database.engine import Database
from sexton.marks.sql.file_lists import read_lists


@dataclass(frozen=True)
class StoredFile:
    """One file that is not dropped. ``number``: in its batch; ``outcome``: None if it was not tried yet."""

    batch: int
    number: int
    kind: str
    id: str
    vault: str
    key: str
    bytes: int | None
    outcome: str | None
    reason: str


def stored_files(db: Database, **where: object) -> list[StoredFile]:
    """Return all stored files with these values, in the order of their batches and numbers."""
    with db.read() as c:
        found = [
            StoredFile(files.batch, f.number, *f.ref, f.vault, f.key, f.bytes, f.outcome, f.reason)
            for files in read_lists(db, c, true())
            for f in files.files()
        ]
    return [file for file in found if all(getattr(file, name) == value for name, value in where.items())]
