"""Roles of PostgreSQL, with a role of Sexton's own that is no superuser; tokens, and who is told that they end."""

import json
import secrets
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import update

from config.settings import Settings
from sexton.database.engine import Database
from sexton.interfaces.cli.doctor.surroundings import examine_issuer
from sexton.operators.access import policy
from sexton.operators.access.store import TokenStore
from sexton.operators.call_log.store import CallStore
from tests.e2e.conftest import Run
from tests.servers.issuer import Issuer
from tests.servers.postgres import Cluster

UNDROP = b"SELECT sexton.undrop('shop', 'dropped', '{t}')"


def test_a_role_is_granted_an_instance_and_loses_it(offline: Run, postgres: Cluster) -> None:
    sexton, app = f"s_{secrets.token_hex(4)}", f"a_{secrets.token_hex(4)}"
    admin_url = postgres.create_database()
    name = admin_url.rpartition("/")[2]
    with psycopg.connect(admin_url.replace("+psycopg", ""), autocommit=True) as c:
        for statement in (f"ROLE {sexton} LOGIN", f"ROLE {app} LOGIN"):
            c.execute(f"CREATE {statement}".encode())
        c.execute(f"GRANT CREATE ON DATABASE {name} TO {sexton}".encode())
    run = partial(offline, SEXTON_DATABASE_URL=admin_url.replace("postgres@", f"{sexton}@"))

    early = run("init", "--grant-to", "nobody", SEXTON_DEPLOYMENT="")
    assert (early.returncode, early.stderr.count("\n")) == (1, 1)
    assert "there is no role nobody; create it first, then repeat: sexton init --grant-to nobody" in early.stderr
    run = partial(run, SEXTON_DEPLOYMENT=early.stdout.partition("SEXTON_DEPLOYMENT=")[2].split()[0])

    initialised = run("init", "--grant-to", app)
    assert (initialised.returncode, f"sexton instance grant INSTANCE {app}" in initialised.stdout) == (0, True)
    assert run("instance", "add", "shop").returncode == 0
    with psycopg.connect(admin_url.replace("postgres@", f"{app}@").replace("+psycopg", "")) as c:
        with pytest.raises(psycopg.Error, match="SX004 instance shop is not granted"):
            c.execute(UNDROP)
        c.rollback()
        assert run("instance", "grant", "shop", app).returncode == 0
        with pytest.raises(psycopg.Error, match="SX003 refused: t is not marked"):
            c.execute(UNDROP)
        c.rollback()
        listed = json.loads(run("instance", "list", "--json").stdout)["items"]
        examined = {f["about"]: f for f in json.loads(run("doctor", "--json").stdout)["items"]}
        assert run("instance", "revoke", "shop", app).returncode == 0
        with pytest.raises(psycopg.Error, match="SX004"):
            c.execute(UNDROP)

    assert [(i["instance"], i["roles"]) for i in listed] == [("shop", [app])]
    assert examined["roles"]["state"] == "OK", examined["roles"]
    assert [line.split()[0] for line in run("log").stdout.splitlines() if "instance revoke" in line]
    postgres.drop_database(admin_url)


@pytest.mark.slow
def test_live_view_is_read_with_a_login_of_its_own(offline: Run, postgres: Cluster, tmp_path: Path) -> None:
    sexton, mark = f"s_{secrets.token_hex(4)}", secrets.token_hex(4)
    admin_url = postgres.create_database()
    with psycopg.connect(admin_url.replace("+psycopg", ""), autocommit=True) as c:
        c.execute(f"CREATE ROLE {sexton} LOGIN; CREATE SCHEMA shop".encode())
        c.execute(f"GRANT CREATE ON DATABASE {admin_url.rpartition('/')[2]} TO {sexton}".encode())
        c.execute(
            b"CREATE VIEW shop.sexton_live AS SELECT 'f' AS kind, '1' AS id, 'disk' AS vault, 'a' AS key, 1 AS bytes"
        )
    own = partial(
        offline, SEXTON_DATABASE_URL=admin_url.replace("postgres@", f"{sexton}@"), SEXTON_LIVE_DATABASE_URL=""
    )
    both = partial(own, SEXTON_LIVE_DATABASE_URL=admin_url.replace("postgres@", f"{{instance}}_{mark}:s3cret@"))

    def doctor(run: Run) -> tuple[str, str]:
        findings = {f["about"]: f for f in json.loads(run("doctor", "--json").stdout)["items"]}
        return findings["live objects"]["state"], findings["live objects"]["detail"]

    own("init")
    assert own("instance", "add", "shop").returncode == 0
    assert own("vault", "add", "shop", "disk", "--local", str(tmp_path)).returncode == 0
    alone, beside = (run("instance", "live-view", "shop", "shop.sexton_live") for run in (own, both))
    assert (alone.returncode, beside.returncode) == (0, 0), beside.stderr
    assert "set live_database_url = postgresql://{instance}_reader@HOST/NAME" in alone.stderr
    missing = doctor(both)
    with psycopg.connect(admin_url.replace("+psycopg", ""), autocommit=True) as c:
        c.execute(beside.stderr.partition("administrator of the database: ")[2].partition("; see also: ")[0].encode())

    assert json.loads(own("instance", "list", "--json").stdout)["items"][0]["live_view"] == "shop.sexton_live"
    assert (missing[0], f"login shop_{mark} of live_database_url cannot log in" in missing[1]) == ("WARN", True)
    assert (doctor(own)[0], doctor(both)[0]) == ("WARN", "OK")
    assert "s3cret" not in both("settings", "show").stdout
    assert own("instance", "live-view", "shop", "sexton_live").returncode == 1
    assert "no live view" not in own("status").stdout
    assert own("instance", "live-view", "shop", "none").returncode == 0
    assert "no live view: nothing looks for live objects before a deletion" in own("status").stdout
    assert [line for line in own("log").stdout.splitlines() if "instance live-view" in line]
    postgres.drop_database(admin_url)


def test_sextons_login_creates_the_login_of_a_view(offline: Run, postgres: Cluster, tmp_path: Path) -> None:
    sexton, mark = f"s_{secrets.token_hex(4)}", secrets.token_hex(4)
    admin_url = postgres.create_database()
    with psycopg.connect(admin_url.replace("+psycopg", ""), autocommit=True) as c:
        c.execute(f"CREATE ROLE {sexton} LOGIN CREATEROLE".encode())
        c.execute(f"ALTER DATABASE {admin_url.rpartition('/')[2]} OWNER TO {sexton}".encode())
    run = partial(
        offline,
        SEXTON_DATABASE_URL=admin_url.replace("postgres@", f"{sexton}@"),
        SEXTON_LIVE_DATABASE_URL=admin_url.replace("postgres@", f"{{instance}}_{mark}:s3cret@"),
    )
    run("init")
    with psycopg.connect(admin_url.replace("postgres@", f"{sexton}@").replace("+psycopg", "")) as c:
        c.execute(
            b"CREATE SCHEMA shop; CREATE TABLE shop.seen AS SELECT 'f' AS kind, '1' AS id, 'disk' AS vault, 'a' AS key;"
            b"CREATE VIEW shop.seen_as_of AS SELECT now() AS as_of"
        )

    added = run("instance", "add", "shop", "--live-view", "shop.seen")
    vault = run("vault", "add", "shop", "disk", "--local", str(tmp_path))
    examined = {f["about"]: f for f in json.loads(run("doctor", "--json").stdout)["items"]}

    assert (added.returncode, added.stderr, vault.returncode) == (0, "", 0)
    assert examined["live objects"]["state"] in ("OK", "WARN")
    assert "keeps every mark" not in examined["live objects"]["detail"]
    assert examined["roles"]["state"] == "OK"
    postgres.drop_database(admin_url)


def test_a_login_that_is_not_sextons_role_is_named(offline: Run, postgres: Cluster) -> None:
    admin_url, app = postgres.create_database(), f"a_{secrets.token_hex(4)}"
    with psycopg.connect(admin_url.replace("+psycopg", ""), autocommit=True) as c:
        c.execute(f"CREATE ROLE {app} LOGIN".encode())
    wrong = partial(offline, SEXTON_DATABASE_URL=admin_url.replace("postgres@", f"{app}@"))
    early = wrong("init")
    offline("init", SEXTON_DATABASE_URL=admin_url)

    stranger, database = wrong("status"), json.loads(wrong("doctor", "--json").stdout)["items"][3]
    offline("init", "--grant-to", app, SEXTON_DATABASE_URL=admin_url)
    owner, race = wrong("status"), wrong("contract", "test", "--dsn", wrong.keywords["SEXTON_DATABASE_URL"])

    grant = f"GRANT CREATE ON DATABASE {admin_url.rpartition('/')[2]} TO {app}"
    assert (early.returncode, early.stderr.strip().endswith(f"; as an administrator: {grant}")) == (1, True)
    assert (race.returncode, race.stderr.strip().endswith("; log in as Sexton's own role")) == (1, True)
    assert (database["about"], database["state"]) == ("database", "FAIL")
    assert f"{app} is not Sexton's role; correct the user in SEXTON_DATABASE_URL" in database["detail"]
    for refused in (stranger, owner):
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
        assert "permission denied" in refused.stderr
        assert f"{app} is not Sexton's role" in refused.stderr
    postgres.drop_database(admin_url)


def test_adding_an_instance_again_keeps_its_live_view(offline: Run) -> None:
    offline("init")
    offline("instance", "add", "shop", "--live-view", "public.sexton_live")

    repeated, refused = (
        offline("instance", "add", "shop", "--live-view", view) for view in ("public.sexton_live", "none")
    )

    assert (repeated.returncode, refused.returncode, refused.stdout) == (0, 1, "")
    assert "with the live view public.sexton_live; to change it: sexton instance live-view shop none" in refused.stderr
    assert json.loads(offline("instance", "list", "--json").stdout)["items"][0]["live_view"] == "public.sexton_live"


def test_live_view_that_cannot_be_read_is_warned_of(offline: Run, environment: dict[str, str], tmp_path: Path) -> None:
    offline("init")
    offline("instance", "add", "shop")
    offline("vault", "add", "shop", "disk", "--local", str(tmp_path))
    url, seen = environment["SEXTON_DATABASE_URL"].replace("+psycopg", ""), "public.seen"

    absent = offline("instance", "live-view", "shop", seen)
    with psycopg.connect(url) as c:
        c.execute("CREATE VIEW public.seen AS SELECT 'file' AS kind, '1' AS id, 'disk' AS vault, 'k' AS keyy")
    misspelt = offline("instance", "live-view", "shop", seen)
    with psycopg.connect(url) as c:
        c.execute("DROP VIEW public.seen")
        c.execute("CREATE VIEW public.seen AS SELECT 'file' AS kind, '1' AS id, 'disk' AS vault, 'k' AS key")
    right, none = (offline("instance", "live-view", "shop", view) for view in (seen, "none"))

    assert [r.returncode for r in (absent, misspelt, right, none)] == [0, 0, 0, 0]
    assert "warning: rounds keep every mark of shop: " in absent.stderr
    assert "key" in misspelt.stderr
    assert (right.stderr, none.stderr) == ("", "")


def test_the_printed_sql_ends_with_the_grants(offline: Run) -> None:
    printed = offline("init", "--print-sql", "--grant-to", "shop_app")

    assert printed.stdout.strip().splitlines()[-1].endswith('sexton.reference(text, text[]) TO "shop_app";')


def test_token_in_use_is_named_before_it_ends(offline: Run, shop: Database) -> None:
    tokens = TokenStore(shop)
    token, _ = tokens.create(policy.scope("sync:copy@shop"), 7, "test")
    before = offline("status").stdout
    tokens.record_use(token)
    status, as_json = offline("status"), json.loads(offline("status", "--json").stdout)
    doctor = {f["about"]: f for f in json.loads(offline("doctor", "--json").stdout)["items"]}
    renewed = offline("token", "renew", token.id, "--days", "60")

    assert token.id not in before
    assert f"token {token.id} (sync:copy@shop) is in use and ends" in status.stdout
    assert [t["token"] for t in as_json["expiring_tokens"]] == [token.id]
    assert (doctor["tokens"]["state"], "sexton token renew" in doctor["tokens"]["todo"]) == ("WARN", True)
    assert (renewed.returncode, f"token {token.id} is valid until" in renewed.stdout) == (0, True)
    assert token.id not in offline("status").stdout
    assert [(c.action, c.subject) for c in CallStore(shop).last(1)] == [("token renew", f"{token.id} for 60 days")]


def test_unreadable_scope_is_listed_and_revoked(offline: Run, shop: Database) -> None:
    spoiled, _ = TokenStore(shop).create(policy.scope("admin"), 7, "test")
    with shop.write() as c:
        c.execute(update(shop.t.token).values(scope="operate"))
    TokenStore(shop).create(policy.scope("read"), 7, "test")

    listed, as_json = offline("token", "list"), json.loads(offline("token", "list", "--json").stdout)["items"]
    revoked = offline("token", "revoke", spoiled.id)

    assert "'operate' cannot be read; revoke it" in listed.stdout
    assert {t["scope"] for t in as_json} == {"read", "'operate' cannot be read; revoke it"}
    assert revoked.returncode == 0


def test_lifetime_above_the_ceiling_is_refused(offline: Run, shop: Database) -> None:
    refused = offline("token", "create", "--scope", "read", "--days", "367")

    assert (refused.returncode, "less than or equal to 366" in refused.stderr) == (64, True)


def test_doctor_reads_the_keys_of_the_issuer() -> None:
    with Issuer() as issuer:
        settings = Settings(deployment="test-tokens", oidc=issuer.settings(ops=["read"]))
        issuer.add_key("k1")
        findings = [*examine_issuer(settings)]
        issuer.answer = b'{"keys": []}'
        findings += examine_issuer(settings)
        issuer.answer = b"<html>"
        findings += examine_issuer(settings)

    assert [(f.about, f.state) for f in findings] == [("oidc", "OK"), ("oidc", "FAIL"), ("oidc", "FAIL")]
    assert list(examine_issuer(Settings(deployment="test-tokens"))) == []
