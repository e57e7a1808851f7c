"""`doctor --print-grants` prints what servers accept; without TLS the API and remote S3 need a permission."""

import json
import secrets
from functools import partial
from pathlib import Path

import psycopg
import pytest

from sexton.database.engine import Database
from tests.e2e.conftest import Run
from tests.servers.certificate import certificate
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


BEYOND = "192.0.2.1:8470"
"""An address for documentation: no machine has it, so nothing listens there whatever the command decides."""


@pytest.mark.usefixtures("shop")
def test_api_refuses_clear_text_beyond_loopback(offline: Run) -> None:
    refused = offline("api", "--listen", BEYOND)

    assert refused.returncode == 1
    assert "would be sent to 192.0.2.1 in clear text" in refused.stderr
    assert "api.tls_cert" in refused.stderr
    assert "--insecure" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("flag", "setting"), [("--insecure", ""), ("", "true")], ids=["flag", "setting"])
def test_insecure_api_warns_of_clear_text(offline: Run, shop: Database, flag: str, setting: str) -> None:
    words = [word for word in ("api", "--listen", BEYOND, flag) if word]

    tried = offline(*words, **({"SEXTON_API__INSECURE": setting} if setting else {}))

    assert "cannot listen on 192.0.2.1:8470" in tried.stderr
    assert "tokens are sent to 192.0.2.1 in clear text, because api.insecure is set" in tried.stderr


@pytest.mark.slow
def test_api_with_a_certificate_needs_no_flag(offline: Run, shop: Database, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    tls = {"SEXTON_API__TLS_CERT": str(files.cert), "SEXTON_API__TLS_KEY": str(files.key)}

    tried = offline("api", "--listen", BEYOND, **tls)
    keyless = offline("api", "--listen", BEYOND, SEXTON_API__TLS_KEY=str(files.key))

    assert "cannot listen on 192.0.2.1:8470" in tried.stderr
    assert "api.tls_key is set and api.tls_cert is not" in keyless.stderr


FAR = "http://s3.invalid:9000"


@pytest.mark.usefixtures("shop")
def test_doctor_and_vault_add_name_the_setting(offline: Run) -> None:
    examined = offline("doctor", "--json", SEXTON_S3__ENDPOINT_URL=FAR)
    added = offline("vault", "add", "shop", "far", "--s3", "b/p", SEXTON_S3__ENDPOINT_URL=FAR)
    permitted = {"SEXTON_S3__ENDPOINT_URL": FAR, "SEXTON_INSECURE_HTTP": "true"}
    examined_again = offline("doctor", "--json", **permitted)
    added_again = offline("vault", "add", "shop", "far", "--s3", "b/p", **permitted)

    assert "http://s3.invalid is not encrypted" in examined.stdout
    assert "insecure_http = true" in added.stderr
    assert "is not encrypted" not in examined_again.stdout + added_again.stderr
