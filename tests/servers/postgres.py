"""Real PostgreSQL from a wheel: one server for a whole run of tests, in which each test gets databases of its own."""

import atexit
import os
import re
import secrets
import shutil
import tempfile
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from threading import Event, Lock, Thread

import psycopg

from sexton.database import schema
from sexton.runtime.embedded.ports import Ports
from sexton.runtime.embedded.postgres import ADMIN, PostgresServer

DEPLOYMENT = "test-rig"
"""The deployment of the databases that ``new_database`` returns."""
MEMORY = Path("/dev/shm")
_STARTING = Lock()
_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


class Cluster:
    """A running server on loopback, whose superuser ``postgres`` needs no password."""

    def __init__(self, *, fsync: bool = True) -> None:
        in_memory = not fsync and MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
        self._scratch = Path(tempfile.mkdtemp(prefix="sexton-pg-", dir=MEMORY if in_memory else None))
        self._template = ""
        options = {"max_connections": "300"} | ({} if fsync else _NOT_DURABLE)
        self.server = PostgresServer(self._scratch, Ports(self._scratch), "", options)
        self.server.start()
        self._lock = Lock()
        self._admin: psycopg.Connection[tuple[object, ...]] | None = None
        self.created: list[str] = []
        """URLs of the databases that were created and not dropped yet."""

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return self.server.port

    @property
    def psql(self) -> str:
        """The path of its interactive terminal."""
        return str(self.server.programs / "psql")

    def url(self, dbname: str = "postgres") -> str:
        """Return the SQLAlchemy URL of a database of the cluster."""
        return self.server.url(dbname, ADMIN).replace("postgresql://", "postgresql+psycopg://")

    def create_database(self, template: str = "", name: str = "") -> str:
        """Create a database, empty or as a copy of the one at a URL, whose connections end; return its URL."""
        name = name or f"t_{secrets.token_hex(6)}"
        like = original = ""
        if template:
            original = template.rpartition("/")[2]
            like = f' TEMPLATE "{original}" STRATEGY file_copy'
        try:
            self._do(f'CREATE DATABASE "{name}"{like}')
        except psycopg.errors.ObjectInUse:
            self._do(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{original}'")
            self._do(f'CREATE DATABASE "{name}"{like}')
        self.created.append(url := self.url(name))
        return url

    def new_database(self, deployment: str = DEPLOYMENT, name: str = "") -> str:
        """Create a database with the schema and without rows: a copy, which takes 10 ms; return its URL.

        Every role may read what an owner of the tests creates in the schema ``public``, such as live views.
        """
        if not self._template:
            self._template = self.create_database()
            schema.init(self._template, DEPLOYMENT)
            with psycopg.connect(driver_url(self._template)) as c:
                c.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO PUBLIC")
            self.keep(self._template)
        url = self.create_database(self._template, name)
        if deployment != DEPLOYMENT:
            with psycopg.connect(driver_url(url)) as c:
                c.execute("UPDATE sexton.clock SET deployment = %s", (deployment,))
        return url

    def drop_database(self, url: str) -> None:
        """Drop a database, also one with open connections."""
        self._do(f'DROP DATABASE IF EXISTS "{url.rpartition("/")[2]}" WITH (FORCE)')
        if url in self.created:
            self.created.remove(url)

    def keep(self, url: str) -> str:
        """Let the end of a test not drop a database, which others need too; return its URL."""
        self.created.remove(url)
        return url

    def _do(self, statement: str) -> None:
        with self._lock:
            if self._admin is None or self._admin.closed:
                self._admin = psycopg.connect(driver_url(self.url()), autocommit=True)
            self._admin.execute(statement.encode())

    def stop(self) -> None:
        """Stop the cluster (open connections are cut) and remove its directory."""
        if self._admin is not None:
            self._admin.close()
        self.server.child.stop()
        shutil.rmtree(self.server.data)
        shutil.rmtree(self._scratch)


def shared() -> Cluster:
    """Return the server that all tests of this process share; it starts at the first call. No test cuts its power."""
    with _STARTING:
        return _start()


@cache
def _start() -> Cluster:
    """Start it in a thread that never ends: Linux ends a child with the thread that started it."""
    future: Future[Cluster] = Future()

    def keep() -> None:
        try:
            future.set_result(Cluster(fsync=False))
        except BaseException as e:  # noqa: BLE001 - raised in the caller
            future.set_exception(e)
        Event().wait()

    Thread(target=keep, daemon=True).start()
    cluster = future.result()
    atexit.register(cluster.stop)
    return cluster


def new_database(deployment: str = DEPLOYMENT, name: str = "") -> str:
    """Return the URL of a new database of the shared server, with the schema and without rows."""
    return shared().new_database(deployment, name)


def live_url(url: str) -> str:
    """Return the URL of a database with the logins that read live views."""
    return re.sub("//[^:@]*", "//{instance}_reader", url)


def driver_url(url: str) -> str:
    """Return the URL of a database as psycopg takes it, without SQLAlchemy."""
    return url.replace("+psycopg", "")


def count_created() -> int:
    """Return how many databases exist, without starting a server."""
    return len(shared().created) if _start.cache_info().currsize else 0


def drop_created(kept: int) -> None:
    """Drop all databases but the first ``kept``."""
    for url in shared().created[kept:] if kept < count_created() else ():
        shared().drop_database(url)
