"""The cases of DuckLake's own tests of cleanup, expiry and orphans, told again for an attached lake.

After each case every table reads as before at every retained snapshot, and the files that exist are those that the
lake needs. ``PORTED`` says for each of DuckLake's test files which case it became, or why it became none.
"""

from typing import NamedTuple

import pytest

from examples.demo.duckdb_client import DuckDbError
from tests.support.lake import AttachedLake
from tests.support.rig import DAY


class Case(NamedTuple):
    """Statements that leave garbage, and the tables that are read afterwards."""

    statements: tuple[str, ...]
    tables: tuple[str, ...] = ("t",)


THREE = ("CREATE TABLE t(a BIGINT)", *("INSERT INTO t FROM range(100)",) * 3)
MERGE, REWRITE = "CALL ducklake_merge_adjacent_files('lake')", "CALL ducklake_rewrite_data_files('lake')"
CASES = {
    "renamed": Case((*THREE, "ALTER TABLE t RENAME TO kept", "CREATE TABLE t(a BIGINT)", "DROP TABLE t"), ("kept",)),
    "named again": Case((*THREE, "DROP TABLE t", *THREE)),
    "drop in one transaction": Case((*THREE, "BEGIN", "CREATE TABLE u AS FROM t", "DROP TABLE u", "COMMIT")),
    "rolled back": Case((*THREE, "BEGIN", "CREATE TABLE u AS FROM t", "DROP TABLE t", "ROLLBACK")),
    "deletes dropped with their table": Case(
        (*THREE, "CREATE TABLE u AS FROM t", "DELETE FROM u WHERE a < 5", "DELETE FROM u WHERE a < 9", "DROP TABLE u")
    ),
    "schema dropped": Case((*THREE, "CREATE SCHEMA s", "CREATE TABLE s.u AS FROM t", "DROP SCHEMA s CASCADE")),
    "schema with a blank": Case(('CREATE SCHEMA "a b"', *THREE, 'CREATE TABLE "a b"."c d" AS FROM t'), ("t",)),
    "column added and merged": Case(
        (*THREE, "ALTER TABLE t ADD COLUMN b INTEGER", "INSERT INTO t VALUES (1, 2)", MERGE)
    ),
    "column renamed and merged": Case((*THREE, "ALTER TABLE t RENAME a TO b", "INSERT INTO t VALUES (1)", MERGE)),
    "merged twice": Case((*THREE, MERGE, "INSERT INTO t FROM range(7)", MERGE)),
    "deleted and rewritten": Case((*THREE, "DELETE FROM t WHERE a < 99", REWRITE)),
    "all rows deleted": Case((*THREE, "DELETE FROM t", "INSERT INTO t VALUES (1)")),
    "truncated and rewritten": Case((*THREE, "DELETE FROM t", REWRITE, "INSERT INTO t VALUES (1)")),
    "updated": Case((*THREE, "UPDATE t SET a = a + 1 WHERE a % 2 = 0")),
    "inlined and flushed": Case(
        (
            *THREE,
            "CALL lake.set_option('data_inlining_row_limit', 50)",
            "INSERT INTO t VALUES (1)",
            "CALL ducklake_flush_inlined_data('lake')",
            MERGE,
        )
    ),
    "partitions merged": Case(
        (
            "CREATE TABLE t(a BIGINT, p VARCHAR)",
            "ALTER TABLE t SET PARTITIONED BY (p)",
            *("INSERT INTO t SELECT range, 'x/' || range % 2 FROM range(50)",) * 3,
            MERGE,
        )
    ),
    "view and macro dropped": Case(
        (*THREE, "CREATE VIEW w AS FROM t", "CREATE MACRO m(x) AS x + 1", "DROP VIEW w", "DROP MACRO m", MERGE)
    ),
    "expired by an option": Case(
        (*THREE, MERGE, "CALL lake.set_option('expire_older_than', '1 millisecond')", "CHECKPOINT")
    ),
    "expired by numbers": Case((*THREE, MERGE, "CALL ducklake_expire_snapshots('lake', versions => [1, 2])")),
    "deletion vectors": Case(
        (*THREE, "CALL lake.set_option('write_deletion_vectors', true)", "DELETE FROM t WHERE a = 5")
    ),
}
ALONE = ("inlined and flushed", "expired by an option", "expired by numbers", "deletion vectors")
"""Cases that set an option of the lake or number its snapshots; the others follow each other in one lake."""
GROUPS = [tuple(name for name in CASES if name not in ALONE), *((name,) for name in ALONE)]
PORTED = {
    "alter/expire_snapshot_bug": "renamed",
    "cleanup/cleanup_old_files": "drop in one transaction",
    "cleanup/create_drop_cleanup": "rolled back",
    "cleanup/drop_table_cleans_delete_files": "deletes dropped with their table",
    "compaction/cleanup_old_files_global_option": "test_attachment.py: an attached lake deletes nothing itself",
    "compaction/compaction_alter_table": "column renamed and merged",
    "compaction/compaction_cleanup_global": "merged twice",
    "compaction/compaction_encrypted": "test_deletes.py: a lake of inlined and encrypted data is cleaned",
    "compaction/compaction_full_file_delete": "truncated and rewritten",
    "compaction/compaction_partitioned_table": "partitions merged",
    "compaction/expire_snapshot_global_option": "expired by an option",
    "compaction/expire_snapshot_table_scoped_option": "none: a scoped option is no global one, which status reads",
    "compaction/expire_snapshots": "expired by numbers",
    "compaction/expire_snapshots_drop_macro": "view and macro dropped",
    "compaction/expire_snapshots_drop_table": "named again",
    "compaction/expire_snapshots_empty_versions": "none: DuckLake 1.5.5 refuses an empty list",
    "compaction/expire_snapshots_invalid_params": "none: DuckLake refuses its own arguments, and nothing is deleted",
    "compaction/expire_snapshots_metadata_cleanup": "schema dropped",
    "compaction/expire_snapshots_schema": "column added and merged",
    "compaction/merge_files_expired_snapshots": "merged twice",
    "compaction/rewrite_deletes_full_file_delete_after_flush": "inlined and flushed",
    "remove_orphans/concurrent_insert_orphan_cleanup": "test_attachment.py: late commits keep their files",
    "remove_orphans/metadata_in_data_path": "test a catalog in the data path is no orphan",
    "remove_orphans/mixed_paths": "test_deletes.py: a file that another table names is kept",
    "remove_orphans/orphan_after_expire": "every case: the files that exist are those that the lake needs",
    "remove_orphans/puffin_orphan": "deletion vectors",
    "remove_orphans/remove_orphaned_files": "test_attachment.py: orphans are deleted",
}


def read(lake: AttachedLake, tables: tuple[str, ...]) -> list[object]:
    """Return the rows of tables at every retained snapshot that has them."""
    seen: list[object] = []
    for [snapshot] in lake.db.sql("SELECT snapshot_id FROM ducklake_snapshots('lake') ORDER BY 1"):
        for table in tables:
            at = f"{table} AT (VERSION => {snapshot})"
            try:
                seen.append((snapshot, lake.db.sql(f"SELECT coalesce(list_sort(list({table})), []) FROM {at}")))
            except DuckDbError as e:
                if "does not exist" not in str(e):
                    raise
    return seen


def needed(lake: AttachedLake) -> set[str]:
    """Return the keys of the files that a retained snapshot needs, as the lake's rows show them."""
    with lake.rig.db.read() as c:
        return set(c.exec_driver_sql("SELECT key FROM lake.sexton_live").scalars())


def drop_all(lake: AttachedLake) -> None:
    """Drop every table, and delete the files of all."""
    for schema, table in lake.db.sql(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'lake'"
    ):
        lake.db.run(f'DROP TABLE "{schema}"."{table}"')
    lake.db.expire()
    lake.round()


@pytest.mark.slow
@pytest.mark.parametrize("names", GROUPS)
def test_a_case_of_ducklakes_own_tests(lake: AttachedLake, names: tuple[str, ...], subtests: pytest.Subtests) -> None:
    for name in names:
        with subtests.test(name):
            case = CASES[name]
            lake.db.run(*case.statements)
            retained = lake.round()
            with_snapshots = read(lake, case.tables)
            lake.db.expire()
            before = read(lake, case.tables)

            lake.round()

            assert retained.failed == 0
            assert with_snapshots[-len(before) :] == before
            assert read(lake, case.tables) == before
            assert lake.files() == needed(lake) != set()
            assert lake.listed(*case.tables) <= needed(lake)
            drop_all(lake)
            assert (lake.files(), lake.marks()) == (set(), {})


def test_a_catalog_in_the_data_path_is_no_orphan(lake: AttachedLake) -> None:
    (lake.data / "catalog.ducklake").write_bytes(b"metadata")
    (lake.data / "main").mkdir(exist_ok=True)
    (lake.data / "main" / "ducklake-no-uuid.parquet").write_bytes(b"someone's")
    for _ in range(3):
        lake.rig.check(after=4 * DAY)
    found = lake.rig.open_findings()

    assert "ORPHAN" not in found
    assert lake.files() == {"catalog.ducklake", "main/ducklake-no-uuid.parquet"}


def test_each_case_is_told() -> None:
    named = {case for case in PORTED.values() if ":" not in case and not case.startswith("test ")}

    assert named <= CASES.keys()
    assert len(PORTED) >= 24
