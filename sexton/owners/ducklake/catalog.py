"""Read the catalog of a DuckLake, and run statements on it, with the login of the lake."""

from collections.abc import Sequence

from sqlalchemy import BindParameter, Connection, bindparam, text
from sqlalchemy.exc import DBAPIError

from sexton.database.engine import Database, first_line
from sexton.kernel.errors import BadInput, SextonError
from sexton.owners.ducklake.model import DIRECTORIES, KEPT, OPTION, TRIGGERS, VIEW, LakeFacts

_TRIGGERS = (
    "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND t.tgname IN :names AND t.tgenabled IN ('O', 'A')"
)
_RELATION = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname = :name"
)
TABLES = (
    "ducklake_metadata",
    "ducklake_files_scheduled_for_deletion",
    "ducklake_data_file",
    "ducklake_delete_file",
    "ducklake_table",
    "ducklake_schema",
)
_FOREIGN = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema "
    "AND c.relname IN :names AND (c.relkind <> CASE WHEN c.relname IN :views THEN 'v' ELSE 'r' END "
    "OR c.relowner <> CAST(current_user AS regrole) OR c.relrowsecurity OR c.relhasrules AND c.relkind = 'r' "
    "OR EXISTS (SELECT FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid "
    "WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND f.proowner <> CAST(current_user AS regrole)))"
)
"""What is no table or view of this login, or has triggers or rules of others: its code would run with its rights."""
_VIEWS = (VIEW, DIRECTORIES)


class LakeRefused(SextonError):
    """The lake's database refused a statement."""


def read(db: Database, schema: str) -> LakeFacts:
    """Return what the catalog of a lake shows.

    Raises:
        BadInput: there is no DuckLake in the schema, this login may not read it, or the database has another encoding
            than UTF-8.
    """
    metadata = f'SELECT key, value FROM "{schema}".ducklake_metadata WHERE scope IS NULL'
    count = f'SELECT count(*) FROM "{schema}".{TRIGGERS["sexton_scheduled"]}'
    with db.read() as c:
        if not _has(c, schema, "ducklake_metadata"):
            raise BadInput(f"there is no DuckLake in schema {schema}: it has no table ducklake_metadata (--schema)")
        try:
            _require_own(c, schema, "ACCESS SHARE")
            # DuckDB writes paths in UTF-8, whatever the database reads in them.
            if (encoding := c.exec_driver_sql("SHOW server_encoding").scalar_one()) != "UTF8":
                remedy = "create the lake in one with UTF8"
                raise BadInput(f"the database has the encoding {encoding}, and DuckDB writes UTF-8; {remedy}")
            options = {row[0]: row[1] for row in c.execute(text(metadata))}
            scheduled = c.execute(text(count)).scalar_one()
        except DBAPIError as e:
            raise BadInput(f"the lake cannot be read: {first_line(e)}; name its login: --lake-url") from e
        return LakeFacts(
            version=options.get("version", ""),
            data_path=options.get("data_path", ""),
            option=options.get(OPTION, ""),
            triggers=triggers(c, schema),
            has_view=_has(c, schema, VIEW),
            scheduled=scheduled,
        )


def triggers(c: Connection, schema: str) -> frozenset[str]:
    """Return the names of the triggers that are in a schema and enabled."""
    query = text(_TRIGGERS).bindparams(bindparam("names", expanding=True))
    return frozenset(c.execute(query, {"schema": schema, "names": list(TRIGGERS)}).scalars())


def run(db: Database, schema: str, statements: Sequence[str], refused_if: str = "") -> None:
    """Run statements of a lake's login in one transaction; ``refused_if``: a query that must return nothing afterwards.

    Raises:
        BadInput: the lake's tables belong to another role.
        LakeRefused: a statement failed, or a file is unclear; nothing was changed.
    """
    try:
        with db.write() as c:
            _require_own(c, schema, "SHARE ROW EXCLUSIVE")  # no other session adds a trigger
            own = c.execution_options(no_parameters=True)
            for statement in statements:
                own.exec_driver_sql(statement)
            if refused_if and (culprit := own.exec_driver_sql(refused_if).scalar()) is not None:
                raise LakeRefused(
                    f"{culprit[:200]} of the lake has a path of two spellings, two paths, or more than 1024 bytes, or "
                    "is in _sexton/: write each file's only path into the lake's tables, or drop it there; nothing was "
                    "changed"
                )
    except DBAPIError as e:
        raise LakeRefused(f"the lake's database refused: {first_line(e)}; nothing was changed") from e


def _require_own(c: Connection, schema: str, lock: str) -> None:
    """Lock the lake's tables against changes of what they are, and refuse those of another role."""
    for table in TABLES:
        c.exec_driver_sql(f'LOCK TABLE "{schema}".{table} IN {lock} MODE')
    lists: list[BindParameter[object]] = [bindparam(name, expanding=True) for name in ("names", "views")]
    relations = {"schema": schema, "names": [*TABLES, KEPT, *_VIEWS], "views": _VIEWS}
    foreign = c.execute(text(_FOREIGN).bindparams(*lists), relations).scalars().all()
    if foreign:
        raise BadInput(
            f"{', '.join(foreign)} of schema {schema} belongs to another role, is no table, or has its triggers, and "
            "Sexton runs no code of others: name the login that owns the lake's tables (--lake-url)"
        )


def _has(c: Connection, schema: str, name: str) -> bool:
    return bool(c.execute(text(_RELATION), {"schema": schema, "name": name}).scalar())
