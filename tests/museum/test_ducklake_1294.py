"""DuckLake #1294: a glob added a file and a link to it; one name was stored, and the other one was called an orphan.

Its deletion left a link to nothing, and the table could not be read. In an attached lake a file that has a name of its
user's is never an orphan, and a second path of a file that DuckLake named is not registered.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.demo.duckdb_client import DuckDbError
from tests.servers.postgres import new_database
from tests.support.lake import AttachedLake
from tests.support.rig import DAY


@pytest.fixture
def lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[AttachedLake]:
    lake = AttachedLake(new_database(), tmp_path).attach(capsys)
    yield lake
    lake.close()


@pytest.mark.slow
def test_ducklake_1294_a_link_and_its_file_stay(lake: AttachedLake) -> None:
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


def test_ducklake_1294_no_second_path_is_registered(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE twin(range BIGINT)")
    [key] = lake.listed("t")
    (lake.data / "main" / "t" / "link").symlink_to(lake.data / "main" / "t", target_is_directory=True)

    with pytest.raises(DuckDbError, match="SX006"):
        lake.db.sql(f"CALL ducklake_add_data_files('lake', 'twin', '{lake.data}/main/t/link/{Path(key).name}')")
