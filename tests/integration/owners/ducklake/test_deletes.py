"""What a round deletes of an attached DuckLake: files that no snapshot needs; and what the path of a file tells."""

import psycopg
import pytest

from examples.demo.duckdb_client import DuckDbError
from sexton.owners.ducklake.lake_sql import LakeSql, uuid
from sexton.owners.ducklake.model import ELSEWHERE, Lake
from tests.servers.postgres import Cluster
from tests.support.command import run
from tests.support.lake import LATER, AttachedLake


def add(lake: AttachedLake, table: str, path: object) -> None:
    """Register a file in a table of the lake."""
    lake.db.run(f"CALL ducklake_add_data_files('lake', '{table}', '{path}')")


def test_files_are_deleted_a_retention_after_their_last_snapshot(lake: AttachedLake) -> None:
    lake.db.run(
        "CREATE TABLE t(a INTEGER)", *["INSERT INTO t FROM range(100)"] * 3, "CREATE TABLE old AS FROM range(9)"
    )
    [[before]] = lake.db.sql("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")
    lake.db.run("DELETE FROM old WHERE range < 3", "INSERT INTO old FROM range(100, 105)", "DROP TABLE old")
    needed, marks = lake.round(), lake.marks()
    rows = lake.db.sql(f"SELECT coalesce(len(list(old)), 0) FROM old AT (VERSION => {before})")
    lake.run_and_expire("CALL ducklake_merge_adjacent_files('lake')")
    kinds = sorted(lake.marks().values())

    rounds = [lake.round(seconds).deleted for seconds in (60, 1_801, LATER)]

    assert (needed.deleted, marks, rows) == (0, {}, [[9]])
    assert kinds == ["compacted"] * 3 + ["dropped"] * 3
    assert (rounds, lake.files()) == ([0, 3, 3], lake.listed("t"))
    assert lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t") == [[300]]


def test_a_file_that_another_table_names_is_kept(lake: AttachedLake) -> None:
    shared = lake.data / "shared.parquet"
    lake.db.run(f"COPY (SELECT 5 AS a) TO '{shared}'")
    for table in ("v1", "v2"):
        lake.db.run(f"CREATE TABLE {table}(a INTEGER)")
        add(lake, table, shared)
    for table in ("t", "u"):
        lake.db.run(f"CREATE TABLE {table} AS FROM range(10)", f"CREATE TABLE {table}2(range BIGINT)")
    [twin], [again] = lake.listed("t"), lake.listed("u")
    add(lake, "t2", lake.data / twin)
    lake.run_and_expire("DROP TABLE v1", "DROP TABLE t", "DROP TABLE u")
    lake.db.run("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    marked = lake.marks()
    add(lake, "u2", lake.data / again)

    kept = lake.round()

    assert (marked, lake.marks(), kept.deleted) == ({again: "dropped"}, {}, 0)
    assert lake.files() == {"shared.parquet", twin, again}
    assert lake.db.sql("FROM v2") == [[5]]
    for table in ("t2", "u2"):
        assert lake.db.sql(f"SELECT coalesce(len(list({table})), 0) FROM {table}") == [[10]]
    lake.run_and_expire("DROP TABLE v2")
    assert [lake.round(60).deleted, lake.round().deleted] == [0, 1]
    assert lake.files() == {twin, again}


def test_a_named_file_is_deleted_and_one_elsewhere_quarantined(
    lake: AttachedLake, capsys: pytest.CaptureFixture[str]
) -> None:
    named, outside, other = (
        lake.data / "main" / "mine.parquet",
        lake.data.parent / "outside",
        lake.data.parent / "other",
    )
    for directory in (named.parent, other):
        directory.mkdir(exist_ok=True)
    for table, file in (("v", named), ("w", outside)):
        lake.db.run(f"COPY (SELECT 5 AS a) TO '{file}' (FORMAT parquet)", f"CREATE TABLE {table}(a INTEGER)")
        add(lake, table, file)
    lake.run_and_expire("CREATE TABLE old AS FROM range(3)", *(f"DROP TABLE {table}" for table in ("v", "w", "old")))

    report, refused = lake.round(), run(lake.rig, capsys, "vault", "add", "shop", ELSEWHERE, "--local", str(other))

    assert (report.deleted, outside.exists(), lake.files()) == (2, True, set())
    assert lake.rig.count("mark", quarantined_reason="UNKNOWN_VAULT") == 1
    assert refused.code != 0
    assert [vault.name for vault in lake.rig.registry.vaults("shop")] == ["lake"]


def test_a_claimed_file_cannot_be_added_again_or_detached(
    lake: AttachedLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.db.run("CREATE TABLE t AS FROM range(10)", "CREATE TABLE again(range BIGINT)")
    [key] = lake.listed("t")
    lake.run_and_expire("DROP TABLE t")
    lake.rig.later(10_801)
    lake.rig.sql("UPDATE {}mark SET state = 'CLAIMED', batch = 1")

    with pytest.raises(DuckDbError, match="SX001 collected") as refused:
        lake.db.sql(f"CALL ducklake_add_data_files('lake', 'again', '{lake.data / key}')")

    assert not any(word in str(refused.value).lower() for word in ("conflict", "unique", "primary key", "concurrent"))
    detached, status = lake.command(capsys, "detach"), lake.command(capsys, "status")
    assert (detached.code, status.code, lake.marks()) == (1, 0, {key: "dropped"})
    assert "SX001 collected" in detached.err
    assert "try again when the round has ended" in detached.err
    with lake.rig.db.read() as c:
        assert c.exec_driver_sql("SELECT path FROM lake.ducklake_files_scheduled_for_deletion").all() == []
    lake.db.run("INSERT INTO again FROM range(4)")
    assert lake.db.sql("SELECT coalesce(len(list(again)), 0) FROM again") == [[4]]


@pytest.mark.slow
def test_a_number_that_is_given_again_is_of_another_file(lake: AttachedLake) -> None:
    for name in ("a", "b"):
        # As in a catalog that was restored from a backup.
        lake.rig.sql("UPDATE lake.ducklake_snapshot SET next_file_id = 5")
        lake.db.run(f"COPY (SELECT 5 AS a) TO '{lake.data}/{name}.parquet'", "CREATE TABLE v(a INTEGER)")
        lake.run_and_expire(f"CALL ducklake_add_data_files('lake', 'v', '{lake.data}/{name}.parquet')", "DROP TABLE v")
        marked, deleted = set(lake.marks()), lake.round().deleted

        assert (marked, deleted) == ({f"{name}.parquet"}, 1)


@pytest.mark.slow
def test_partitions_and_schemas_are_read_as_they_are(lake: AttachedLake) -> None:
    lake.db.run("CREATE TABLE t(a BIGINT, part VARCHAR)", "ALTER TABLE t SET PARTITIONED BY (part)")
    lake.db.run("INSERT INTO t SELECT range, 'ä b/' || range % 3 FROM range(9)")
    lake.run_and_expire(
        "CREATE SCHEMA s2", "CREATE TABLE s2.t AS FROM t", "CREATE TABLE old AS FROM t", "DROP TABLE old"
    )

    report = lake.round()
    check = lake.rig.check()

    assert report.deleted == 1
    assert lake.files() == lake.listed("t", "s2.t")
    assert (check.found, lake.db.sql("SELECT coalesce(len(list(t)), 0) FROM t")) == ({}, [[9]])


def test_a_lake_of_inlined_and_encrypted_data_is_cleaned(database_url, tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    lake = AttachedLake(database_url, tmp_path, ", ENCRYPTED").attach(capsys)
    lake.db.run("CALL lake.set_option('data_inlining_row_limit', 100)", "CREATE TABLE small AS FROM range(3)")
    lake.run_and_expire(
        "CREATE TABLE big AS FROM range(1000)", "CREATE TABLE old AS FROM range(1000)", "DROP TABLE old"
    )

    report = lake.round()

    assert (report.deleted, lake.files()) == (1, lake.listed("big"))
    assert lake.db.sql("SELECT coalesce(len(list(small)), 0) FROM small") == [[3]]
    assert lake.db.sql("SELECT coalesce(len(list(big)), 0) FROM big") == [[1000]]
    lake.close()


def values(postgres: Cluster, expression: str, *paths: str) -> list[object]:
    """Return the values of an expression of the path ``p``."""
    with psycopg.connect(postgres.url().replace("+psycopg", "")) as c:
        query = f"SELECT {expression} FROM unnest(%s::text[]) WITH ORDINALITY AS t (p, n) ORDER BY n".encode()
        return [row[0] for row in c.execute(query, (list(paths),))]


CLEAR = {
    "/srv/data/": ("/srv/data/main/t/a.parquet", "/other/a.parquet", "s3://bucket/a.parquet"),
    "s3://b/p/": ("s3://b/p/main/t/a.parquet", "s3://other/a.parquet", "/srv/a.parquet"),
}
UNCLEAR = {
    "/srv/data/": ("file:///srv/data/a.parquet", "data/a.parquet", "/srv/data//a.parquet"),
    "s3://b/p/": (
        "s3://b/p/a.parquet?s3_region=x",
        "s3://b//p/a.parquet",
        "s3a://b/p/a.parquet",
        "https://b.s3.amazonaws.com/p/a.parquet",
    ),
}
"""Data path → paths that may name a file twice."""


@pytest.mark.parametrize("data_path", CLEAR)
def test_paths_that_may_name_a_file_twice_are_unclear(postgres: Cluster, data_path: str) -> None:
    is_unclear = LakeSql(Lake("lake", "lake", "lake", data_path)).is_unclear("p")

    assert values(postgres, is_unclear, *CLEAR[data_path]) == [False] * len(CLEAR[data_path])
    assert values(postgres, is_unclear, *UNCLEAR[data_path]) == [True] * len(UNCLEAR[data_path])


def test_the_uuid_of_a_name_is_found(postgres: Cluster) -> None:
    number = "01a21dda-828e-74f0-934a-f4262593c5c6"
    for name in ("ducklake-{}.parquet", "ducklake-{}-delete.parquet", "ducklake-{}-delete.puffin"):
        right, upper, longer = name.format(number), name.format(number.upper()), "x" + name.format(number)

        assert values(postgres, uuid("p"), f"/srv/{right}", f"/{upper}", f"/{longer}", "/a") == [number, *[None] * 3]
