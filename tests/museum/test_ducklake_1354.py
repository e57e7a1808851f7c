"""DuckLake #1354: one Parquet file was added to two tables, one table was dropped, and the file deleted.

Its cleanup scheduled the path of each entry that no snapshot needs, and did not ask whether another entry has the same
path. Sexton asks the owner before each claim, by key: a file that any row still shows is kept, and ``why`` names it.
"""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.marks.kept import KeepReason
from tests.integration.check.conftest import Owned
from tests.servers.postgres import new_database
from tests.support.command import run
from tests.support.kept import kept_texts
from tests.support.lake import AttachedLake

SHARED = "data/t1/shared_0.dat"


def test_ducklake_1354_a_file_of_two_tables_stays(owned: Owned, capsys: pytest.CaptureFixture[str]) -> None:
    owned.write_old(SHARED)
    owned.live_rows((SHARED, 10), kind="t1")
    owned.live_rows((SHARED, 10), kind="t2")
    owned.forget(SHARED)
    owned.live_rows((SHARED, 10), kind="t2")
    owned.mark("dropped", NewMark(id="of-t1", vault="disk", keys=(SHARED,)))
    owned.later(10_801)

    first = owned.round()
    why = run(owned, capsys, "why", SHARED).out
    is_kept = (owned.root / SHARED).exists()
    owned.forget(SHARED)
    second = owned.round()

    assert (first.deleted, is_kept, list(first.kept.values())) == (0, True, [1])
    assert KeepReason.LIVE in {kept.reason for kept in first.kept}
    assert "live: t2" in why
    assert (second.deleted, (owned.root / SHARED).exists()) == (1, False)
    assert kept_texts(second) == {}


@pytest.mark.soak
def test_ducklake_1354_beside_the_peer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {}
    for name in ("alone", "attached"):
        home = tmp_path / name
        home.mkdir()
        lake = AttachedLake(new_database(), home)
        if name == "attached":
            lake.attach(capsys)
        shared = lake.data / "shared.parquet"
        lake.db.run(f"COPY (FROM range(10)) TO '{shared}'")
        for table in ("v1", "v2"):
            lake.db.run(f"CREATE TABLE {table}(range BIGINT)")
            lake.db.run(f"CALL ducklake_add_data_files('lake', '{table}', '{shared}')")
        lake.db.run("DROP TABLE v1")
        lake.db.expire()
        lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
        if name == "attached":
            lake.round()
        outcomes[name] = shared.exists()
        lake.close()

    assert outcomes == {"alone": False, "attached": True}
