"""Write the SQL that attaches a DuckLake to Sexton, and that detaches it. Pure: nothing here runs it.

The role that writes to the lake runs it, in one transaction. Its triggers are part of the lake's own transactions: what
they refuse is not committed.
"""

from sexton.database import roles
from sexton.owners.ducklake import views
from sexton.owners.ducklake.lake_sql import LakeSql
from sexton.owners.ducklake.model import DIRECTORIES, INDEXES, OPTION, OPTION_VALUE, VIEW, Lake
from sexton.owners.ducklake.postgresql import PostgreSqlLake
from sexton.owners.ducklake.sqlite import SqliteLake

DIALECTS: dict[str, type[LakeSql]] = {"postgresql": PostgreSqlLake, "sqlite": SqliteLake}


def attach(dialect: str, lake: Lake) -> list[str]:
    """Return the statements that attach a lake, in their order. They may be repeated."""
    sql = DIALECTS[dialect](lake)
    return [
        *_drop(sql),
        *(f"CREATE INDEX {index} ON {sql.table(table)} (path)" for index, table in INDEXES.items()),
        *views.create(sql),
        *sql.create_triggers(),
        _forget_option(sql),
        f"INSERT INTO {sql.table('ducklake_metadata')} (key, value) VALUES ('{OPTION}', '{OPTION_VALUE}')",
        *sql.pass_again(),
        *_grants(sql),
    ]


def detach(dialect: str, lake: Lake) -> list[str]:
    """Return the statements that detach a lake: waiting files are again in its own list, which its cleaners delete."""
    sql = DIALECTS[dialect](lake)
    return [*_drop(sql), *sql.take_back(), _forget_option(sql)]


def _drop(sql: LakeSql) -> list[str]:
    """Return the statements that drop what an attachment creates, as far as it is there."""
    return [
        *sql.drop_triggers(),
        *(f"DROP VIEW IF EXISTS {sql.table(view)}" for view in (VIEW, DIRECTORIES)),
        *(f"DROP INDEX IF EXISTS {sql.table(index)}" for index in INDEXES),
    ]


def _forget_option(sql: LakeSql) -> str:
    return f"DELETE FROM {sql.table('ducklake_metadata')} WHERE key = '{OPTION}' AND scope IS NULL"


def _grants(sql: LakeSql) -> list[str]:
    """Return the grants of the views: the triggers read one as whoever writes, and Sexton reads the live one."""
    lake = sql.lake
    grants = [grant for role in lake.readers for grant in roles.reader_grants(f"{lake.schema}.{VIEW}", role)]
    return grants + [f'GRANT SELECT ON {sql.table(DIRECTORIES)} TO "{role}"' for role in lake.writers]
