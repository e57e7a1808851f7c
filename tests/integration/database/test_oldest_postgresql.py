"""Sexton works on the PostgreSQL that Debian has, the oldest that this machine offers: 14 or newer."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.database import schema
from sexton.runtime.embedded import postgres
from sexton.runtime.embedded.ports import Ports
from tests.machine import REASON
from tests.servers.postgres import DEPLOYMENT
from tests.support.rig import Rig, listing, put

DEBIAN = Path("/usr/lib/postgresql")


def test_schema_and_a_round_on_the_oldest_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = sorted((p.parent.parent for p in DEBIAN.glob("*/bin/postgres")), key=lambda p: int(p.name))
    if not versions:
        pytest.skip(f"{REASON}Debian's postgresql")
    monkeypatch.setattr(postgres, "_programs", lambda _user: versions[0] / "bin")
    server = postgres.PostgresServer(tmp_path, Ports(tmp_path), "secret", {"fsync": "off"})
    server.start()
    try:
        url = server.url().replace("postgresql:", "postgresql+psycopg:")
        schema.init(url, DEPLOYMENT)
        rig = Rig(url).instance()
        root = rig.local(tmp_path / "v")
        put(root, "data/a.dat")
        put(root, "data/b.dat")
        rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("data/a.dat",)))
        rig.later(10_801)

        report = rig.round()

        rig.db.close()
        assert (report.deleted, set(listing(root))) == (1, {"data/b.dat"})
        assert int(versions[0].name) >= 14
    finally:
        server.stop()
