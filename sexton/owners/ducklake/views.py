"""Write the views of an attached DuckLake: the directory of each table, and every live file. Pure."""

from sexton.owners.ducklake.lake_sql import LakeSql, quoted
from sexton.owners.ducklake.model import DIRECTORIES, ELSEWHERE, OPTION, OPTION_VALUE, VERSIONS, VIEW


def create(sql: LakeSql) -> list[str]:
    """Return the statements that create both views."""
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
    instance, vault = quoted(sql.lake.instance), quoted(sql.lake.vault)
    files = " UNION ALL ".join(
        f"""
    SELECT '{table}' AS kind, f.{id_} AS id, f.file_size_bytes AS bytes,
        CASE WHEN f.path_is_relative THEN d.path || f.path ELSE f.path END AS path
    FROM {sql.table(table)} f LEFT JOIN {sql.table(DIRECTORIES)} d ON d.table_id = f.table_id"""
        for table, id_ in (("ducklake_data_file", "data_file_id"), ("ducklake_delete_file", "delete_file_id"))
    )
    metadata = sql.table("ducklake_metadata")
    known = ", ".join(quoted(version) for version in VERSIONS)
    # Without the fences a planner writes these conditions into each comparison of a vault or key.
    placed = f"""
    SELECT f.*, f.path IS NULL OR {sql.is_unclear("f.path")} AS is_unknown, {sql.is_inside("f.path")} AS is_inside
    FROM ({files}) f {sql.fence}"""
    return f"""
SELECT * FROM (SELECT {instance} AS instance, p.kind, CAST(p.id AS text) AS id,
    CASE WHEN p.is_unknown OR p.is_inside THEN {vault} ELSE '{ELSEWHERE}' END AS vault,
    CASE WHEN p.is_unknown THEN '' ELSE {sql.key("p.path", "p.is_inside")} END AS key, p.bytes
FROM ({placed}) p {sql.fence}) q
UNION ALL
SELECT {instance}, 'ducklake_metadata', w.name, {vault}, '', CAST(NULL AS bigint)
FROM (SELECT '{OPTION}' AS name UNION ALL SELECT 'version' UNION ALL SELECT 'data_path') w
WHERE NOT EXISTS (SELECT 1 FROM {metadata} m WHERE m.scope IS NULL AND m.key = w.name AND CASE w.name
    WHEN 'version' THEN m.value IN ({known}) WHEN 'data_path' THEN m.value = {sql.root}
    ELSE m.value = '{OPTION_VALUE}' END)"""
