"""Were a function of a live view to run, it would run as the login that reads the view, and could change nothing.

No such function runs (test_live_code.py). These tests take that net away, and try the one below it.
"""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from config.engine_settings import EngineSettings
from sexton.check.sql import peers
from sexton.contract import NewMark
from sexton.database.live_role import read_live_role
from sexton.database.roles import granted_roles
from sexton.insight.status import overview
from sexton.insight.why.context import WhyContext
from sexton.insight.why.story import story
from sexton.interfaces.cli.doctor.roles import examine_roles, live_role_problems
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_code
from sexton.runtime.stores import DeploymentStores
from tests.integration.check.conftest import Owned, file_keys
from tests.servers.postgres import Cluster
from tests.support.kept import kept_texts
from tests.support.rig import DEPLOYMENT, listing, open_database, stores_of
from tests.support.transactions import owner_write

KEY = file_keys(1)[0]
GRANT = "INSERT INTO sexton.instance_role VALUES ('shop', 'mallory', 0) ON CONFLICT DO NOTHING"
ATTACKS = {
    "write": GRANT,
    "become a superuser": "EXECUTE format('ALTER ROLE %I SUPERUSER', session_user)",
    "return to the role that logged in": f"RESET ROLE; {GRANT}",
    "end the transaction's limits": f"PERFORM set_config('transaction_read_only', 'off', false); {GRANT}",
    "end the session's limits": f"PERFORM set_config('default_transaction_read_only', 'off', false); {GRANT}",
    "become another role": f"SET SESSION AUTHORIZATION postgres; {GRANT}",
    "become another role for later": f"SET ROLE postgres; {GRANT}",
}
LINGERING = """
PERFORM set_config('default_transaction_read_only', 'off', false), set_config('search_path', 'public', false),
    pg_advisory_lock(7);
EXECUTE 'PREPARE planted AS SELECT 1'
"""
SESSION = """
SELECT pg_backend_pid(), current_setting('default_transaction_read_only'), current_setting('search_path'),
    (SELECT count(*) FROM pg_prepared_statements),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""


@pytest.fixture
def reader(database_url: str) -> Iterator[str]:
    """A role without any rights of its own."""
    role, db = f"r_{secrets.token_hex(4)}", open_database(database_url)
    with db.write() as c:
        c.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
    yield role
    with db.write() as c:
        c.exec_driver_sql(f"DROP OWNED BY {role}; DROP ROLE {role}")
    db.close()


@pytest.fixture
def open_shop(database_url: str, reader: str, tmp_path: Path) -> Iterator[Callable[[str], Owned]]:
    """A function that opens the deployment, with the second login or without it; its mark on a live file is due."""
    opened: list[Owned] = []

    def open_(login: str) -> Owned:
        live_url = "" if login == "own" else database_url.replace("postgres@", f"{reader}@")
        shop = Owned(database_url, live_url=live_url).register(tmp_path / login)
        opened.append(shop)
        with owner_write(shop.db) as c:
            c.exec_driver_sql(f"GRANT USAGE ON SCHEMA public TO {reader}")
        shop.write_old(KEY)
        shop.mark("dropped", NewMark(id="m", vault="disk", keys=(KEY,)))
        shop.later(10_801)
        return shop

    yield open_
    for shop in opened:
        shop.db.close()


@pytest.fixture
def functions_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_code, "require_plain", lambda *_: None)


def show(shop: Owned, body: str) -> None:
    """Create the view, in which a function with this body returns the key of the live file."""
    body = body.replace("%", "%%")  # the driver's own placeholders
    with owner_write(shop.db) as c:
        c.exec_driver_sql(
            f"CREATE FUNCTION live_key() RETURNS text LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN '{KEY}'; END $$"
        )
        c.exec_driver_sql(
            "CREATE VIEW sexton_live AS SELECT text 'rowset' AS kind, text 'r0' AS id, text 'disk' AS vault, "
            "live_key() AS key, bigint '10' AS bytes"
        )
        c.exec_driver_sql("GRANT SELECT ON sexton_live TO PUBLIC")


def superusers(shop: Owned) -> int:
    with shop.db.read() as c:
        return int(c.execute(text("SELECT count(*) FROM pg_roles WHERE rolsuper")).scalar_one())


@pytest.mark.usefixtures("functions_run")
@pytest.mark.parametrize("login", ["second", "own"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_function_of_the_view_changes_nothing(open_shop: Callable[[str], Owned], login: str, attack: str) -> None:
    shop = open_shop(login)
    before = superusers(shop)
    show(shop, ATTACKS[attack])

    report = shop.round()

    assert (report.claimed, set(listing(shop.root))) == (0, {KEY})
    assert all(why.startswith("owner: the live view cannot be read: ") for why in kept_texts(report))
    assert (granted_roles(shop.db), superusers(shop)) == ({}, before)


@pytest.mark.usefixtures("functions_run")
def test_a_function_of_the_view_reads_no_marks(open_shop: Callable[[str], Owned]) -> None:
    shop = open_shop("second")
    show(shop, "PERFORM count(*) FROM sexton.mark")

    assert all("permission denied for schema sexton" in why for why in kept_texts(shop.round()))


@pytest.mark.usefixtures("functions_run")
@pytest.mark.parametrize("login", ["second", "own"])
def test_nothing_that_a_function_sets_outlives_its_use(open_shop: Callable[[str], Owned], login: str) -> None:
    shop = open_shop(login)
    with shop.db.live("shop").read() as c:
        before = c.execute(text(SESSION)).one()
    show(shop, f"IF NOT EXISTS (SELECT FROM pg_prepared_statements) THEN {LINGERING}; END IF")

    report = shop.round()
    with shop.db.live("shop").read() as c:
        after = c.execute(text(SESSION)).one()

    assert kept_texts(report) == {"live": 1}
    assert after == before
    assert before[1:] == ("on", "pg_catalog,pg_temp", 0, 0)


@pytest.mark.usefixtures("functions_run")
def test_own_login_never_reads_the_view_beside_a_second(open_shop: Callable[[str], Owned], reader: str) -> None:
    shop = open_shop("second")
    show(shop, f"IF session_user <> '{reader}' THEN RAISE EXCEPTION 'read as %', session_user; END IF")
    stores = stores_of(shop.db)
    context = WhyContext(shop.policy, stores.insight, stores.owners, stores.audit)

    report, check = shop.round(), shop.check()
    shop.later(86_401)
    again = shop.check()
    known = peers.compare(stores.owners, "shop", "rowset", ["r0"], ("", ""))
    texts = [event.text for told in story(shop.db, KEY, None, context) for event in told.events]

    assert kept_texts(report) == {"live": 1}
    assert (check.whole, again.whole, check.found) == (True, True, {})
    assert (known.unknown, known.missing) == (0, 0)
    assert stores.owners.live_objects("shop") == 1
    assert f"live: rowset r0, {KEY} in vault disk" in texts
    assert not any("read as" in told for told in texts)


@pytest.mark.usefixtures("functions_run")
def test_a_second_login_of_another_database_is_refused(
    postgres: Cluster, database_url: str, open_shop: Callable[[str], Owned]
) -> None:
    shop = open_shop("second")
    show(shop, "NULL")
    elsewhere = postgres.create_database()
    wrong = Owned(database_url, live_url=elsewhere)

    report = wrong.round()

    assert all("leads to another database" in why for why in kept_texts(report))
    with pytest.raises(OwnerSilent, match="leads to another database"):
        wrong.live_side.as_of("shop")
    wrong.db.close()
    postgres.drop_database(elsewhere)


def test_doctor_reports_what_the_second_login_can_do(open_shop: Callable[[str], Owned], reader: str) -> None:
    shop = open_shop("second")

    def found() -> str:
        with shop.db.read() as own, shop.db.live("shop").read() as live:
            return "; ".join(detail for detail, _ in live_role_problems(read_live_role(own, live)))

    assert found() == ""
    for change, back, detail in (
        ("GRANT INSERT ON sexton.mark TO {}", "REVOKE INSERT ON sexton.mark FROM {}", "INSERT on sexton.mark"),
        (
            "GRANT UPDATE (mode) ON sexton.instance TO {}",
            "REVOKE UPDATE (mode) ON sexton.instance FROM {}",
            "UPDATE on",
        ),
        ("GRANT TRUNCATE ON sexton.hold TO PUBLIC", "REVOKE TRUNCATE ON sexton.hold FROM PUBLIC", "TRUNCATE on"),
        ("GRANT CREATE ON SCHEMA sexton TO {}", "REVOKE CREATE ON SCHEMA sexton FROM {}", "CREATE on schema sexton"),
        ("ALTER ROLE {} CREATEROLE", "ALTER ROLE {} NOCREATEROLE", "is CREATEROLE"),
        ("GRANT postgres TO {}", "REVOKE postgres FROM {}", "Sexton's own role or a member of it"),
        ("ALTER FUNCTION sexton.now OWNER TO {}", "ALTER FUNCTION sexton.now OWNER TO postgres", "sexton.now"),
    ):
        shop.sql(change.format(reader).replace("{}", ""))
        assert detail in found()
        shop.sql(back.format(reader).replace("{}", ""))
    assert found() == ""


@pytest.mark.parametrize(("login", "state"), [("second", "OK"), ("own", "WARN")])
def test_doctor_says_with_which_login_views_are_read(open_shop: Callable[[str], Owned], login: str, state: str) -> None:
    shop = open_shop(login)
    show(shop, "NULL")

    findings = {f.about: f for f in examine_roles(DeploymentStores(shop.db, EngineSettings(DEPLOYMENT)))}

    [status] = overview(shop.db, stores_of(shop.db).insight, shop.policy, 1).instances
    assert status.live_view_read_as_sexton is (state == "WARN")
    assert findings["live login"].state == state
    assert ("live_database_url" in findings["live login"].todo) is (state == "WARN")
