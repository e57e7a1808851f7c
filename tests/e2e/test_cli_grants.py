"""`sexton doctor --print-grants` prints SQL that PostgreSQL accepts, and policies of the registered vaults."""

import json
import secrets
from functools import partial

import psycopg

from tests.e2e.conftest import Run
from tests.servers.postgres import Cluster


def test_the_printed_sql_is_what_the_roles_need(offline: Run, postgres: Cluster) -> None:
    mark = secrets.token_hex(4)
    sexton, app, reader = f"s_{mark}", f"a_{mark}", f"shop_{mark}"
    admin_url = postgres.create_database()
    admin = admin_url.replace("+psycopg", "")
    with psycopg.connect(admin, autocommit=True) as c:
        for role in (sexton, app, reader):
            c.execute(f"CREATE ROLE {role} LOGIN".encode())
        c.execute(f"GRANT CREATE ON DATABASE {admin_url.rpartition('/')[2]} TO {sexton}".encode())
        c.execute(b"CREATE SCHEMA shop; CREATE VIEW shop.sexton_live AS SELECT 'file' AS kind, '1' AS id")
    urls = {
        "SEXTON_DATABASE_URL": admin_url.replace("postgres@", f"{sexton}@"),
        "SEXTON_LIVE_DATABASE_URL": admin_url.replace("postgres@", f"{{instance}}_{mark}:s3cret@"),
    }
    run = partial(offline, **urls)
    run("init", "--grant-to", app)
    run("instance", "add", "shop", "--live-view", "shop.sexton_live")
    run("instance", "grant", "shop", app)

    printed, as_json = run("doctor", "--print-grants"), run("doctor", "--print-grants", "--json")

    assert (printed.returncode, printed.stderr, "s3cret" in printed.stdout) == (0, "", False)
    sql = json.loads(as_json.stdout)["postgresql"]
    assert printed.stdout.splitlines() == ["-- SQL, as an administrator", *sql]
    assert sql[0] == f'GRANT CREATE ON DATABASE "{admin_url.rpartition("/")[2]}" TO "{sexton}";'
    with psycopg.connect(admin, autocommit=True) as c:
        for statement in sql:
            c.execute(statement.encode())
    with psycopg.connect(admin.replace("postgres@", f"{reader}@")) as c:
        assert c.execute(b"SELECT id FROM shop.sexton_live").fetchone() == ("1",)
    assert sum(app in statement for statement in sql) == 4
    postgres.drop_database(admin_url)


def test_without_vaults_and_roles_it_prints_the_database_right(offline: Run) -> None:
    offline("init")

    printed = offline("doctor", "--print-grants")

    assert printed.returncode == 0
    assert printed.stdout.startswith("-- SQL, as an administrator\nGRANT CREATE ON DATABASE")
