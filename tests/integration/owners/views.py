"""Live views of an owner, and workers that have not read them yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text

from tests.support.rig import Rig
from tests.support.transactions import owner_write

COLUMNS = "kind text, id text, vault text, key text"


def execute(rig: Rig, *statements: str) -> None:
    """Execute statements of the owner in one transaction."""
    with owner_write(rig.db) as c:
        for statement in statements:
            c.execute(text(statement))


def show(rig: Rig, *keys: str, vault: str = "disk") -> None:
    """Let the view ``sexton_live`` show these keys only: the rows of the table ``file``."""
    execute(rig, f"CREATE TABLE IF NOT EXISTS file ({COLUMNS})", "DELETE FROM file")
    execute(rig, *(f"INSERT INTO file VALUES ('f', '{n}', '{vault}', '{key}')" for n, key in enumerate(keys)))
    execute(rig, "CREATE OR REPLACE VIEW sexton_live AS SELECT * FROM file")


@contextmanager
def new_worker(rig: Rig) -> Iterator[Rig]:
    """Yield a worker of the same database that knows nothing of a view; at the end remove every mark."""
    worker = Rig(rig.url)
    yield worker
    worker.sql("DELETE FROM {}mark")
    worker.db.close()
