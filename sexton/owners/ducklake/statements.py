"""Write the SQL that attaches a DuckLake to Sexton, and that detaches it. Pure: nothing here runs it.

The role that writes to the lake runs it, in one transaction. Its triggers are part of the lake's own transactions: what
they refuse is not committed.
"""

from sexton.database import roles
from sexton.owners.ducklake import triggers, views
from sexton.owners.ducklake.lake_sql import LakeSql
from sexton.owners.ducklake.model import DIRECTORIES, KEPT, OPTION, OPTION_VALUE, VIEW, Lake, view_of


def attach(lake: Lake) -> list[str]:
    """Return the statements that attach a lake, in their order. They may be repeated."""
    sql = LakeSql(lake)
    return [
        *_drop(sql),
        *views.create(sql),
        *(f"CREATE INDEX {name} ON {sql.table(of)}" for name, of in sql.indexes().items()),
        *triggers.create(sql),
        *_keep_option(sql),
        _forget_option(sql),
        f"INSERT INTO {sql.table('ducklake_metadata')} (key, value) VALUES ('{OPTION}', '{OPTION_VALUE}')",
        triggers.pass_again(sql),
        *_grants(sql),
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


def _keep_option(sql: LakeSql) -> list[str]:
    """Return the statements that keep the lake's own value of the option, once."""
    metadata, kept = sql.table("ducklake_metadata"), sql.table(KEPT)
    return [
        f"CREATE TABLE IF NOT EXISTS {kept} (key varchar, value varchar)",
        f"INSERT INTO {kept} SELECT key, value FROM {metadata} WHERE key = '{OPTION}' AND scope IS NULL "
        f"AND value <> '{OPTION_VALUE}' AND NOT EXISTS (SELECT 1 FROM {kept})",
    ]


def _forget_option(sql: LakeSql) -> str:
    return f"DELETE FROM {sql.table('ducklake_metadata')} WHERE key = '{OPTION}' AND scope IS NULL"


def _grants(sql: LakeSql) -> list[str]:
    """Return the grants of the views: the roles that write read one in the triggers, and Sexton reads the live one."""
    lake = sql.lake
    grants = roles.reader_grants(view_of(lake.schema), lake.reader)
    return grants + [f'GRANT SELECT ON {sql.table(DIRECTORIES)} TO "{role}"' for role in lake.writers]
