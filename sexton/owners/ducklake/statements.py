"""Write the SQL that attaches a DuckLake to Sexton, and that detaches it. Pure: nothing here runs it.

The role that writes to the lake runs it, in one transaction. Its triggers are part of the lake's own transactions: what
they refuse is not committed.
"""

from sexton.database import roles
from sexton.owners.ducklake import triggers
from sexton.owners.ducklake.lake_sql import LakeSql, quoted
from sexton.owners.ducklake.model import (
    DIRECTORIES,
    ELSEWHERE,
    FILE_TABLES,
    KEPT,
    OPTION,
    OPTION_VALUE,
    VERSIONS,
    VIEW,
    Lake,
    view_of,
)


def attach(lake: Lake) -> list[str]:
    """Return the statements that attach a lake, in their order. They may be repeated."""
    sql = LakeSql(lake)
    metadata, kept = sql.table("ducklake_metadata"), sql.table(KEPT)
    # A table has a row for each of its versions, with one path.
    directories = f"""
SELECT DISTINCT t.table_id, CASE WHEN NOT t.path_is_relative THEN t.path
        WHEN s.path_is_relative THEN {sql.root} || s.path || t.path ELSE s.path || t.path END AS path
FROM {sql.table("ducklake_table")} t JOIN {sql.table("ducklake_schema")} s ON s.schema_id = t.schema_id"""
    return [
        *_drop(sql),
        f"CREATE VIEW {sql.table(DIRECTORIES)} AS {directories}",
        f"CREATE VIEW {sql.table(VIEW)} AS {_live(sql)}",
        *(f"CREATE INDEX {name} ON {sql.table(of)}" for name, of in sql.indexes().items()),
        *triggers.create(sql),
        f"CREATE TABLE IF NOT EXISTS {kept} (key varchar, value varchar)",
        # The lake's own value of the option is kept, once.
        f"INSERT INTO {kept} SELECT key, value FROM {metadata} WHERE key = '{OPTION}' AND scope IS NULL "
        f"AND value <> '{OPTION_VALUE}' AND NOT EXISTS (SELECT 1 FROM {kept})",
        _forget_option(sql),
        f"INSERT INTO {metadata} (key, value) VALUES ('{OPTION}', '{OPTION_VALUE}')",
        triggers.pass_again(sql),
        # The roles that write read one view in the triggers, and Sexton reads the live one.
        *roles.reader_grants(view_of(lake.schema), lake.reader),
        *(f'GRANT SELECT ON {sql.table(DIRECTORIES)} TO "{role}"' for role in lake.writers),
    ]


def detach(lake: Lake) -> list[str]:
    """Return the statements that detach a lake: waiting files are again in its own list, which its cleaners delete."""
    sql = LakeSql(lake)
    metadata, kept = sql.table("ducklake_metadata"), sql.table(KEPT)
    # While the triggers, which list what is no longer referenced, are gone, the view is still needed.
    return [
        *triggers.drop(sql),
        *triggers.take_back(sql),
        *_drop(sql),
        _forget_option(sql),
        f"INSERT INTO {metadata} (key, value) SELECT key, value FROM {kept}",
        f"DROP TABLE {kept}",
    ]


def unclear_files(lake: Lake) -> str:
    """Return the query of a file that the view cannot place, or whose UUID two paths have; nothing: there is none."""
    sql = LakeSql(lake)
    names = sql.registered_files()
    of_marks = f"SELECT {sql.marked_path()} AS path, m.id AS uuid FROM {sql.marks}"
    return (
        f"SELECT kind || ' ' || id FROM {sql.table(VIEW)} WHERE key = '' "
        f"UNION ALL SELECT path FROM ({names}) n WHERE uuid IS NOT NULL AND NOT {sql.is_inside('path')} "
        f"UNION ALL SELECT uuid FROM ({names} UNION {of_marks}) n "
        "WHERE uuid IS NOT NULL AND substr(uuid, 1, 5) <> 'file-' GROUP BY uuid HAVING count(*) > 1 LIMIT 1"
    )


def refuse_unclear_files(lake: Lake) -> list[str]:
    """Return statements that fail if ``unclear_files`` returns a file, for a client that cannot read its result."""
    check = "CONSTRAINT each_file_has_one_path CHECK (file IS NULL)"
    return [
        f"CREATE TEMP TABLE sexton_unclear (file text {check})",
        f"INSERT INTO sexton_unclear {unclear_files(lake)}",
        "DROP TABLE sexton_unclear",
    ]


def script(statements: list[str]) -> str:
    """Return statements as a script for psql: one transaction, which commits nothing after an error."""
    # As in Sexton's own sessions, no function of another role is called.
    transaction = ["BEGIN", "SET LOCAL search_path = pg_catalog, pg_temp", *statements, "COMMIT"]
    return "\n".join(["\\set ON_ERROR_STOP on", *(f"{statement};" for statement in transaction)])


def _drop(sql: LakeSql) -> list[str]:
    """Return the statements that drop what an attachment creates, as far as it is there."""
    return [
        *triggers.drop(sql),
        *(f"DROP VIEW IF EXISTS {sql.table(view)}" for view in (VIEW, DIRECTORIES)),
        *(f"DROP INDEX IF EXISTS {sql.table(name)}" for name in sql.indexes()),
    ]


def _forget_option(sql: LakeSql) -> str:
    return f"DELETE FROM {sql.table('ducklake_metadata')} WHERE key = '{OPTION}' AND scope IS NULL"


def _live(sql: LakeSql) -> str:
    """Return the query of all live files: those of retained snapshots, which expiry removes.

    A file whose place is unknown has an empty key, and so has each reason why the lake must be attached again: then
    the whole view is unreadable, and Sexton deletes nothing.
    """
    metadata = sql.table("ducklake_metadata")
    known = ", ".join(quoted(version) for version in VERSIONS)
    registered = " UNION ALL ".join(
        f"""
    SELECT '{table}' AS kind, f.{id_} AS id, f.file_size_bytes AS bytes,
        CASE WHEN f.path_is_relative THEN d.path || f.path ELSE f.path END AS path
    FROM {sql.table(table)} f LEFT JOIN {sql.table(DIRECTORIES)} d ON d.table_id = f.table_id"""
        for table, id_ in FILE_TABLES.items()
    )
    # Without the fences (OFFSET 0) the planner copies its conditions into each comparison of a key.
    files = f"""
SELECT p.kind, CAST(p.id AS text) AS id,
    CASE WHEN p.is_unknown OR p.is_inside THEN {quoted(sql.lake.vault)} ELSE '{ELSEWHERE}' END AS vault,
    CASE WHEN p.is_unknown THEN '' ELSE {sql.key("p.path", "p.is_inside")} END AS key, p.bytes
FROM (
    SELECT f.*, f.path IS NULL OR {sql.is_unclear("f.path")} AS is_unknown, {sql.is_inside("f.path")} AS is_inside
    FROM ({registered}) f OFFSET 0) p OFFSET 0"""
    return f"""
SELECT {sql.instance} AS instance, f.* FROM ({files}) f
UNION ALL
SELECT {sql.instance}, 'ducklake_metadata', w.name, {quoted(sql.lake.vault)}, '', CAST(NULL AS bigint)
FROM (SELECT '{OPTION}' AS name UNION ALL SELECT 'version' UNION ALL SELECT 'data_path') w
WHERE NOT EXISTS (SELECT 1 FROM {metadata} m WHERE m.scope IS NULL AND m.key = w.name AND CASE w.name
    WHEN 'version' THEN m.value IN ({known}) WHEN 'data_path' THEN m.value = {sql.root}
    ELSE m.value = '{OPTION_VALUE}' END)"""
