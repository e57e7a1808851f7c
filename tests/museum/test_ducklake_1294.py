"""DuckLake #1294: a glob added a file and a link to it; one name was stored, and the other one was called an orphan.

Its deletion left a link to nothing, and the table could not be read. In an attached lake a file that has a name of its
user's is never an orphan, and a second path of a file that DuckLake named is not registered.
"""

from pathlib import Path

import pytest

from examples.demo.duckdb_client import DuckDbError
from tests.servers.postgres import new_database
from tests.support.lake import AttachedLake
from tests.support.rig import DAY


@pytest.mark.slow
def test_ducklake_1294_a_link_and_its_file_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = AttachedLake(new_database(), tmp_path).attach(capsys)
    lake.db.run(f"COPY (FROM range(10)) TO '{lake.data}/real.parquet'", "CREATE TABLE t(range BIGINT)")
    (lake.data / "alias.parquet").symlink_to(lake.data / "real.parquet")
    lake.db.run(f"CALL ducklake_add_data_files('lake', 't', '{lake.data}/*.parquet')")
    rows = lake.db.sql("SELECT len(list(t)) FROM t")
    for _ in range(3):
        lake.rig.later(4 * DAY)
        lake.rig.check()

    report = lake.rig.round()

    assert "ORPHAN" not in lake.rig.open_findings()
    assert (report.deleted, lake.db.sql("SELECT len(list(t)) FROM t")) == (0, rows)

    lake.db.run("CREATE TABLE own AS FROM range(10)", "CREATE TABLE twin(range BIGINT)")
    [key] = lake.listed("own")
    (lake.data / "main" / "own" / "link").symlink_to(lake.data / "main" / "own", target_is_directory=True)
    with pytest.raises(DuckDbError, match="SX006"):
        lake.db.sql(f"CALL ducklake_add_data_files('lake', 'twin', '{lake.data}/main/own/link/{Path(key).name}')")
    lake.close()
