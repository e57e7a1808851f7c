"""Roles of PostgreSQL, with a role of Sexton's own that is no superuser; grants as printed; tokens that end."""

import json
import secrets
from functools import partial
from pathlib import Path

import psycopg
import pytest

from config.settings import Settings
from sexton.interfaces.cli.doctor.surroundings import examine_issuer
from sexton.operators.access import policy
from tests.e2e.conftest import Run, findings, items
from tests.servers.issuer import Issuer
from tests.servers.postgres import Cluster, driver_url
from tests.support.rig import Rig

UNDROP = b"SELECT sexton.undrop('shop', 'dropped', '{t}')"


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


def database_with(postgres: Cluster, *statements: str) -> str:
    """Create a database and send statements to it as an administrator, ``{name}`` its name; return its URL."""
    url = postgres.create_database()
    with psycopg.connect(driver_url(url), autocommit=True) as c:
        for statement in statements:
            c.execute(statement.format(name=url.rpartition("/")[2]).encode())
    return url


def as_role(url: str, role: str) -> str:
    return url.replace("postgres@", f"{role}@")


def test_a_role_is_granted_an_instance_and_loses_it(offline: Run, postgres: Cluster) -> None:
    sexton, app = f"s_{secrets.token_hex(4)}", f"a_{secrets.token_hex(4)}"
    url = database_with(
        postgres,
        f"CREATE ROLE {sexton} LOGIN; CREATE ROLE {app} LOGIN",
        f"GRANT CREATE ON DATABASE {{name}} TO {sexton}",
    )
    wrong = partial(offline, SEXTON_DATABASE_URL=as_role(url, app))
    run = partial(offline, SEXTON_DATABASE_URL=as_role(url, sexton))

    too_weak = wrong("init")
    early = run("init", "--grant-to", "nobody", SEXTON_DEPLOYMENT="")
    deployment = early.stdout.partition("SEXTON_DEPLOYMENT=")[2].split()[0]
    run, wrong = (partial(of_role, SEXTON_DEPLOYMENT=deployment) for of_role in (run, wrong))
    stranger, [_, _, _, database, *_] = wrong("status"), items(wrong("doctor", "--json"))
    initialised = run("init", "--grant-to", app)
    owner, race = wrong("status"), wrong("contract", "test", "--dsn", as_role(url, app))

    grant = f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO {app}"
    assert (too_weak.returncode, too_weak.stderr.strip().endswith(f"; as an administrator: {grant}")) == (1, True)
    assert (early.returncode, early.stderr.count("\n")) == (1, 1)
    assert "there is no role nobody; create it first, then repeat: sexton init --grant-to nobody" in early.stderr
    assert (initialised.returncode, f"sexton instance grant INSTANCE {app}" in initialised.stdout) == (0, True)
    assert (race.returncode, race.stderr.strip().endswith("; log in as Sexton's own role")) == (1, True)
    assert (database["about"], database["state"]) == ("database", "FAIL")
    assert f"{app} is not Sexton's role; correct the user in SEXTON_DATABASE_URL" in database["detail"]
    for refused in (stranger, owner):
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
        assert "permission denied" in refused.stderr
        assert f"{app} is not Sexton's role" in refused.stderr

    assert run("instance", "add", "shop").returncode == 0
    with psycopg.connect(driver_url(as_role(url, app))) as c:
        with pytest.raises(psycopg.Error, match="SX004 instance shop is not granted"):
            c.execute(UNDROP)
        c.rollback()
        assert run("instance", "grant", "shop", app).returncode == 0
        with pytest.raises(psycopg.Error, match="SX003 refused: t is not marked"):
            c.execute(UNDROP)
        c.rollback()
        listed, examined = items(run("instance", "list", "--json")), findings(run)
        assert run("instance", "revoke", "shop", app).returncode == 0
        with pytest.raises(psycopg.Error, match="SX004"):
            c.execute(UNDROP)

    assert [(i["instance"], i["roles"]) for i in listed] == [("shop", [app])]
    assert examined["roles"]["state"] == "OK", examined["roles"]
    assert "instance revoke" in run("log").stdout


def test_init_prints_how_a_superuser_is_replaced(offline: Run, postgres: Cluster) -> None:
    url, sexton = postgres.create_database(), f"s_{secrets.token_hex(4)}"
    warned = offline("init", SEXTON_DATABASE_URL=url)
    warning, _, sql = warned.stderr.partition("\n")
    with psycopg.connect(driver_url(url), autocommit=True) as c:
        c.execute(sql.replace("sexton_svc", sexton).encode())
    own = partial(offline, SEXTON_DATABASE_URL=as_role(url, sexton))
    repeated, access = own("init"), findings(own)["roles"]

    assert (warned.returncode, warning.startswith("warning: role postgres is a superuser")) == (0, True)
    assert (repeated.returncode, repeated.stderr, access["state"]) == (0, "", "OK"), access


@pytest.mark.slow
def test_live_view_is_read_with_a_login_of_its_own(offline: Run, postgres: Cluster, tmp_path: Path) -> None:
    mark = secrets.token_hex(4)
    sexton, app, reader = f"s_{mark}", f"a_{mark}", f"shop_{mark}"
    url = database_with(
        postgres,
        f"CREATE ROLE {sexton} LOGIN; CREATE ROLE {app} LOGIN; CREATE SCHEMA shop",
        f"GRANT CREATE ON DATABASE {{name}} TO {sexton}",
        "CREATE VIEW shop.sexton_live AS SELECT 'f' AS kind, '1' AS id, 'disk' AS vault, 'a' AS key, 1 AS bytes",
    )
    own = partial(offline, SEXTON_DATABASE_URL=as_role(url, sexton), SEXTON_LIVE_DATABASE_URL="")
    both = partial(own, SEXTON_LIVE_DATABASE_URL=as_role(url, f"{{instance}}_{mark}:s3cret"))

    def doctor(run: Run) -> tuple[str, str]:
        finding = findings(run)["live objects"]
        return finding["state"], finding["detail"]

    own("init", "--grant-to", app)
    bare = own("doctor", "--print-grants")
    assert own("instance", "add", "shop").returncode == 0
    assert own("vault", "add", "shop", "disk", "--local", str(tmp_path)).returncode == 0
    alone, beside = (run("instance", "live-view", "shop", "shop.sexton_live") for run in (own, both))
    missing = doctor(both)
    with psycopg.connect(driver_url(url), autocommit=True) as c:
        c.execute(beside.stderr.partition("administrator of the database: ")[2].partition("; see also: ")[0].encode())
    states = doctor(own)[0], doctor(both)[0]
    both("instance", "grant", "shop", app)
    printed, as_json = both("doctor", "--print-grants"), both("doctor", "--print-grants", "--json")
    sql = json.loads(as_json.stdout)["postgresql"]
    with psycopg.connect(driver_url(url), autocommit=True) as c:
        for statement in sql:
            c.execute(statement.encode())
    with psycopg.connect(driver_url(as_role(url, reader))) as c:
        assert c.execute(b"SELECT id FROM shop.sexton_live").fetchone() == ("1",)

    assert (bare.returncode, bare.stdout.count("GRANT CREATE ON DATABASE")) == (0, 1)
    assert (alone.returncode, beside.returncode) == (0, 0), beside.stderr
    assert "set live_database_url = postgresql://{instance}_reader@HOST/NAME" in alone.stderr
    assert items(own("instance", "list", "--json"))[0]["live_view"] == "shop.sexton_live"
    assert (missing[0], f"login {reader} of live_database_url cannot log in" in missing[1]) == ("WARN", True)
    assert states == ("WARN", "OK")
    assert (printed.returncode, printed.stderr, "s3cret" in printed.stdout) == (0, "", False)
    assert printed.stdout.splitlines() == ["-- SQL, as an administrator", *sql]
    assert sql[0] == f'GRANT CREATE ON DATABASE "{url.rpartition("/")[2]}" TO "{sexton}";'
    assert sum(app in statement for statement in sql) == 4
    assert "s3cret" not in both("settings", "show").stdout
    assert own("instance", "live-view", "shop", "sexton_live").returncode == 64
    assert "no live view" not in own("status").stdout
    assert own("instance", "live-view", "shop", "none").returncode == 0
    assert "no live view: nothing looks for live objects before a deletion" in own("status").stdout
    assert "instance live-view" in own("log").stdout


def test_sextons_login_creates_the_login_of_a_view(offline: Run, postgres: Cluster, tmp_path: Path) -> None:
    sexton, mark = f"s_{secrets.token_hex(4)}", secrets.token_hex(4)
    owned = f"ALTER DATABASE {{name}} OWNER TO {sexton}"
    url = database_with(postgres, f"CREATE ROLE {sexton} LOGIN CREATEROLE", owned)
    run = partial(
        offline,
        SEXTON_DATABASE_URL=as_role(url, sexton),
        SEXTON_LIVE_DATABASE_URL=as_role(url, f"{{instance}}_{mark}:s3cret"),
    )
    run("init")
    with psycopg.connect(driver_url(as_role(url, sexton))) as c:
        c.execute(
            b"CREATE SCHEMA shop; CREATE TABLE shop.seen AS SELECT 'f' AS kind, '1' AS id, 'disk' AS vault, 'a' AS key;"
            b"CREATE VIEW shop.seen_as_of AS SELECT now() AS as_of"
        )

    added = run("instance", "add", "shop", "--live-view", "shop.seen")
    vault = run("vault", "add", "shop", "disk", "--local", str(tmp_path))
    examined = findings(run)

    assert (added.returncode, added.stderr, vault.returncode) == (0, "", 0)
    assert examined["live objects"]["state"] in ("OK", "WARN")
    assert "keeps every mark" not in examined["live objects"]["detail"]
    assert examined["roles"]["state"] == "OK"


def test_live_view_that_cannot_be_read_is_warned_of(offline: Run, shop: Rig) -> None:
    def replace_view(column: str) -> None:
        with shop.db.write() as c:
            c.exec_driver_sql("DROP VIEW IF EXISTS public.seen")
            c.exec_driver_sql(
                f"CREATE VIEW public.seen AS SELECT 'f' AS kind, '1' AS id, 'disk' AS vault, 'k' AS {column}"
            )

    absent = offline("instance", "live-view", "shop", "public.seen")
    replace_view("keyy")
    misspelt = offline("instance", "live-view", "shop", "public.seen")
    replace_view("key")
    right = offline("instance", "live-view", "shop", "public.seen")
    repeated, refused = (offline("instance", "add", "shop", "--live-view", view) for view in ("public.seen", "none"))
    listed = items(offline("instance", "list", "--json"))
    none = offline("instance", "live-view", "shop", "none")

    assert [r.returncode for r in (absent, misspelt, right, none)] == [0, 0, 0, 0]
    assert "warning: rounds keep every mark of shop: " in absent.stderr
    assert "key" in misspelt.stderr
    assert (right.stderr, none.stderr) == ("", "")
    assert (repeated.returncode, refused.returncode, refused.stdout) == (0, 1, "")
    assert "with the live view public.seen; to change it: sexton instance live-view shop none" in refused.stderr
    assert listed[0]["live_view"] == "public.seen"


def test_tokens_are_named_before_they_end_and_when_unreadable(offline: Run, shop: Rig) -> None:
    tokens = shop.all_stores.tokens
    token, _ = tokens.create(policy.scope("sync:copy@shop"), 7, "test")
    spoiled, _ = tokens.create(policy.scope("admin"), 7, "test")
    before = offline("status").stdout
    tokens.record_use(token)
    status, as_json = offline("status"), json.loads(offline("status", "--json").stdout)
    doctor = findings(offline)["tokens"]
    renewed = offline("token", "renew", token.id, "--days", "60")
    calls, after = shop.calls.last(1), offline("status").stdout
    shop.sql("UPDATE {}token SET scope = 'operate' WHERE id = :id", id=spoiled.id)
    listed, scopes = offline("token", "list"), {t["scope"] for t in items(offline("token", "list", "--json"))}
    revoked = offline("token", "revoke", spoiled.id)

    assert (token.id in before, token.id in after) == (False, False)
    assert f"token {token.id} (sync:copy@shop) is in use and ends" in status.stdout
    assert [t["token"] for t in as_json["expiring_tokens"]] == [token.id]
    assert (doctor["state"], "sexton token renew" in doctor["todo"]) == ("WARN", True)
    assert (renewed.returncode, f"token {token.id} is valid until" in renewed.stdout) == (0, True)
    assert [(c.action, c.subject) for c in calls] == [("token renew", f"{token.id} for 60 days")]
    assert "'operate' cannot be read; revoke it" in listed.stdout
    assert scopes == {"sync:copy@shop", "'operate' cannot be read; revoke it"}
    assert revoked.returncode == 0
