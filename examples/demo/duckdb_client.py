"""Real DuckLakes: DuckDB processes over a catalog in PostgreSQL, and files in a directory or a bucket."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PYTHON = Path(sys.prefix) / "ducklake" / "bin" / "python"
"""Has DuckDB and its extensions; `make .venv/ducklake/.stamp` installs it."""
PROGRAM = Path(__file__).with_name("duckdb_process.py")


class DuckDbError(Exception):
    """DuckDB refused a statement."""


class DuckDb:
    """One DuckDB process. Its lake is attached as ``lake`` and in use; each statement is a transaction of its own."""

    def __init__(self, url: str, data_path: str, options: str = "", *, schema: str, setup: str = "") -> None:
        """Start the process.

        Args:
            url: SQLAlchemy URL of the catalog's database.
            data_path: where the lake's files are.
            options: further options of ATTACH.
            schema: of the catalog; it exists.
            setup: a statement before ATTACH, such as a secret.
        """
        attach = (
            f"ATTACH 'ducklake:postgres:{url.replace('+psycopg', '')}' AS lake "
            f"(DATA_PATH '{data_path}', META_SCHEMA '{schema}'{options})"
        )
        command = [str(PYTHON), str(PROGRAM), attach, "postgres_scanner", "ducklake", "httpfs"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if setup:
            self.sql(setup)
        self.sql("{attach}")
        self.sql("USE lake")

    def sql(self, statement: str) -> list[list[Any]]:
        """Return the rows of a statement; ``DuckDbError``: it failed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(statement) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise DuckDbError("the process ended")
        answer = json.loads(line)
        if "error" in answer:
            raise DuckDbError(answer["error"])
        rows: list[list[Any]] = answer["rows"]
        return rows

    def run(self, *statements: str) -> None:
        """Run statements of which nobody needs the rows."""
        for statement in statements:
            self.sql(statement)

    def expire(self) -> None:
        """Let every snapshot but the newest expire, so that files which only older ones name are no longer needed."""
        self.sql("CALL ducklake_expire_snapshots('lake', older_than => now())")

    def kill(self) -> None:
        """End the process as a crash does."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the process."""
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(30)


@contextmanager
def duckdb(url: str, data_path: str, options: str = "", **more: str) -> Iterator[DuckDb]:
    """Yield a DuckDB process, and end it."""
    process = DuckDb(url, data_path, options, **more)
    try:
        yield process
    finally:
        process.close()
