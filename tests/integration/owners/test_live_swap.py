"""A live view of any kind is locked before it is checked, and lends its owner no rights of its reader."""

import psycopg
import pytest

from sexton.owners.port import OwnerSilent
from tests.integration.owners.test_live_code import DOMAIN, FILE, FUNCTION, row
from tests.support.rig import Rig
from tests.support.tenant import Tenant

BELOW = FILE + "CREATE VIEW below WITH (security_invoker = {}) AS SELECT k FROM file"
CODE = row("f('k')")


def test_materialized_view_is_not_swapped_while_it_is_read(tenant: Tenant) -> None:
    tenant.sql(FUNCTION.format("") + "CREATE MATERIALIZED VIEW sexton_live AS " + row("text 'k'"))
    swap = f"DROP MATERIALIZED VIEW sexton_live; CREATE VIEW sexton_live AS {CODE}"

    with tenant.rig.db.live("shop").read() as c:
        tenant.require_plain(c)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            tenant.sql(swap)

    tenant.sql(swap)


def test_materialized_view_below_is_not_swapped_either(tenant: Tenant) -> None:
    tenant.show(FILE + "CREATE MATERIALIZED VIEW copy AS SELECT k FROM file", row("k", "FROM copy"))

    with tenant.rig.db.live("shop").read() as c:
        tenant.require_plain(c)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            tenant.sql("ALTER MATERIALIZED VIEW copy RENAME TO other")


def test_lock_itself_runs_no_code(tenant: Tenant) -> None:
    fails = FUNCTION.format("IMMUTABLE").replace("RETURN $1", "RAISE division_by_zero")
    tenant.show(fails, CODE)

    with tenant.rig.db.live("shop").read() as c, pytest.raises(OwnerSilent, match=r"calls \w+\.f\(text\)"):
        tenant.require_plain(c)


def test_view_that_an_older_snapshot_shows_plain_is_refused(tenant: Tenant) -> None:
    tenant.show(FUNCTION.format(""), row("text 'k'"))

    with tenant.rig.db.live("shop").snapshot() as c:
        c.exec_driver_sql("SELECT count(*) FROM pg_class")
        tenant.sql(f"CREATE OR REPLACE VIEW sexton_live AS {CODE}")

        with pytest.raises(OwnerSilent, match="Sexton runs no code of an owner"):
            tenant.require_plain(c)


@pytest.mark.parametrize("spelling", ["true", "ON", "1", "y"])
def test_view_with_the_rights_of_its_reader_is_refused(tenant: Tenant, spelling: str) -> None:
    tenant.show(BELOW.format(spelling), row("k", "FROM below"))

    with tenant.rig.db.live("shop").read() as c, pytest.raises(OwnerSilent, match=r"security_invoker in \w+\.below"):
        tenant.require_plain(c)


def test_table_that_the_owner_may_not_read_is_refused(tenant: Tenant, rig: Rig) -> None:
    other = Tenant(rig)
    other.sql(f"{FILE} GRANT USAGE ON SCHEMA {other.name} TO PUBLIC; GRANT SELECT ON file TO {tenant.name}")
    tenant.show("SELECT", row("k", f"FROM {other.name}.file"))
    with rig.db.live("shop").read() as c:
        tenant.require_plain(c)

    other.sql(f"REVOKE ALL ON file FROM {tenant.name}")

    with rig.db.live("shop").read() as c, pytest.raises(OwnerSilent, match=r"\.file, which the owner of"):
        tenant.require_plain(c)
    rig.sql(f"DROP OWNED BY {other.name} CASCADE; DROP ROLE {other.name}")


def test_table_itself_may_have_columns_of_a_domain(tenant: Tenant) -> None:
    tenant.sql(f"{DOMAIN} CREATE TABLE sexton_live (kind text, id text, vault text, key odd)")

    with tenant.rig.db.live("shop").read() as c:
        tenant.require_plain(c)


def test_view_that_does_not_exist_is_named(tenant: Tenant) -> None:
    with tenant.rig.db.live("shop").read() as c, pytest.raises(OwnerSilent, match="does not exist; create it"):
        tenant.require_plain(c)
