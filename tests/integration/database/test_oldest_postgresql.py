"""Sexton works on the PostgreSQL that Debian has, the oldest that this machine offers: 14 or newer."""

from pathlib import Path

from sexton.contract import NewMark
from tests.support.rig import Rig, listing, put


def test_schema_and_a_round_on_the_oldest_server(debian_url: str, tmp_path: Path) -> None:
    rig = Rig(debian_url).instance()
    with rig.db.read() as c:
        version = int(c.exec_driver_sql("SHOW server_version_num").scalar_one())
    root = rig.local(tmp_path / "v")
    put(root, "data/a.dat")
    put(root, "data/b.dat")
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("data/a.dat",)))
    rig.later(10_801)

    report = rig.round()

    rig.db.close()
    assert (report.deleted, set(listing(root))) == (1, {"data/b.dat"})
    assert version >= 140_000
