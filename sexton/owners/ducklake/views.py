"""Write the views of an attached DuckLake: the directory of each table, and every live file. Pure."""

from sexton.owners.ducklake.lake_sql import LakeSql, quoted
from sexton.owners.ducklake.model import DIRECTORIES, OPTION, OPTION_VALUE, VERSIONS, VIEW


def create(sql: LakeSql) -> list[str]:
    """Return the statements that create the views, each after what it reads."""
    return [
        f"CREATE VIEW {sql.table(DIRECTORIES)} AS {_directories(sql)}",
        *sql.create_views(),
        f"CREATE VIEW {sql.table(VIEW)} AS {_live(sql)}",
    ]


def _directories(sql: LakeSql) -> str:
    """Return the query of each table's directory. A table has a row for each of its versions, with one path."""
    return f"""
SELECT {sql.each_once} t.table_id, CASE WHEN NOT t.path_is_relative THEN t.path
        WHEN s.path_is_relative THEN {sql.root} || s.path || t.path ELSE s.path || t.path END AS path
FROM {sql.table("ducklake_table")} t JOIN {sql.table("ducklake_schema")} s ON s.schema_id = t.schema_id"""


def _live(sql: LakeSql) -> str:
    """Return the query of all live files: those of retained snapshots, which expiry removes.

    A file whose place is unknown has an empty key, and so has each reason why the lake must be attached again: then
    the whole view is unreadable, and Sexton deletes nothing.
    """
    instance, vault = quoted(sql.lake.instance), quoted(sql.lake.vault)
    metadata = sql.table("ducklake_metadata")
    known = ", ".join(quoted(version) for version in VERSIONS)
    return f"""
SELECT {instance} AS instance, f.* FROM ({sql.live_files()}) f
UNION ALL
SELECT {instance}, 'ducklake_metadata', w.name, {vault}, '', CAST(NULL AS bigint)
FROM (SELECT '{OPTION}' AS name UNION ALL SELECT 'version' UNION ALL SELECT 'data_path') w
WHERE NOT EXISTS (SELECT 1 FROM {metadata} m WHERE m.scope IS NULL AND m.key = w.name AND CASE w.name
    WHEN 'version' THEN m.value IN ({known}) WHEN 'data_path' THEN m.value = {sql.root}
    ELSE m.value = '{OPTION_VALUE}' END)"""
