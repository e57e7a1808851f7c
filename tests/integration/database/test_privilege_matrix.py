"""What each sort of PostgreSQL role may do with each object of Sexton's schemas, generated from pg_catalog.

A new table, column, function or sequence without a line here fails. What is allowed is also tried with another
instance's rows.
"""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError

from sexton import contract
from sexton.database import roles
from sexton.owners.catalog import tables
from tests.integration.database.test_roles import MARK, create_role, rig, url_of
from tests.support.rig import Rig

__all__ = ["create_role", "rig"]

SETTABLE = "instance kind id parent_kind parent_id vault prefix keys bytes owner_txn extra_retention_seconds"
"""Columns of ``mark`` that an owner sets."""
NOTHING = frozenset[str]()
TABLES = """
backend batch binlog binlog_consumer binlog_log binlog_partition_cut binlog_partition_version
binlog_round binlog_table_record call check_run claim clock commit_under_way control counter file_list finding
hold instance instance_guard instance_role
journal journal_follower journal_head lease mark mark_history notice pace pace_cap pace_share plan protection
protection_chunk protection_item replica round setting tally token vault wal_entry wal_log wal_node wal_pin
wal_purge wal_region wal_topic worker_presence alembic_version
"""
CATALOG_TABLES = "indexes jobs labels partitions rowsets schemas stats tables tablets txns versions"
LINES = tuple(
    f"{schema}.{name}"
    for schema, names in {"sexton": TABLES, "sexton_catalog": CATALOG_TABLES}.items()
    for name in names.split()
)
"""Tables. An owner's role has rights for two of them: see ``expected``."""
FUNCTIONS = {
    "sexton.now()": True,
    "sexton.session_role()": False,
    "sexton.granted_instances()": True,
    "sexton.verify_granted(text)": True,
    "sexton.prepare(text,text,text[],text,text[],interval)": True,
    "sexton.prepare(text,text,text[],text,text[],interval,text,text[])": True,
    "sexton.commit(text,text[])": True,
    "sexton.undrop(text,text,text[])": True,
    "sexton.reference(text,text[])": True,
    "sexton.admit(text,text,text[],text[],interval)": True,
    "sexton.end_commit(text,text)": True,
    "sexton.mark_inserted()": False,
    "sexton.claimed_is_irrevocable()": False,
    "sexton.covering_prefixes(text[])": False,
    "sexton.is_covered(text,text[])": False,
    "sexton.verify_unclaimed(text,text,text[])": False,
    "sexton.quarantine_covering(text,text[],text[],text[],timestamp with time zone[])": False,
    "sexton.clock_never_goes_back()": False,
}
"""Function → whether an owner's role may call it."""
RIGHTS = """
SELECT 'schema ' || n.nspname, p FROM pg_namespace n, unnest(ARRAY['USAGE', 'CREATE']) p
    WHERE n.nspname LIKE 'sexton%' AND has_schema_privilege(:role, n.oid, p)
UNION ALL SELECT CASE c.relkind WHEN 'S' THEN 'sequence ' ELSE '' END || c.oid::regclass, p
    FROM pg_class c, unnest(CASE c.relkind WHEN 'S' THEN ARRAY['USAGE', 'SELECT', 'UPDATE'] ELSE
        ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'] END) p
    WHERE c.relnamespace::regnamespace::text LIKE 'sexton%' AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege(:role, c.oid, p)
            ELSE has_table_privilege(:role, c.oid, p) END
UNION ALL SELECT c.oid::regclass || '.' || a.attname, p
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped,
        unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) p
    WHERE c.relnamespace::regnamespace::text LIKE 'sexton%' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND has_column_privilege(:role, c.oid, a.attnum, p)
UNION ALL SELECT f.oid::regprocedure::text, 'EXECUTE' FROM pg_proc f
    WHERE f.pronamespace::regnamespace::text LIKE 'sexton%' AND has_function_privilege(:role, f.oid, 'EXECUTE')
"""
OBJECTS = """
SELECT c.oid::regclass::text, c.relkind::text, ARRAY(SELECT a.attname::text FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) FROM pg_class c
    WHERE c.relnamespace::regnamespace::text LIKE 'sexton%' AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
UNION ALL SELECT f.oid::regprocedure::text, 'function', NULL FROM pg_proc f
    WHERE f.pronamespace::regnamespace::text LIKE 'sexton%'
"""
PRINCIPALS = {"owner of shop": True, "owner of blog": True, "owner of nothing": True, "view": False, "fresh": False}
"""Sort of role → whether it has the contract's grants; ``view``: it reads the owner's live view, and nothing else."""
REFUSED_TO_ALL = {"sexton.mark INSERT of a mark that exists", "sexton.undrop(text,text,text[]) in all"}
CALLS: dict[str, Callable[[Connection, str], object]] = {
    "sexton.mark SELECT": lambda c, i: _no_rows(c, "mark", i),
    "sexton.mark_history SELECT": lambda c, i: _no_rows(c, "mark_history", i),
    "sexton.mark INSERT": lambda c, i: c.execute(text(MARK), {"i": i}),
    "sexton.mark INSERT of a mark that exists": lambda c, i: c.execute(text(MARK.replace("'x', ", "'t', ")), {"i": i}),
    "sexton.now()": lambda c, _: _refuse(c.execute(text("SELECT sexton.now() IS NULL")).scalar_one()),
    "sexton.granted_instances()": lambda c, i: _refuse(
        i in c.execute(text("SELECT sexton.granted_instances()")).scalar_one()
    ),
    "sexton.verify_granted(text)": lambda c, i: c.execute(text("SELECT sexton.verify_granted(:i)"), {"i": i}),
    "sexton.prepare(text,text,text[],text,text[],interval)": lambda c, i: contract.prepare(
        c, i, "load", ["r"], "disk", ["r/"], 60
    ),
    "sexton.prepare(text,text,text[],text,text[],interval,text,text[])": lambda c, i: contract.prepare(
        c, i, "load", ["r"], "disk", ["r/"], 60, ("table", ["a"])
    ),
    "sexton.commit(text,text[])": lambda c, i: contract.commit(c, i, ["p"]),
    "sexton.undrop(text,text,text[])": lambda c, i: contract.undrop(c, i, "dropped", ["t"]),
    "sexton.undrop(text,text,text[]) in all": lambda c, _: contract.undrop(c, "*", "dropped", ["t"]),
    "sexton.reference(text,text[])": lambda c, i: c.execute(text("SELECT sexton.reference(:i, '{t}')"), {"i": i}),
    "sexton.admit(text,text,text[],text[],interval)": lambda c, i: c.execute(
        text("SELECT sexton.admit(:i, 'c', '{disk}', '{k}', '60 s')"), {"i": i}
    ),
    "sexton.end_commit(text,text)": lambda c, i: c.execute(text("SELECT sexton.end_commit(:i, 'c')"), {"i": i}),
}
"""What an owner's role may do → a try with an instance. It is refused, or shows that it reaches no row of it."""


class Reached(Exception):
    """A role reached what it must not."""


def _refuse(reached: bool) -> None:
    if reached:
        raise Reached


def _no_rows(c: Connection, table: str, instance: str) -> None:
    query = f"SELECT count(*) FROM sexton.{table} WHERE instance = :i"
    _refuse(c.execute(text(query), {"i": instance}).scalar_one() > 0)


@pytest.fixture
def principals(rig: Rig, create_role: Callable[..., str]) -> Iterator[dict[str, str]]:
    """The roles, by sort."""
    tables.create(rig.db)
    names = {sort: create_role() for sort in PRINCIPALS}
    for sort, has_contract in PRINCIPALS.items():
        if has_contract:
            roles.grant(rig.url, names[sort])
    for instance in ("shop", "blog"):
        roles.grant_instance(rig.db, instance, names[f"owner of {instance}"])
    roles.grant_instance(rig.db, "shop", names["owner of nothing"])
    roles.revoke_instance(rig.db, "shop", names["owner of nothing"])
    rig.sql("CREATE SCHEMA app; CREATE VIEW app.sexton_live AS SELECT 'rowset' AS kind, 'x' AS id")
    rig.sql(f"GRANT USAGE ON SCHEMA app TO {names['view']}; GRANT SELECT ON app.sexton_live TO {names['view']}")
    yield names
    rig.sql("DROP SCHEMA app CASCADE")


def expected(columns: dict[str, list[str]]) -> set[tuple[str, str]]:
    """Return every right of an owner's role: object and privilege."""
    rights = {("schema sexton", "USAGE"), ("sexton.mark", "SELECT"), ("sexton.mark_history", "SELECT")}
    rights |= {(name, "EXECUTE") for name, is_contract in FUNCTIONS.items() if is_contract}
    for table in ("sexton.mark", "sexton.mark_history"):
        rights |= {(f"{table}.{column}", "SELECT") for column in columns[table]}
    return rights | {(f"sexton.mark.{column}", "INSERT") for column in SETTABLE.split()}


def test_h2_each_role_has_the_rights_of_its_line(rig: Rig, principals: dict[str, str]) -> None:
    with rig.db.read() as c:
        objects = c.execute(text(OBJECTS)).all()
        rights = {
            sort: {(row[0], row[1]) for row in c.execute(text(RIGHTS), {"role": role})}
            for sort, role in principals.items()
        }

    assert {name for name, kind, _ in objects if kind not in ("function", "S")} == set(LINES)
    assert {name for name, kind, _ in objects if kind == "function"} == FUNCTIONS.keys()
    owners = expected({name: list(columns) for name, _, columns in objects if columns is not None})
    assert rights == {sort: owners if has_contract else NOTHING for sort, has_contract in PRINCIPALS.items()}


def test_h2_what_is_allowed_reaches_no_other_instance(rig: Rig, principals: dict[str, str]) -> None:
    callable_ = {name for name, is_contract in FUNCTIONS.items() if is_contract}
    tables_ = {"sexton.mark SELECT", "sexton.mark_history SELECT", "sexton.mark INSERT"}
    assert CALLS.keys() == tables_ | callable_ | REFUSED_TO_ALL
    for instance in ("shop", "blog"):
        rig.sql(
            "INSERT INTO {}mark_history (instance, kind, id, objects, bytes, marked_at, claimed_at, gone_at, batch, "
            f"round) VALUES ('{instance}', 'dropped', 'gone', 1, 1, now(), now(), now(), 1, 1)"
        )
    silent = {name for name in CALLS if name.endswith(("SELECT", "now()", "instances()"))}
    before = _rows(rig)
    for sort in ("owner of shop", "owner of nothing"):
        engine = create_engine(url_of(rig, principals[sort]))
        for name, call in CALLS.items():
            with engine.connect() as c:
                if name in silent:
                    call(c, "blog")
                    continue
                with pytest.raises((contract.InstanceNotRegistered, DBAPIError), match="SX004"):
                    call(c, "blog")
                c.rollback()
                if sort == "owner of nothing":  # its grant of shop was revoked
                    with pytest.raises((contract.InstanceNotRegistered, DBAPIError), match="SX004"):
                        call(c, "shop")
                    c.rollback()
                if sort == "owner of shop" and name not in REFUSED_TO_ALL:
                    call(c, "shop")
                    c.rollback()
        with engine.connect() as c:
            for table in ("mark", "mark_history"):
                seen = c.execute(text(f"SELECT DISTINCT instance FROM sexton.{table}")).scalars().all()
                assert seen == (["shop"] if sort == "owner of shop" else []), table
        engine.dispose()

    assert _rows(rig) == before


def _rows(rig: Rig) -> list[object]:
    with rig.db.read() as c:
        return [
            c.execute(text(f"SELECT * FROM sexton.{t} ORDER BY instance, id")).all() for t in ("mark", "mark_history")
        ]
