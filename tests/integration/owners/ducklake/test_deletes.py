"""What a round deletes of an attached DuckLake: files that no snapshot needs; and what the path of a file tells."""

import psycopg
import pytest

from examples.demo.duckdb_client import DuckDbError
from sexton.owners.ducklake.lake_sql import LakeSql, uuid
from sexton.owners.ducklake.model import ELSEWHERE, Lake
from tests.servers.postgres import Cluster
from tests.support.command import run
from tests.support.lake import AttachedLake


@pytest.mark.slow
def test_files_of_an_expired_table_are_deleted(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE old AS FROM range(10)", "CREATE TABLE kept AS FROM range(5)", "DROP TABLE old")
    lake.db.expire()

    early, late = lake.round(60), lake.round()

    assert (early.deleted, late.deleted) == (0, 1)
    assert lake.files() == lake.listed("kept")
    assert lake.db.sql("SELECT coalesce(len(list(kept)), 0) FROM kept") == [[5]]


def test_nothing_is_deleted_while_a_snapshot_needs_it(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)")
    [[before]] = lake.db.sql("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")
    lake.db.run("DELETE FROM t WHERE range < 3", "INSERT INTO t FROM range(100, 105)", "DROP TABLE t")

    report = lake.round()

    assert (report.deleted, lake.marks()) == (0, {})
    assert lake.db.sql(f"SELECT coalesce(len(list(t)), 0) FROM t AT (VERSION => {before})") == [[10]]


@pytest.mark.slow
def test_inputs_of_a_merge_are_compacted(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t(a INTEGER)", *["INSERT INTO t FROM range(100)"] * 3)
    lake.db.run("CALL ducklake_merge_adjacent_files('lake')")
    lake.db.expire()
    kinds = set(lake.marks().values())

    report = lake.round(1_801)

    assert (kinds, report.deleted) == ({"compacted"}, 3)
    assert lake.files() == lake.listed("t")
    assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[300]]


def test_delete_files_are_deleted_with_what_they_delete_from(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(1000)", "DELETE FROM t WHERE range < 10")
    lake.db.run("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")
    lake.db.expire()

    lake.round()

    assert lake.files() == lake.listed("t")
    assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[990]]


@pytest.mark.slow
def test_a_file_of_two_tables_is_kept_for_the_second(lake: AttachedLake) -> None:
    shared = lake.data / "shared.parquet"
    lake.db.run(f"COPY (SELECT 5 AS a) TO '{shared}'")
    for table in ("v1", "v2"):
        lake.db.run(f"CREATE TABLE {table}(a INTEGER)", f"CALL ducklake_add_data_files('lake', '{table}', '{shared}')")
    lake.db.run("DROP TABLE v1")
    lake.db.expire()
    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    report, of_one = lake.round(), lake.db.sql("FROM v2")
    lake.db.run("DROP TABLE v2")
    lake.db.expire()

    unmarked, last = lake.round(60), lake.round()

    assert (report.deleted, of_one) == (0, [[5]])
    assert (unmarked.deleted, last.deleted, lake.files()) == (0, 1, set())


def test_a_file_with_a_name_of_its_own_is_deleted(lake: AttachedLake) -> None:
    file = lake.data / "main" / "mine.parquet"
    file.parent.mkdir(exist_ok=True)
    lake.db.run(f"COPY (SELECT 5 AS a) TO '{file}'", "CREATE TABLE v(a INTEGER)", "CREATE TABLE kept AS FROM range(3)")
    lake.db.run(f"CALL ducklake_add_data_files('lake', 'v', '{file}')", "DROP TABLE v")
    lake.db.expire()

    report = lake.round()

    assert (report.deleted, file.exists()) == (1, False)


def test_an_own_file_in_two_tables_is_kept(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE twin(range BIGINT)")
    [key] = lake.listed("t")
    lake.db.run(f"CALL ducklake_add_data_files('lake', 'twin', '{lake.data / key}')", "DROP TABLE t")
    lake.db.expire()

    report = lake.round()

    assert (report.deleted, lake.marks(), lake.files()) == (0, {}, {key})
    assert lake.db.sql("SELECT coalesce(len(list(twin)), 0) FROM twin") == [[10]]


def test_a_file_that_is_added_again_loses_its_mark(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)")
    [key] = lake.listed("t")
    lake.db.run("DROP TABLE t")
    lake.db.expire()
    marked = lake.marks()
    lake.db.run("CREATE TABLE again(range BIGINT)")
    lake.db.run(f"CALL ducklake_add_data_files('lake', 'again', '{lake.data / key}')")

    report = lake.round()

    assert (marked, lake.marks(), report.deleted) == ({key: "dropped"}, {}, 0)
    assert lake.db.sql("SELECT coalesce(len(list(again)), 0) FROM again") == [[10]]


def test_a_claimed_file_cannot_be_added_again(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE again(range BIGINT)")
    [key] = lake.listed("t")
    lake.db.run("DROP TABLE t")
    lake.db.expire()
    lake.rig.later(10_801)
    lake.rig.sql("UPDATE {}mark SET state = 'CLAIMED', batch = 1")

    with pytest.raises(DuckDbError, match="SX001 collected") as refused:
        lake.db.sql(f"CALL ducklake_add_data_files('lake', 'again', '{lake.data / key}')")

    assert not any(word in str(refused.value).lower() for word in ("conflict", "unique", "primary key", "concurrent"))
    assert lake.db.sql("SELECT coalesce(len(list(again)), 0) FROM again") == [[0]]


def test_a_file_elsewhere_is_quarantined(lake: AttachedLake) -> None:
    outside = lake.data.parent / "outside.parquet"
    lake.db.run(f"COPY (SELECT 5 AS a) TO '{outside}'", "CREATE TABLE v(a INTEGER)")
    lake.db.run(f"CALL ducklake_add_data_files('lake', 'v', '{outside}')", "CREATE TABLE old AS FROM range(3)")
    lake.db.run("DROP TABLE v", "DROP TABLE old")
    lake.db.expire()

    report = lake.round()

    assert (report.deleted, outside.exists(), lake.files()) == (1, True, set())
    assert lake.rig.count("mark", quarantined_reason="UNKNOWN_VAULT") == 1


def test_no_vault_can_have_the_name_of_elsewhere(lake: AttachedLake, capsys: pytest.CaptureFixture[str]) -> None:
    other = lake.data.parent / "other"
    other.mkdir()
    refused = run(lake.rig, capsys, "vault", "add", "shop", ELSEWHERE, "--local", str(other))

    assert refused.code != 0
    assert [vault.name for vault in lake.rig.registry.vaults("shop")] == ["lake"]


@pytest.mark.slow
def test_a_number_that_is_given_again_is_of_another_file(lake: AttachedLake) -> None:
    for name in ("a", "b"):
        # As in a catalog that was restored from a backup.
        lake.rig.sql("UPDATE lake.ducklake_snapshot SET next_file_id = 5")
        lake.db.run(f"COPY (SELECT 5 AS a) TO '{lake.data}/{name}.parquet'", "CREATE TABLE v(a INTEGER)")
        lake.db.run(f"CALL ducklake_add_data_files('lake', 'v', '{lake.data}/{name}.parquet')", "DROP TABLE v")
        lake.db.expire()
        marked, deleted = set(lake.marks()), lake.round().deleted

        assert (marked, deleted) == ({f"{name}.parquet"}, 1)


@pytest.mark.slow
@pytest.mark.parametrize("setup", ["ALTER TABLE t SET PARTITIONED BY (part)", "CREATE SCHEMA s2"])
def test_partitions_and_schemas_are_read_as_they_are(lake: AttachedLake, setup: str) -> None:
    lake.db.run("CREATE TABLE t(a BIGINT, part VARCHAR)", setup)
    lake.db.run("INSERT INTO t SELECT range, 'ä b/' || range % 3 FROM range(9)")
    if "SCHEMA" in setup:
        lake.db.run("CREATE TABLE s2.t AS FROM t")
    lake.db.run("CREATE TABLE old AS FROM t", "DROP TABLE old")
    lake.db.expire()
    tables = ("t", "s2.t") if "SCHEMA" in setup else ("t",)

    report = lake.round()
    check = lake.rig.check()

    assert report.deleted == 1
    assert lake.files() == lake.listed(*tables)
    assert (check.found, lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t")) == ({}, [[9]])


def test_a_lake_of_inlined_and_encrypted_data_is_cleaned(database_url, tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    lake = AttachedLake(database_url, tmp_path, ", ENCRYPTED").attach(capsys)
    lake.db.run("CALL lake.set_option('data_inlining_row_limit', 100)", "CREATE TABLE small AS FROM range(3)")
    lake.db.run("CREATE TABLE big AS FROM range(1000)", "CREATE TABLE old AS FROM range(1000)", "DROP TABLE old")
    lake.db.expire()

    report = lake.round()

    assert (report.deleted, lake.files()) == (1, lake.listed("big"))
    assert lake.db.sql("SELECT coalesce(len(list(small)), 0) FROM small") == [[3]]
    assert lake.db.sql("SELECT coalesce(len(list(big)), 0) FROM big") == [[1000]]
    lake.close()


@pytest.mark.slow
def test_a_second_engine_is_part_of_the_same_lake(lake: AttachedLake) -> None:
    with lake.another() as other:
        lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE u AS FROM range(10)")
        other.run("INSERT INTO t FROM range(5)", "DROP TABLE u")
        other.expire()

        report = lake.round()

        assert (report.deleted, lake.files()) == (1, lake.listed("t"))
        assert other.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[15]]


def value(postgres: Cluster, expression: str, path: str) -> object:
    """Return the value of an expression of the path ``p``."""
    with psycopg.connect(postgres.url().replace("+psycopg", "")) as c:
        row = c.execute(f"SELECT {expression} FROM (SELECT %s::text) AS t (p)".encode(), (path,)).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("data_path", "path", "unclear"),
    [
        ("/srv/data/", "/srv/data/main/t/a.parquet", False),
        ("/srv/data/", "/other/a.parquet", False),
        ("/srv/data/", "s3://bucket/a.parquet", False),
        ("/srv/data/", "file:///srv/data/a.parquet", True),
        ("/srv/data/", "data/a.parquet", True),
        ("/srv/data/", "/srv/data//a.parquet", True),
        ("s3://b/p/", "s3://b/p/main/t/a.parquet", False),
        ("s3://b/p/", "s3://other/a.parquet", False),
        ("s3://b/p/", "/srv/a.parquet", False),
        ("s3://b/p/", "s3://b/p/a.parquet?s3_region=x", True),
        ("s3://b/p/", "s3://b//p/a.parquet", True),
        ("s3://b/p/", "s3a://b/p/a.parquet", True),
        ("s3://b/p/", "https://b.s3.amazonaws.com/p/a.parquet", True),
    ],
)
def test_paths_that_may_name_a_file_twice_are_unclear(
    postgres: Cluster, data_path: str, path: str, unclear: bool
) -> None:
    sql = LakeSql(Lake("lake", "lake", "lake", data_path))

    assert value(postgres, sql.is_unclear("p"), path) is unclear


@pytest.mark.parametrize("name", ["ducklake-{}.parquet", "ducklake-{}-delete.parquet", "ducklake-{}-delete.puffin"])
def test_the_uuid_of_a_name_is_found(postgres: Cluster, name: str) -> None:
    number = "01a21dda-828e-74f0-934a-f4262593c5c6"
    paths = (
        f"/srv/data/t/{name.format(number)}",
        f"/{name.format(number.upper())}",
        f"/x{name.format(number)}",
        "/a",
    )

    assert [value(postgres, uuid("p"), path) for path in paths] == [number, None, None, None]
