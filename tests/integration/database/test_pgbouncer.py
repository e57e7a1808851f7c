"""Rounds of several instances through PgBouncer in transaction mode, on fewer connections than they have."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from sqlalchemy import make_url

from sexton.contract import NewMark
from sexton.interfaces.cli.doctor.stored import examine_roles
from tests import machine
from tests.servers.postgres import MEMORY, driver_url
from tests.support.eventually import eventually
from tests.support.rig import RETENTION, Rig, listing, stores_of

SETTINGS = {"search_path": "pg_catalog, pg_temp", "synchronous_commit": "on", "lock_timeout": "'5s'"}
"""What docs/kubernetes.md gives to the roles."""
CONFIG = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 3
ignore_startup_parameters = options, extra_float_digits
logfile = {folder}/log
pidfile = {folder}/pid
"""


@pytest.fixture
def pooled(database_url: str) -> Iterator[str]:
    """The URL of a database behind PgBouncer, whose role has the settings of our documents."""
    program, url = machine.need("pgbouncer"), make_url(database_url)
    with psycopg.connect(driver_url(database_url), autocommit=True) as c:
        for name, value in SETTINGS.items():
            c.execute(f'ALTER ROLE "{url.username}" IN DATABASE "{url.database}" SET {name} = {value}'.encode())
    with TemporaryDirectory(prefix="sexton-pgb-", dir=MEMORY) as scratch:  # a short path, which any user may pass
        folder = Path(scratch)
        (folder / "users").write_text(f'"{url.username}" "{url.password or ""}"\n')
        (folder / "ini").write_text(CONFIG.format(host=url.host, port=url.port, folder=folder))
        if is_root := os.geteuid() == 0:  # it refuses to run as root
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, "nobody")
        server = subprocess.Popen([program, str(folder / "ini")], user="nobody" if is_root else None)
        eventually("it listens", lambda: (folder / ".s.PGSQL.6432").exists() or server.poll() is not None)
        where = {"host": str(folder), "port": "6432"}
        yield url.set(host="", port=None, query=where).render_as_string(hide_password=False)
        server.terminate()
        server.wait()


def test_instances_share_the_connections_of_a_pooler(pooled: str, tmp_path: Path) -> None:
    rigs = [Rig(pooled) for _ in range(6)]
    roots = [rig.instance(f"i{n}").local(tmp_path / f"v{n}", instance=f"i{n}") for n, rig in enumerate(rigs)]
    for n, (rig, root) in enumerate(zip(rigs, roots, strict=True)):
        keys = [f"{m}.dat" for m in range(20)]
        for key in keys:
            (root / key).write_bytes(b"x")
        rig.mark("dropped", *(NewMark(id=f"{n}-{k}", vault="disk", keys=(k,)) for k in keys), instance=f"i{n}")
    rigs[0].later(RETENTION["dropped"] + 1)
    with ThreadPoolExecutor(len(rigs)) as pool:
        reports = list(pool.map(lambda n: rigs[n].round(f"i{n}"), range(len(rigs))))
    doctor = examine_roles(stores_of(rigs[0].db))
    for rig in rigs:
        rig.db.close()

    assert [(report.state, report.removed) for report in reports] == [("SUCCEEDED", 20)] * len(rigs)
    assert [listing(root) for root in roots] == [{}] * len(rigs)
    assert "search_path" not in str(doctor)
