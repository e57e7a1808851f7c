"""Run the embedded stack over one home directory: PostgreSQL with Sexton's schema, S3, Temporal, workers.

A restart over the same home keeps every object, workflow, schedule, row and key, and every port that is still free. A
lock allows one stack for each home; it ends with the process that holds it, even when that is killed.
"""

import fcntl
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from config.sources import home_env
from sexton.kernel.process import make_directory, open_file
from sexton.runtime.embedded.child import Child, EmbeddedError, find_binary, stop_leftovers
from sexton.runtime.embedded.ports import Ports, is_open, write_atomically
from sexton.runtime.embedded.postgres import PostgresServer
from sexton.runtime.embedded.s3 import S3Server

NAMESPACE = "default"


class TemporalServer:
    """One dev server over ``HOME/temporal.db``."""

    def __init__(self, home: Path, ports: Ports) -> None:
        self._binary = find_binary("temporal")
        self._port = ports.take("temporal")
        ui = ports.take("temporal ui")
        self.address = f"127.0.0.1:{self._port}"
        self.ui_url = f"http://127.0.0.1:{ui}"
        # A developer's TEMPORAL_ variables would direct the commands to another server.
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
        command = [self._binary, "server", "start-dev", "--ip=127.0.0.1", f"--port={self._port}"]
        command += ["--ui-ip=127.0.0.1", f"--ui-port={ui}", f"--http-port={ports.take('temporal http')}"]
        command += [f"--metrics-port={ports.take('temporal metrics')}", "--log-level=error"]
        # WAL and NORMAL: several times faster, and still consistent after a SIGKILL.
        command += ["--sqlite-pragma=journal_mode=WAL", "--sqlite-pragma=synchronous=NORMAL"]
        command.append(f"--db-filename={home.resolve() / 'temporal.db'}")
        self.child = Child("temporal", command, home, self._env)

    def start(self) -> float:
        """Start the server; return the seconds until its namespace answers."""
        return self.child.start(self._answers)

    def _answers(self) -> bool:
        if not is_open(self._port):
            return False
        # The port opens before the namespace exists.
        command = [self._binary, "operator", "namespace", "describe"]
        command += [f"--namespace={NAMESPACE}", f"--address={self.address}"]
        try:
            return subprocess.run(command, env=self._env, capture_output=True, timeout=10).returncode == 0
        except subprocess.TimeoutExpired:
            return False


WORKER = "worker"
"""The name of the first worker; the names of all others begin with it."""
SPARK_WORKER = f"{WORKER}-spark"
CONSOLE = "console"
WORKER_READY_LINE = "is polling"
"""The line that a worker logs once it takes work; a test compares them."""

LIVE_URL = "SEXTON_LIVE_DATABASE_URL"
LOOPBACK = "localhost,127.0.0.1"
"""Hosts that children reach directly, whatever proxy the environment names."""
_FOREIGN = frozenset({"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"})
"""A developer's variables that would direct a worker to another store."""


class Stack:
    """The stack of one home directory. Call ``stop()`` in a ``finally``; it may be called in any state."""

    def __init__(self, home: Path) -> None:
        self.home = home.resolve()
        self.children: dict[str, Child] = {}
        self._ports: Ports | None = None
        self._lock: IO[str] | None = None

    def start(self, report: Callable[[str], None]) -> None:
        """Start every part except the workers, in order; report one line for each, with the seconds it took.

        Raises:
            EmbeddedError: another process runs this home, a program is missing, or a part does not start. Parts that
                had started are stopped.
        """
        make_directory(self.home)
        lock = open_file(self.home / "lock", "a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip() or "unknown"
            lock.close()
            raise EmbeddedError(
                f"a stack already runs over {self.home} (pid {pid}): stop it, or set SEXTON_HOME to another directory"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock
        try:
            self._start(report)
        except BaseException:
            self.stop()
            raise

    def _start(self, report: Callable[[str], None]) -> None:
        for name in stop_leftovers(self.home):
            report(f"stopped {name}, left running by a stack that was killed")
        ports = self._ports = Ports(self.home)
        stored = home_env(self.home)
        keys = {
            "AWS_ACCESS_KEY_ID": stored.get("AWS_ACCESS_KEY_ID") or secrets.token_hex(8),
            "AWS_SECRET_ACCESS_KEY": stored.get("AWS_SECRET_ACCESS_KEY") or secrets.token_hex(20),
        }
        password = urlsplit(stored.get("SEXTON_DATABASE_URL", "")).password or secrets.token_hex(20)
        live_password = urlsplit(stored.get(LIVE_URL, "")).password or secrets.token_hex(20)
        postgres = PostgresServer(self.home, ports, password)
        self.children["postgres"] = postgres.child
        database_seconds = postgres.start()
        self.children["postgres"] = postgres.child  # another one if its port was taken meanwhile
        s3 = S3Server(self.home, ports, *keys.values())
        temporal = TemporalServer(self.home, ports)
        written = {
            "SEXTON_DEPLOYMENT": self._deployment(stored.get("SEXTON_DEPLOYMENT", "")),
            "SEXTON_DATABASE_URL": f"{postgres.url()}?sslmode=disable",  # whatever PGSSLMODE says
            LIVE_URL: f"{postgres.url(role='{instance}_reader', password=live_password)}?sslmode=disable",
            "SEXTON_TEMPORAL__ADDRESS": temporal.address,
            "SEXTON_TEMPORAL__UI_URL": temporal.ui_url,
            "SEXTON_S3__ENDPOINT_URL": s3.endpoint_url,
            "SEXTON_METRICS__LISTEN": f"127.0.0.1:{ports.take('metrics')}",
            "SEXTON_API__LISTEN": f"127.0.0.1:{ports.take('api')}",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        lines = "".join(f"{name}={value}\n" for name, value in (stored | written | keys).items())
        write_atomically(self.home / "env", lines)

        self.children["s3"] = s3.child
        report(f"S3        ready in {s3.start():.1f} s")
        self.children["temporal"] = temporal.child
        report(f"Temporal  ready in {temporal.start():.1f} s")
        began = time.monotonic()
        from sexton.database import schema  # here, as importing SQLAlchemy and Alembic takes the CLI half a second

        schema.init(written["SEXTON_DATABASE_URL"], written["SEXTON_DEPLOYMENT"])
        report(f"database  ready in {database_seconds + time.monotonic() - began:.1f} s")

    def _deployment(self, stored: str) -> str:
        """Return the stored deployment of this home; a new home takes the environment's, or a random one."""
        variable = os.environ.get("SEXTON_DEPLOYMENT", "")
        if stored and variable not in ("", stored):
            raise EmbeddedError(
                f"SEXTON_DEPLOYMENT is {variable}, but {self.home} belongs to {stored}: unset it, or use another "
                "SEXTON_HOME"
            )
        return stored or variable or f"demo-{secrets.token_hex(4)}"

    def start_worker(self, name: str = WORKER, settings: Mapping[str, str] | None = None) -> float:
        """Launch a worker and wait until it takes work; return the seconds it took. Raises as ``await_worker`` does."""
        self.launch_worker(name, settings)
        return self.await_worker(name)

    def launch_worker(
        self, name: str = WORKER, settings: Mapping[str, str] | None = None, arguments: Sequence[str] = ()
    ) -> None:
        """Launch a worker that uses the running servers, and stop an earlier one of that name.

        The names of additional workers begin with ``worker``. ``settings``: variables for this worker only.
        ``arguments``: of its command line, for example its role.
        """
        assert name.startswith(WORKER)
        assert self._ports is not None
        previous = self.children.pop(name, None)
        if previous is not None:
            previous.stop()
        env = self._child_environment()
        if name != WORKER:  # each additional worker needs its own port
            env["SEXTON_METRICS__LISTEN"] = f"127.0.0.1:{self._ports.take(f'metrics of {name}')}"
        command = [sys.executable, "-m", "sexton", "worker", "run", *arguments]
        child = Child(name, command, self.home, env | dict(settings or {}))
        self.children[name] = child
        child.launch()

    def launch_spark_worker(self, settings: Mapping[str, str] | None = None) -> None:
        """Launch a worker for Spark, which starts Spark itself with its first job; ``settings``: variables for it."""
        self.launch_worker(SPARK_WORKER, settings, ("--role", "spark"))

    def start_console(self) -> float:
        """Start the console, with the API beside it; return the seconds until it listens. Raises ``EmbeddedError``."""
        command, env = [sys.executable, "-m", "sexton", "console"], self._child_environment()
        child = self.children[CONSOLE] = Child(CONSOLE, command, self.home, env)
        return child.start(lambda: child.has_logged("listening on"))

    def create_token(self) -> str:
        """Return a new token, with which an operator may log in to the console for 30 days; empty: it was not made."""
        create = ("token", "create", "--scope", "operate@*", "--days", "30", "--note", "sexton up")
        command, env = [sys.executable, "-m", "sexton", *create], self._child_environment()
        return subprocess.run(command, env=env, check=False, capture_output=True, text=True).stdout.strip()

    def _child_environment(self) -> dict[str, str]:
        env = {variable: value for variable, value in os.environ.items() if variable not in _FOREIGN}
        direct = {name: ",".join(filter(None, (env.get(name, ""), LOOPBACK))) for name in ("no_proxy", "NO_PROXY")}
        return env | direct | self.environment() | {"SEXTON_HOME": str(self.home)}

    def await_worker(self, name: str = WORKER) -> float:
        """Wait until a worker logs that it takes work; return the seconds. Raises as ``Child.await_ready`` does."""
        child = self.children[name]
        return child.await_ready(lambda: child.has_logged(WORKER_READY_LINE))

    def environment(self) -> dict[str, str]:
        """Return the variables of a process that uses this stack, from ``HOME/env``; empty before the first start."""
        return home_env(self.home)

    def check(self) -> None:
        """Raise ``EmbeddedError`` if a part died, with its name, exit code and the last 15 lines of its log."""
        for child in self.children.values():
            child.check()

    def stop(self) -> None:
        """Stop every part, the last started first, and release the home."""
        while self.children:
            self.children.popitem()[1].stop()
        if self._lock:
            self._lock.close()
            self._lock = None
