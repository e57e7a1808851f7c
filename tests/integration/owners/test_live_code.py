"""No code of an owner runs when its live view is read: a view that calls any is unreadable, and everything is kept."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection

from sexton.contract import NewMark
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_code
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put

FUNCTION = "CREATE FUNCTION f(text) RETURNS text LANGUAGE plpgsql {} AS 'BEGIN RETURN $1; END'; "
DOMAIN = FUNCTION.format("") + "CREATE DOMAIN odd AS text CHECK (f(VALUE) = VALUE); "
AGGREGATE = (
    "CREATE FUNCTION s(text, text) RETURNS text LANGUAGE sql AS 'SELECT $2'; "
    "CREATE AGGREGATE last(text) (SFUNC = s, STYPE = text); "
)
FILE = "CREATE TABLE file (k text); "
SECURED = FILE + "ALTER TABLE file ENABLE ROW LEVEL SECURITY; "


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
}
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
    "row security without functions": (SECURED + "CREATE POLICY p ON file USING (k <> '')", row("k", "FROM file")),
}


class Tenant:
    """A role without rights of its own, with a schema of its name."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.name = rig, f"t_{secrets.token_hex(4)}"
        rig.sql(f"CREATE ROLE {self.name} LOGIN; CREATE SCHEMA {self.name} AUTHORIZATION {self.name}")

    def sql(self, statements: str) -> None:
        url = self.rig.url.replace("+psycopg", "").replace("postgres@", f"{self.name}@")
        with psycopg.connect(url, options=f"-c search_path={self.name} -c lock_timeout=200") as c:
            c.execute(statements.encode())

    def show(self, before: str, view: str) -> None:
        self.sql(f"{before}; CREATE VIEW sexton_live AS {view}")

    def require_plain(self, c: Connection) -> None:
        live_code.require_plain(self.rig.db, c, self.name, "sexton_live")


@pytest.fixture
def tenant(postgres_rig: Rig) -> Iterator[Tenant]:
    tenant = Tenant(postgres_rig)
    yield tenant
    postgres_rig.sql(f"DROP OWNED BY {tenant.name}; DROP ROLE {tenant.name}")


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

    with tenant.rig.db.live.read() as c, pytest.raises(OwnerSilent, match="Sexton runs no code of an owner"):
        tenant.require_plain(c)


@pytest.mark.parametrize("how", PLAIN)
def test_plain_view_is_read(tenant: Tenant, how: str) -> None:
    tenant.show(*PLAIN[how])

    with tenant.rig.db.live.read() as c:
        tenant.require_plain(c)
        c.exec_driver_sql(f"SELECT * FROM {tenant.name}.sexton_live")


@pytest.mark.parametrize("relation", ["sexton_live", "below"])
def test_no_code_is_put_into_a_view_that_is_being_read(tenant: Tenant, relation: str) -> None:
    tenant.show(FUNCTION.format("") + "CREATE VIEW below AS SELECT text 'k' AS k", row("k", "FROM below"))
    changed = {"sexton_live": row("f('k')"), "below": "SELECT f('k') AS k"}[relation]

    with tenant.rig.db.live.read() as c:
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
