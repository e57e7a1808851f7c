"""Refuse to read a live view that would run an owner's code: it would run with the rights of whoever reads the view.

A function of a view could read other owners' views, end their sessions, lift the limits of its transaction, send away
what it sees, and hide that the view is a copy. So a view may call functions of PostgreSQL and of extensions only, and
of these only such whose result depends on their arguments, or on the moment of the transaction. The same holds for
what the planner computes beside it: expressions of indexes, statistics, checks and partition keys of the tables.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, TableClause

from sexton.database.engine import Database
from sexton.owners.port import OwnerSilent

CHECK_SECONDS = 10
"""How long the check may take in a session of its own."""
_TREES = r"""
WITH RECURSIVE used (oid, kind) AS (
    SELECT c.oid, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = %(view)s AND n.nspname = %(schema)s
    UNION
    SELECT c.oid, c.relkind FROM used, LATERAL (
        SELECT r.id[1]::oid FROM pg_rewrite w, regexp_matches(w.ev_action::text, ' :relid ([1-9]\d*)', 'g') r (id)
        WHERE w.ev_class = used.oid AND w.ev_type = '1' AND used.kind = 'v'
        UNION ALL
        SELECT r.id[1]::oid
        FROM pg_policy p, regexp_matches(concat(p.polqual, p.polwithcheck), ' :relid ([1-9]\d*)', 'g') r (id)
        WHERE p.polrelid = used.oid
        UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = used.oid
    ) next (oid) JOIN pg_class c ON c.oid = next.oid
), trees (class, id, tree) AS (
    SELECT 'pg_rewrite'::regclass, w.oid, w.ev_action::text
    FROM used JOIN pg_rewrite w ON w.ev_class = used.oid AND w.ev_type = '1' WHERE used.kind = 'v'
    UNION ALL
    SELECT 'pg_policy'::regclass, p.oid, concat(p.polqual, p.polwithcheck)
    FROM used JOIN pg_policy p ON p.polrelid = used.oid
    UNION ALL
    SELECT 'pg_index'::regclass, i.indexrelid, concat(i.indexprs, i.indpred)
    FROM used JOIN pg_index i ON i.indrelid = used.oid WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
    UNION ALL
    SELECT 'pg_statistic_ext'::regclass, s.oid, s.stxexprs::text
    FROM used JOIN pg_statistic_ext s ON s.stxrelid = used.oid WHERE s.stxexprs IS NOT NULL
    UNION ALL
    SELECT 'pg_constraint'::regclass, k.oid, k.conbin::text
    FROM used JOIN pg_constraint k ON k.conrelid = used.oid WHERE k.conbin IS NOT NULL
    UNION ALL
    SELECT 'pg_partitioned_table'::regclass, p.partrelid, p.partexprs::text
    FROM used JOIN pg_partitioned_table p ON p.partrelid = used.oid WHERE p.partexprs IS NOT NULL
    UNION ALL
    SELECT 'pg_class'::regclass, c.oid, c.relpartbound::text
    FROM used JOIN pg_class c ON c.oid = used.oid WHERE c.relpartbound IS NOT NULL
    UNION ALL
    SELECT 'pg_attrdef'::regclass, d.oid, d.adbin::text
    FROM used JOIN pg_attribute a ON a.attrelid = used.oid AND a.attgenerated = 'v'
        JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
)
"""
"""What the planner reads of a view, of the views under it, of their tables and of those that inherit from them.

A materialized view runs nothing. A generated column counts only where it is computed on reading.
"""
_DEFINITION = f"{_TREES} SELECT md5(string_agg(tree, ' ' ORDER BY class, id)) FROM trees"
_HARMLESS_STABLE = (
    "^(age|array_to_string|concat|concat_ws|convert|convert_from|convert_to|current_database|date|date_add|date_part"
    "|date_subtract|date_trunc|extract|format|generate_series|in_range|make_timestamptz|now|overlaps|quote_literal"
    "|quote_nullable|statement_timestamp|time|timestamp|timestamptz|timetz|timezone|to_char|to_date|to_number"
    "|to_timestamp|transaction_timestamp|anytextcat|textanycat|interval_pl_timestamptz|timestamptz_(pl|mi)_interval"
    "|(date|timestamp|timestamptz)_(cmp|eq|ge|gt|le|lt|ne)_(date|timestamp|timestamptz)"
    "|jsonb?_(agg|object_agg|agg_strict|object_agg_(strict|unique|unique_strict)|build_array|build_object)"
    "|jsonb?_to_record(set)?|jsonb_path_(exists|match|query|query_array|query_first)_tz"
    "|to_jsonb?|row_to_json|array_to_json)$"
)
"""Those of pg_catalog whose result depends on settings: none takes a type, a relation or a query by name or number.

They may convert a value to text or to JSON, by a cast of its type: so own types that have casts are refused.
"""
_REFUSED = rf"""
{_TREES}, numbers (oid, use) AS (
    SELECT DISTINCT CASE WHEN f.id[2]::bigint BETWEEN 16384 AND 4294967295 THEN f.id[2]::bigint::oid END,
        CASE f.id[1] WHEN ':vartype' THEN 'read' ELSE 'made' END
    FROM trees, regexp_matches(tree, '(:vartype|:location|:relid|:stmt_len|:stmt_location)? (\d{{5,10}})\M', 'g') f (id)
    WHERE f.id[1] IS NULL OR f.id[1] = ':vartype'
), types (oid, use) AS (
    SELECT n.oid, n.use FROM numbers n JOIN pg_type t ON t.oid = n.oid
    UNION
    SELECT a.atttypid, 'made' FROM used JOIN pg_attribute a ON a.attrelid = used.oid AND a.attnum > 0
    WHERE used.kind = 'f'
    UNION
    SELECT a.atttypid, 'shown' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE c.relname = %(view)s AND n.nspname = %(schema)s
        AND a.attname IN ('instance', 'kind', 'id', 'vault', 'key', 'bytes', 'as_of')
    UNION
    SELECT next.oid, next.use FROM types JOIN pg_type t ON t.oid = types.oid, LATERAL (
        SELECT t.typelem, 'made'
        UNION ALL SELECT t.typbasetype, types.use
        UNION ALL SELECT r.rngsubtype, 'made' FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
        UNION ALL SELECT a.atttypid, 'made' FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0
    ) next (oid, use) WHERE next.oid >= 16384
), own_types AS (
    SELECT t.oid, types.use, t.typtype, t.typelem, t.typarray
    FROM types JOIN pg_type t ON t.oid = types.oid JOIN pg_roles r ON r.oid = t.typowner WHERE NOT r.rolsuper
), operators AS (
    SELECT o.oid, o.oprcode, r.rolsuper FROM trees, regexp_matches(tree, ' :(?:opno|eqop|sortop) (\d+)', 'g') f (id)
        JOIN pg_operator o ON o.oid = f.id[1]::oid JOIN pg_roles r ON r.oid = o.oprowner
), functions (oid) AS (
    SELECT f.id[1]::oid FROM trees,
        regexp_matches(tree, ' :(?:funcid|opfuncid|aggfnoid|winfnoid|tsmhandler) (\d+)', 'g') f (id)
    UNION
    SELECT oprcode::oid FROM operators
    UNION
    SELECT k.castfunc FROM own_types t JOIN pg_cast k ON k.castsource IN (t.oid, t.typarray)
), refused (why) AS (
    SELECT 'calls ' || p.oid::regprocedure
    FROM functions f JOIN pg_proc p ON p.oid = f.oid JOIN pg_roles r ON r.oid = p.proowner
    WHERE NOT (r.rolsuper AND (p.provolatile = 'i' OR (p.provolatile = 's'
        AND p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ '{_HARMLESS_STABLE}')))
    UNION ALL
    SELECT 'calls the operator ' || oid::regoperator FROM operators WHERE NOT rolsuper
    UNION ALL
    SELECT 'uses the type ' || format_type(t.oid, NULL) FROM own_types t
    WHERE CASE t.typtype WHEN 'e' THEN t.use = 'shown' WHEN 'd' THEN t.use = 'made' ELSE t.typelem = 0 END
    UNION ALL
    SELECT 'has the option security_invoker in ' || c.oid::regclass
    FROM used JOIN pg_class c ON c.oid = used.oid, unnest(c.reloptions) o WHERE o ~* '^security_invoker=(?!f|of|n|0)'
    UNION ALL
    SELECT 'reads ' || r.id[1]::oid::regclass || ', which the owner of ' || c.oid::regclass || ' may not read'
    FROM used JOIN pg_class c ON c.oid = used.oid JOIN pg_rewrite w ON w.ev_class = c.oid AND w.ev_type = '1',
        regexp_matches(w.ev_action::text, ' :relid ([1-9]\d*)', 'g') r (id)
    WHERE used.kind = 'v' AND NOT coalesce(has_table_privilege(c.relowner, r.id[1]::oid, 'SELECT')
        OR has_any_column_privilege(c.relowner, r.id[1]::oid, 'SELECT'), false)
)
SELECT why FROM refused ORDER BY why LIMIT 1
"""
"""Numbers of an owner's types are 16384 or more. A type is only read (a column has it), made (a value is converted to
it, or computed), or shown (Sexton converts the column itself). Checks of a domain run only where a value is made.
An own operator over a harmless function may still name another one as its negator, which the planner then calls.
"""
_EXISTS = """
SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %(view)s AND n.nspname = %(schema)s AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
    AND c.relpersistence <> 't'
"""


def require_plain(db: Database, c: Connection, schema: str | None, view: str) -> None:
    """Raise ``OwnerSilent`` if reading the view would run code of an owner; otherwise none can be put into it any more.

    The view, and those under it, stay locked against changes until the transaction ends. Row security counts, too.
    """
    names = {"view": view, "schema": schema}
    if c.exec_driver_sql(_EXISTS, names).first() is None:
        raise OwnerSilent(
            f"the live view {schema}.{view} does not exist; create it, or name another one: sexton instance live-view"
        )
    quote = c.dialect.identifier_preparer.quote_identifier
    name = f"{quote(schema or '')}.{quote(view)}".replace("%", "%%")
    # It locks relations of each kind, unlike LOCK TABLE, and unlike a query it neither plans nor runs anything.
    c.exec_driver_sql(f"PREPARE sexton_lock AS SELECT FROM {name}; DEALLOCATE sexton_lock")
    with _seeing_now(db, c) as now:
        now.exec_driver_sql("SET LOCAL jit = off")  # compiling the check would take ten times as long as the check
        why = now.exec_driver_sql(_REFUSED, names).scalar_one_or_none()
    if why is not None:
        raise OwnerSilent(
            f"the live view {schema}.{view} {why}, and Sexton runs no code of an owner and lends it no rights; use "
            "immutable functions and types of PostgreSQL, or store the value in a column (docs/integration.md)"
        )


@contextmanager
def _seeing_now(db: Database, c: Connection) -> Iterator[Connection]:
    """Open a transaction that sees what was defined when the view was locked: an older snapshot does not show it."""
    if c.get_execution_options().get("isolation_level") != "REPEATABLE READ":
        yield c
        return
    with db.read() as now:
        db.limit_statements(now, CHECK_SECONDS)
        yield now


def definition(c: Connection, view: TableClause) -> str:
    """Return a text that changes when the view, or one under it, is defined anew."""
    return str(c.exec_driver_sql(_DEFINITION, {"view": view.name, "schema": view.schema}).scalar_one())
