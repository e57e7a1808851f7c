"""No code of an owner runs when its live view is read: a view that calls any is unreadable, and everything is kept."""

from pathlib import Path

import psycopg
import pytest

from sexton.contract import NewMark
from sexton.owners.port import OwnerSilent
from tests.support.kept import kept_texts
from tests.support.rig import listing, put
from tests.support.tenant import Tenant

FUNCTION = "CREATE FUNCTION f(text) RETURNS text LANGUAGE plpgsql {} AS 'BEGIN RETURN $1; END'; "
DOMAIN = FUNCTION.format("") + "CREATE DOMAIN odd AS text CHECK (f(VALUE) = VALUE); "
AGGREGATE = (
    "CREATE FUNCTION s(text, text) RETURNS text LANGUAGE sql AS 'SELECT $2'; "
    "CREATE AGGREGATE last(text) (SFUNC = s, STYPE = text); "
)
FILE = "CREATE TABLE file (k text); "
SECURED = FILE + "ALTER TABLE file ENABLE ROW LEVEL SECURITY; "
CAST = (
    "CREATE TYPE state AS ENUM ('k'); "
    "CREATE FUNCTION g(state) RETURNS {0} LANGUAGE sql AS 'SELECT NULL::{0}'; "
    "CREATE CAST (state AS {0}) WITH FUNCTION g(state); "
)
OWN = FUNCTION.format("IMMUTABLE") + FILE


def row(key: str, rest: str = "") -> str:
    return f"SELECT text 'file' AS kind, text 'x' AS id, text 'disk' AS vault, {key} AS key, bigint '1' AS bytes {rest}"


CODE = {
    "own function": (FUNCTION.format(""), row("f('k')")),
    "own function that calls itself immutable": (FUNCTION.format("IMMUTABLE"), row("f('k')")),
    "own function in a condition": (FUNCTION.format("STABLE"), row("text 'k'", "WHERE f('k') = 'k'")),
    "own function of a view below": (
        FUNCTION.format("STABLE") + "CREATE VIEW below AS SELECT f('k') AS k",
        row("k", "FROM below"),
    ),
    "own function that returns rows": (
        "CREATE FUNCTION f() RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER AS 'SELECT version()'",
        row("f", "FROM f()"),
    ),
    "own function of row security": (
        FUNCTION.format("STABLE") + SECURED + "CREATE POLICY p ON file USING (f(k) = k)",
        row("k", "FROM file"),
    ),
    "own aggregate": (AGGREGATE, row("last('k')")),
    "own window function": (AGGREGATE, row("last('k') OVER ()")),
    "own operator": (
        "CREATE FUNCTION o(text, text) RETURNS text LANGUAGE sql AS 'SELECT $1'; "
        "CREATE OPERATOR |+| (LEFTARG = text, RIGHTARG = text, FUNCTION = o)",
        row("text 'k' |+| text 'k'"),
    ),
    "own operator in a list": (
        "CREATE FUNCTION o(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'; "
        "CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = o)",
        row("text 'k'", "WHERE text 'k' === ANY (ARRAY[text 'k'])"),
    ),
    "check of a domain": (DOMAIN, row("'k'::odd::text")),
    "check of a domain inside a type": (
        DOMAIN + "CREATE TYPE pair AS (k odd)",
        row("(jsonb_populate_record(NULL::pair, jsonb_build_object('k', 'k'))).k::text"),
    ),
    "query in a text": ("", row("query_to_xml('SELECT 1', true, true, '')::text")),
    "table in a text": ("", row("table_to_xml('pg_class', true, true, '')::text")),
    "sleep": ("", row("'k' || pg_sleep(0)")),
    "setting": ("", row("set_config('statement_timeout', '0', false)")),
    "notification": ("", row("'k' || pg_notify('a', 'b')")),
    "lock": ("", row("'k' || pg_advisory_lock(1)")),
    "end of a session": ("", row("pg_terminate_backend(0)::text")),
    "sessions of others": ("", row("query", "FROM pg_stat_activity")),
    "clock": ("", row("clock_timestamp()::text")),
    "chance": ("", row("random()::text")),
    "sample": (FILE, row("k", "FROM file TABLESAMPLE BERNOULLI (50)")),
    "input of a type by its number": ("", row("domain_in('k', 25, -1)::text")),
    "cast of an own type to JSON": (CAST.format("json") + FILE, row("to_json('k'::state)::text", "FROM file")),
    "cast of an own type to text": (CAST.format("text") + FILE, row("'k'::state || k", "FROM file")),
    "cast of a list of an own type": (
        CAST.format("text").replace("(state", "(state[]") + "CREATE TABLE file (s state)",
        row("quote_literal(ARRAY(SELECT s FROM file))"),
    ),
    "own operator whose negator is called": (
        "CREATE FUNCTION o(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'; "
        "CREATE OPERATOR !== (LEFTARG = text, RIGHTARG = text, FUNCTION = o); "
        "CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq, NEGATOR = !==); " + FILE,
        row("k", "FROM file WHERE NOT (k === 'x')"),
    ),
    "cast of a column by Sexton itself": (
        CAST.format("bigint"),
        "SELECT text 'file' AS kind, text 'x' AS id, text 'disk' AS vault, text 'k' AS key, 'k'::state AS bytes",
    ),
    "list of a domain": (DOMAIN + FILE, row("(('{' || k || '}')::odd[]::text[])[1]", "FROM file")),
    "range of a domain": (
        DOMAIN + "CREATE TYPE odds AS RANGE (subtype = odd); " + FILE,
        row("('[' || k || ',' || k || ']')::odds::text", "FROM file"),
    ),
    "column of a composite type": (
        DOMAIN + "CREATE TYPE pair AS (k odd); CREATE TABLE file (c pair)",
        row("(jsonb_populate_record(c, jsonb_build_object('k', 'z'))).k::text", "FROM file"),
    ),
    "records with a domain": (DOMAIN, row("r.x::text[]::text", "FROM json_to_record('{}') AS r (x odd[])")),
    "index on an expression": (OWN + "CREATE INDEX ON file ((k || f('x')))", row("k", "FROM file")),
    "condition of an index": (OWN + "CREATE INDEX ON file (k) WHERE f('x') = 'x'", row("k", "FROM file")),
    "statistics": (OWN + "CREATE STATISTICS st ON (k || f('x')) FROM file", row("k", "FROM file")),
    "check of a table": (OWN + "ALTER TABLE file ADD CHECK (f('x') = 'x')", row("k", "FROM file")),
    "check of a table that inherits": (
        OWN + "CREATE TABLE child (CHECK (f('x') = 'x')) INHERITS (file)",
        row("k", "FROM file"),
    ),
    "partition key": (
        FUNCTION.format("IMMUTABLE") + "CREATE TABLE file (k text) PARTITION BY LIST ((k || f('x')))",
        row("k", "FROM file"),
    ),
    "index of a materialized view": (
        OWN + "CREATE MATERIALIZED VIEW copy AS SELECT k FROM file; CREATE INDEX ON copy ((k || f('x')))",
        row("k", "FROM copy"),
    ),
}
STATE = "CREATE TYPE state AS ENUM ('LIVE'); CREATE TABLE file (k text, s state); "
PLAIN = {
    "columns of tables": (FILE + "CREATE TABLE other (k text)", row("k", "FROM file JOIN other USING (k)")),
    "a view below": ("CREATE VIEW below AS SELECT text 'k' AS k", row("k", "FROM below")),
    "texts": ("", row("concat('a', format('%s-%s', lower('B'), 1), lpad('1', 9, '0'), regexp_replace('k', 'k', 'j'))")),
    "moments": ("", row("to_char(now() - interval '1 day', 'YYYY') || current_date || extract(day FROM now())")),
    "documents": (
        "CREATE TABLE file (d jsonb)",
        row("e ->> 'k'", "FROM file, jsonb_array_elements(d -> 'files') e WHERE d ? 'files'"),
    ),
    "lists": ("CREATE TABLE file (k text[])", row("u", "FROM file, unnest(k) u WHERE u = ANY (k)")),
    "aggregates": (FILE, row("max(k) || count(*) || string_agg(k, ',')", "FROM file GROUP BY k HAVING count(*) > 1")),
    "windows": (FILE, row("row_number() OVER (ORDER BY k) || k", "FROM file")),
    "own types of columns": (
        "CREATE TYPE state AS ENUM ('LIVE'); CREATE TABLE file (k text, s state)",
        row("k", "FROM file WHERE s = 'LIVE'"),
    ),
    "own domains of columns": (DOMAIN + "CREATE TABLE file (k odd)", row("k", "FROM file")),
    "a function whose result is stored": (
        FUNCTION.format("IMMUTABLE") + "CREATE TABLE file (i text, k text GENERATED ALWAYS AS (f(i)) STORED)",
        row("k", "FROM file"),
    ),
    "unions, casts and defaults": (
        FILE + "CREATE TABLE other (n bigint, d json)",
        row("coalesce(k, '')", "FROM file") + " UNION ALL " + row("n::text || (d ->> 'k') || n", "FROM other"),
    ),
    "records of documents": ("", row("r.k", "FROM jsonb_to_recordset('[]') AS r (k text, n bigint)")),
    "own types as text": (STATE, row("k || s::text || concat(s, '-') || format('%s', s)", "FROM file")),
    "own types in documents": (STATE, row("jsonb_build_object('s', s) ->> 's'", "FROM file WHERE s IN ('LIVE')")),
    "moments of columns": (
        "CREATE TABLE file (k text, at timestamptz, day date)",
        row("k || at::date", "FROM file WHERE at < now() - interval '1 h' AND date_trunc('day', at) > day"),
    ),
    "plain objects of tables": (
        FILE + "CREATE INDEX ON file (k); CREATE INDEX ON file (lower(k)) WHERE k <> ''; "
        "ALTER TABLE file ADD CHECK (length(k) < 9); CREATE STATISTICS st ON (lower(k)), (upper(k)) FROM file",
        row("k", "FROM file"),
    ),
    "partitions": (
        "CREATE TYPE state AS ENUM ('LIVE'); CREATE TABLE file (k text, s state) PARTITION BY LIST (s); "
        "CREATE TABLE live PARTITION OF file FOR VALUES IN ('LIVE')",
        row("k", "FROM file WHERE s = 'LIVE'"),
    ),
    "a view that is read with its owner's rights": (
        FILE + "CREATE VIEW below WITH (security_invoker = off) AS SELECT k FROM file",
        row("k", "FROM below"),
    ),
    "row security without functions": (SECURED + "CREATE POLICY p ON file USING (k <> '')", row("k", "FROM file")),
}


def kept_by(tenant: Tenant, tmp_path: Path) -> str:
    """Return why a round keeps a due mark, whose file is still there."""
    rig, root = tenant.rig, tenant.rig.local(tmp_path / "v")
    rig.registry.set_live_view("shop", f"{tenant.name}.sexton_live")
    put(root, "a")
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=("a",)))
    rig.later(10_801)

    [why] = kept_texts(rig.round())

    assert set(listing(root)) == {"a"}
    return why


@pytest.mark.parametrize("how", CODE)
def test_view_that_would_run_code_is_refused(tenant: Tenant, how: str) -> None:
    tenant.show(*CODE[how])

    with tenant.rig.db.live("shop").read() as c, pytest.raises(OwnerSilent, match="Sexton runs no code of an owner"):
        tenant.require_plain(c)


@pytest.mark.parametrize("how", PLAIN)
def test_plain_view_is_read(tenant: Tenant, how: str) -> None:
    tenant.show(*PLAIN[how])

    with tenant.rig.db.live("shop").read() as c:
        tenant.require_plain(c)
        c.exec_driver_sql(f"SELECT * FROM {tenant.name}.sexton_live")


@pytest.mark.parametrize("relation", ["sexton_live", "below"])
def test_no_code_is_put_into_a_view_that_is_being_read(tenant: Tenant, relation: str) -> None:
    tenant.show(FUNCTION.format("") + "CREATE VIEW below AS SELECT text 'k' AS k", row("k", "FROM below"))
    changed = {"sexton_live": row("f('k')"), "below": "SELECT f('k') AS k"}[relation]

    with tenant.rig.db.live("shop").read() as c:
        tenant.require_plain(c)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            tenant.sql(f"CREATE OR REPLACE VIEW {relation} AS {changed}")
    tenant.sql(f"CREATE OR REPLACE VIEW {relation} AS {changed}")


def test_view_of_the_age_runs_no_code_either(tenant: Tenant, tmp_path: Path) -> None:
    tenant.show("", row("text 'other'"))
    tenant.sql("CREATE VIEW sexton_live_as_of AS SELECT clock_timestamp() AS as_of")

    assert "calls clock_timestamp()" in kept_by(tenant, tmp_path)


def test_round_keeps_everything_and_names_the_function(tenant: Tenant, tmp_path: Path) -> None:
    tenant.show(*CODE["own function"])

    assert f"{tenant.name}.sexton_live calls {tenant.name}.f(text)" in kept_by(tenant, tmp_path)
