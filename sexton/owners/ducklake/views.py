"""Write the views of an attached DuckLake: the directory of each table, and every live file. Pure."""

from sexton.owners.ducklake.lake_sql import LakeSql, quoted
from sexton.owners.ducklake.model import DIRECTORIES, ELSEWHERE, FILE_TABLES, OPTION, OPTION_VALUE, VERSIONS, VIEW


def create(sql: LakeSql) -> list[str]:
    """Return the statements that create the views, each after what it reads."""
    return [
        f"CREATE VIEW {sql.table(DIRECTORIES)} AS {_directories(sql)}",
        f"CREATE VIEW {sql.table(VIEW)} AS {_live(sql)}",
    ]


def _directories(sql: LakeSql) -> str:
    """Return the query of each table's directory. A table has a row for each of its versions, with one path."""
    return f"""
SELECT DISTINCT t.table_id, CASE WHEN NOT t.path_is_relative THEN t.path
        WHEN s.path_is_relative THEN {sql.root} || s.path || t.path ELSE s.path || t.path END AS path
FROM {sql.table("ducklake_table")} t JOIN {sql.table("ducklake_schema")} s ON s.schema_id = t.schema_id"""


def _live(sql: LakeSql) -> str:
    """Return the query of all live files: those of retained snapshots, which expiry removes.

    A file whose place is unknown has an empty key, and so has each reason why the lake must be attached again: then
    the whole view is unreadable, and Sexton deletes nothing.
    """
    metadata = sql.table("ducklake_metadata")
    known = ", ".join(quoted(version) for version in VERSIONS)
    return f"""
SELECT {sql.instance} AS instance, f.* FROM ({_live_files(sql)}) f
UNION ALL
SELECT {sql.instance}, 'ducklake_metadata', w.name, {quoted(sql.lake.vault)}, '', CAST(NULL AS bigint)
FROM (SELECT '{OPTION}' AS name UNION ALL SELECT 'version' UNION ALL SELECT 'data_path') w
WHERE NOT EXISTS (SELECT 1 FROM {metadata} m WHERE m.scope IS NULL AND m.key = w.name AND CASE w.name
    WHEN 'version' THEN m.value IN ({known}) WHEN 'data_path' THEN m.value = {sql.root}
    ELSE m.value = '{OPTION_VALUE}' END)"""


def _live_files(sql: LakeSql) -> str:
    """Return the query of the registered files; an empty key: its place is unknown.

    Without the fences the planner copies its conditions into each comparison of a key.
    """
    files = " UNION ALL ".join(
        f"""
    SELECT '{table}' AS kind, f.{id_} AS id, f.file_size_bytes AS bytes,
        CASE WHEN f.path_is_relative THEN d.path || f.path ELSE f.path END AS path
    FROM {sql.table(table)} f LEFT JOIN {sql.table(DIRECTORIES)} d ON d.table_id = f.table_id"""
        for table, id_ in FILE_TABLES.items()
    )
    return f"""
SELECT p.kind, CAST(p.id AS text) AS id,
    CASE WHEN p.is_unknown OR p.is_inside THEN {quoted(sql.lake.vault)} ELSE '{ELSEWHERE}' END AS vault,
    CASE WHEN p.is_unknown THEN '' ELSE {sql.key("p.path", "p.is_inside")} END AS key, p.bytes
FROM (
    SELECT f.*, f.path IS NULL OR {sql.is_unclear("f.path")} AS is_unknown, {sql.is_inside("f.path")} AS is_inside
    FROM ({files}) f OFFSET 0) p OFFSET 0"""
