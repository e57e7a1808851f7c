"""Whatever settings a database gives its sessions, Sexton's do what they should: psycopg 571, PeerDB 2399."""

from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from sexton.database import engine, schema
from sexton.database.engine import OPTIONS, RELIED_ON, Database
from tests.servers.postgres import DEPLOYMENT, Cluster, driver_url
from tests.support.rig import RETENTION, Rig, listing

LEFT_ALONE = {
    # They name things that must exist, or that only a superuser may choose.
    *("role", "session_authorization", "default_tablespace", "temp_tablespaces", "default_table_access_method"),
    *("local_preload_libraries", "default_text_search_config", "timezone_abbreviations", "client_encoding"),
    # A server that ends sessions or transactions after a time does that to every client; that is no odd value.
    *("transaction_timeout", "tcp_user_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval"),
    *("tcp_keepalives_count", "client_connection_check_interval"),
    # Of one transaction.
    *("transaction_isolation", "transaction_read_only", "transaction_deferrable", "seed", "is_superuser"),
    # The least of them is less than a query needs.
    *("max_stack_depth", "temp_buffers", "log_statement_stats"),
    # pg_dump's own.
    "restrict_nonsystem_relation_kind",
}
ODD = {
    "datestyle": "SQL, DMY",
    "intervalstyle": "iso_8601",
    "timezone": "Pacific/Chatham",
    "search_path": "nowhere",
    "application_name": "somebody",
    "statement_timeout": "1",
    "lock_timeout": "1",
    "idle_in_transaction_session_timeout": "1",
    "idle_session_timeout": "1",
}


def odd_value(name: str, kind: str, now: str, least: str, most: str, values: list[str] | None) -> str:
    """Return a value that nobody expects."""
    if name.lower() in ODD:
        return ODD[name.lower()]
    if kind == "bool":
        return "off" if now == "on" else "on"
    if kind == "enum":
        return next((value for value in reversed(values or ()) if value != now), "")
    if kind in ("integer", "real"):
        return least if now != least else str(min(float(most), 100.0) if kind == "real" else min(int(most), 100))
    return ""


@pytest.fixture
def odd_database(postgres: Cluster) -> tuple[str, dict[str, str]]:
    """The URL of an empty database whose sessions begin with odd values, and these."""
    url = postgres.create_database()
    name, odd = url.rpartition("/")[2], {}
    with psycopg.connect(driver_url(postgres.url()), autocommit=True) as c:
        settings = "SELECT name, vartype, setting, min_val, max_val, enumvals FROM pg_settings WHERE context = 'user'"
        for setting, *facts in c.execute(settings).fetchall():
            value = odd_value(setting, *facts)
            if setting.lower() in LEFT_ALONE or not value:
                continue
            c.execute(f"""ALTER DATABASE "{name}" SET "{setting}" = '{value}'""".encode())
            odd[setting] = value
    return url, odd


def test_a_round_runs_whatever_a_database_sets(odd_database: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    url, odd = odd_database
    schema.init(url, DEPLOYMENT)
    rig = Rig(url).instance()
    root = rig.local(tmp_path / "v")
    for n in range(3):
        rig.drop(root, f"{n}.dat", f"m{n}")
    rig.later(RETENTION["dropped"] + 1)

    report = rig.round()

    assert (report.state, report.removed, listing(root)) == ("SUCCEEDED", 3, {})
    assert len(odd) > 100
    rig.db.close()


def test_nothing_is_prepared_behind_a_pooler(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PgBouncer in transaction mode may execute what another client has prepared under the name: psycopg 1151."""
    prepared = list[bool]()
    for options in (OPTIONS, "-c search_path=pg_catalog,pg_temp"):  # as they arrive; as a pooler leaves them
        monkeypatch.setattr(engine, "OPTIONS", options)
        db = Database.open(database_url)
        with db.read() as c:
            for n in range(10):
                c.execute(text("SELECT CAST(:n AS integer)"), {"n": n})
            prepared.append(c.exec_driver_sql("SELECT count(*) > 0 FROM pg_prepared_statements").scalar_one())
        db.close()

    assert prepared == [True, False]


def test_a_session_has_what_sexton_relies_on(odd_database: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    db = Database.open(odd_database[0])
    with db.read() as c:
        shown = {name: c.exec_driver_sql(f'SHOW "{name}"').scalar_one() for name in RELIED_ON}
    db.close()

    units = {"lock_timeout": "5s", "DateStyle": "ISO, MDY", "search_path": "pg_catalog,pg_temp"}
    assert {name: value for name, value in shown.items() if value != units.get(name, RELIED_ON[name])} == {}
