"""A real PostgreSQL cluster in a scratch directory, from Debian's or PATH's `initdb` and `pg_ctl`.

PostgreSQL refuses to run as root; as root its programs run as the user `postgres`.
"""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from sexton.runtime.embedded.ports import free_port


class Unavailable(Exception):
    """PostgreSQL is not available; the text is the reason of the skip."""


def _binary(name: str) -> str:
    newest_first = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True)
    for path in (None, *map(str, newest_first)):
        if found := shutil.which(name, path=path):
            return found
    raise Unavailable("PostgreSQL is not installed (Debian: apt-get install postgresql)")


def _user() -> str | None:
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise Unavailable("PostgreSQL does not run as root and there is no user postgres") from None


class Cluster:
    """A running cluster on 127.0.0.1, without passwords, superuser `postgres`."""

    def __init__(self, *, fsync: bool = True, preload: str = "") -> None:
        self._pg_ctl, initdb = _binary("pg_ctl"), _binary("initdb")
        self._run_as = _user()
        self.port = free_port()
        # Not pytest's tmp_path: its parents are closed to other users, and a socket path may have 107 bytes only.
        self._scratch = Path(tempfile.mkdtemp(prefix="sexton-pg-"))
        if self._run_as:
            shutil.chown(self._scratch, self._run_as)
        self._data = self._scratch / "data"
        self._call(initdb, "-D", self._data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync")
        options = [
            f"-p {self.port}",
            "-c listen_addresses=127.0.0.1",
            f"-c unix_socket_directories={self._scratch}",
            "-c max_connections=100",
            f"-c fsync={'on' if fsync else 'off'}",
            f"-c shared_preload_libraries={preload}",
        ]
        log = self._scratch / "log"
        self._call(self._pg_ctl, "-D", self._data, "-l", log, "-o", " ".join(options), "-w", "-t", "60", "start")

    def url(self, dbname: str = "postgres") -> str:
        """Return the SQLAlchemy URL of a database of the cluster."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{dbname}"

    def create_database(self, template: str = "") -> str:
        """Create a database, empty or as a copy of the one at a URL; return its URL."""
        name = f"t_{secrets.token_hex(6)}"
        like = f' TEMPLATE "{template.rpartition("/")[2]}"' if template else ""
        self._do(f'CREATE DATABASE "{name}"{like}')
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database, also one with open connections."""
        self._do(f'DROP DATABASE "{url.rpartition("/")[2]}" WITH (FORCE)')

    def _do(self, statement: str) -> None:
        with psycopg.connect(self.url().replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        """Stop the cluster (open connections are cut) and remove its directory."""
        self._call(self._pg_ctl, "-D", self._data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(self._scratch)

    def _call(self, *command: str | Path) -> None:
        with tempfile.TemporaryFile("w+") as output:
            # A file instead of a pipe: the server inherits it and would keep a pipe open.
            try:
                subprocess.run(
                    command, user=self._run_as, cwd=self._scratch, stdout=output, stderr=output, check=True, timeout=90
                )
            except subprocess.CalledProcessError as e:
                output.seek(0)
                raise RuntimeError(f"{e}: {output.read()}") from e


_EMPTY = """
SET session_replication_role = replica;
DO $$ DECLARE target record; BEGIN
    FOR target IN SELECT schemaname, tablename FROM pg_tables
        WHERE schemaname IN ('sexton', 'sexton_catalog') AND tablename <> 'alembic_version'
    LOOP EXECUTE format('DELETE FROM %I.%I', target.schemaname, target.tablename); END LOOP;
END $$;
DROP SCHEMA IF EXISTS public CASCADE;
CREATE SCHEMA public;
INSERT INTO sexton.instance_guard VALUES ('*', 0);
INSERT INTO sexton.call_head VALUES (1, 0, repeat('0', 64), 0, repeat('0', 64));
"""


def empty(url: str, deployment: str) -> None:
    """Delete every row of a database with Sexton's schema, and all objects that tests created in ``public``."""
    with psycopg.connect(url.replace("+psycopg", "")) as c:
        c.execute(_EMPTY.encode())
        c.execute("INSERT INTO sexton.clock (one, deployment) VALUES (true, %s)", (deployment,))
