"""Each live view is read with a login of its own, so code of an owner that lies or attacks harms only that owner."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from sexton.contract import NewMark
from sexton.database.roles import granted_roles
from sexton.insight.why.blocking import WhyContext
from sexton.insight.why.story import story
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_reading
from sexton.recycle.model import RoundReport
from tests.integration.check.conftest import Owned, file_keys
from tests.integration.owners.test_live_limits import live_objects
from tests.servers.postgres import Cluster
from tests.support.kept import kept_texts
from tests.support.rig import listing, put, stores_of
from tests.support.tenant import Tenant

INSTANCES = ("shop", "stock")
KEY, GARBAGE = file_keys(2)
ROW = f"SELECT text 'rowset' AS kind, id, text 'disk' AS vault, text '{KEY}' AS key, bigint '10' AS bytes FROM file"
FILE = "CREATE TABLE file (id text); INSERT INTO file VALUES ('r0')"
WRITES = "INSERT INTO sexton.instance_role VALUES ('shop', 'mallory', 0)"
ATTACKS = {
    "writes its own tables": ("INSERT INTO {own}.file VALUES ('x')", "cannot execute INSERT in a read-only"),
    "writes Sexton's tables": (WRITES, "permission denied for schema sexton"),
    "reads Sexton's tables": ("PERFORM count(*) FROM sexton.mark", "permission denied for schema sexton"),
    "reads the view of another": ("PERFORM count(*) FROM {other}.sexton_live", "permission denied for schema"),
    "may write again": ("PERFORM set_config('transaction_read_only', 'off', false)", "transaction read-write mode"),
    "becomes Sexton's role": ("SET ROLE postgres", "permission denied to set role"),
    "becomes a superuser": ("EXECUTE format('ALTER ROLE %I SUPERUSER', session_user)", "ALTER ROLE in a read-only"),
    "ends other sessions": (
        "PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
        "permission denied to terminate process",
    ),
    "reads files of the server": ("PERFORM pg_read_file('PG_VERSION')", "permission denied for function"),
    "runs a program": ("COPY {own}.file TO PROGRAM 'true'", "permission denied to COPY"),
    "fails with a long text": ("RAISE EXCEPTION '%', repeat('x', 10000000)", "xxxxx"),
    "sleeps": ("PERFORM pg_sleep(3600)", "did not answer within 1 s"),
    "sleeps without an end": (
        "LOOP BEGIN PERFORM pg_sleep(3600); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP",
        "gave no answer within 2 s, so the session was closed",
    ),
}
"""What the view's function does → a part of the reason why every mark of its instance is kept."""
FAULTS = [
    ("ALTER ROLE {} SUPERUSER", "ALTER ROLE {} NOSUPERUSER", "login {} is a superuser"),
    ("ALTER ROLE {} CREATEROLE", "ALTER ROLE {} NOCREATEROLE", "login {} may create roles"),
    ("ALTER ROLE {} BYPASSRLS", "ALTER ROLE {} NOBYPASSRLS", "login {} bypasses row security"),
    ("GRANT postgres TO {}", "REVOKE postgres FROM {}", "login {} is a member of other roles"),
    ("GRANT pg_read_all_data TO {}", "REVOKE pg_read_all_data FROM {}", "login {} is a member of other roles"),
    (
        "GRANT USAGE ON SCHEMA sexton TO {}",
        "REVOKE USAGE ON SCHEMA sexton FROM {}",
        "login {} may use the schema of Sexton",
    ),
    ("ALTER ROLE {} NOLOGIN", "ALTER ROLE {} LOGIN", "is not permitted to log in"),
]
"""What makes a login unfit, how that is taken back, and why the marks of its instance are kept."""


class Owners:
    """Two instances, each of a role with a schema, a view with one row, a live file and a due one that is garbage."""

    def __init__(self, url: str, root: Path) -> None:
        self.suffix = secrets.token_hex(4)
        self.rig = Owned(url, live_url=url.replace("postgres@", f"{{instance}}_{self.suffix}@"))
        self.tenants = {instance: Tenant(self.rig) for instance in INSTANCES}
        self.roots = {instance: root / instance for instance in INSTANCES}
        for instance, tenant in self.tenants.items():
            tenant.show(FILE, ROW)
            self.rig.instance(instance).local(self.roots[instance], instance=instance)
            self.rig.registry.set_live_view(instance, f"{tenant.name}.sexton_live")
            put(self.roots[instance], KEY)
            self.rig.mark("dropped", NewMark(id="live", vault="disk", keys=(KEY,)), instance=instance)
            self.drop_garbage(instance)
        self.rig.root = self.roots["shop"]

    def drop_garbage(self, instance: str) -> None:
        """Write the garbage file, and let its mark be due."""
        put(self.roots[instance], GARBAGE)
        id_ = f"garbage{self.rig.count('mark_history', instance=instance)}"
        self.rig.mark("dropped", NewMark(id=id_, vault="disk", keys=(GARBAGE,)), instance=instance)
        self.rig.later(10_801)

    def reader(self, instance: str) -> str:
        return f"{instance}_{self.suffix}"

    def run_code(self, body: str, row: str = ROW) -> None:
        """Let the view of ``shop`` call a function with this body."""
        own, other = (self.tenants[instance].name for instance in INSTANCES)
        body = body.replace("{own}", own).replace("{other}", other)
        result = f"BEGIN {body}; RETURN 'rowset'; END"
        self.tenants["shop"].sql(f"CREATE OR REPLACE FUNCTION kind() RETURNS text LANGUAGE plpgsql AS $${result}$$")
        self.tenants["shop"].sql(
            "CREATE OR REPLACE VIEW sexton_live AS " + row.replace("text 'rowset' AS", "kind() AS")
        )

    def round_of_other(self) -> None:
        """Run a round of ``stock``, require that it deletes its garbage and only that, and write it again."""
        assert self.rig.round("stock").deleted == 1
        assert set(listing(self.roots["stock"])) == {KEY}
        self.drop_garbage("stock")

    def close(self) -> None:
        self.rig.db.close()
        self.rig.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self.reader('shop')}'")
        for instance, tenant in self.tenants.items():
            for role in (tenant.name, self.reader(instance)):
                self.rig.sql(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
        self.rig.db.close()


@pytest.fixture
def owners(database_url: str, tmp_path: Path) -> Iterator[Owners]:
    owners = Owners(database_url, tmp_path)
    yield owners
    owners.close()


def assert_all_kept(owners: Owners, report: RoundReport, reason: str) -> None:
    assert (report.claimed, set(listing(owners.roots["shop"]))) == (0, {KEY, GARBAGE})
    assert [reason in why for why in kept_texts(report)] == [True]
    assert len("".join(kept_texts(report))) < 2_000


def test_hostile_view_harms_only_its_own_instance(
    owners: Owners, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attack, (body, reason) in ATTACKS.items():
        with subtests.test(attack), monkeypatch.context() as patch:
            owners.run_code(body)
            if "sleeps" in attack:
                patch.setattr(live_reading, "STATEMENT_SECONDS", 1)
                patch.setattr(live_reading, "GRACE_SECONDS", 1)

            assert_all_kept(owners, owners.rig.round(), reason)
            owners.round_of_other()
            assert granted_roles(owners.rig.db) == {}


@pytest.mark.slow
@pytest.mark.parametrize("size", ["key", "rows"])
def test_gigabyte_of_a_view_harms_only_its_own_instance(owners: Owners, size: str) -> None:
    key = "repeat('x', 1000000000)" if size == "key" else "repeat('x', 1000000)"
    rows = "file" if size == "key" else "file, generate_series(1, 1000)"
    owners.run_code("NULL", ROW.replace(f"text '{KEY}'", key).replace("FROM file", f"FROM {rows}"))

    report = owners.rig.round()

    assert set(listing(owners.roots["shop"])) <= {KEY, GARBAGE}
    assert len("".join(kept_texts(report))) < 2_000
    owners.round_of_other()


def test_login_that_could_do_more_or_nothing_reads_no_view(owners: Owners) -> None:
    reader = owners.reader("shop")
    for change, back, reason in FAULTS:
        owners.rig.sql(change.format(reader))

        assert_all_kept(owners, owners.rig.round(), reason.format(reader))
        owners.round_of_other()
        finding = live_objects(owners.rig)
        assert (finding.state, reason.format(reader) in finding.detail) == ("FAIL", True)
        owners.rig.sql(back.format(reader))
    assert owners.rig.round().deleted == 1


def test_instance_without_a_login_keeps_its_marks_only(database_url: str, tmp_path: Path) -> None:
    rig = Owned(database_url, live_url="").register(tmp_path / "shop")
    rig.instance("stock").local(tmp_path / "stock", instance="stock")
    rig.registry.set_live_view("shop", "public.sexton_live")
    for instance in INSTANCES:
        rig.mark("dropped", NewMark(id="m", vault="disk", keys=(KEY,)), instance=instance)

    kept, claimed = rig.round(after=10_801), rig.round("stock")

    assert (kept.claimed, claimed.claimed) == (0, 1)
    [why] = kept_texts(kept)
    assert "set live_database_url = postgresql://{instance}_reader@HOST/NAME" in why
    assert 'CREATE ROLE "shop_reader" LOGIN' in why
    assert 'GRANT SELECT ON "public"."sexton_live" TO "shop_reader";' in why
    rig.db.close()


def test_view_without_its_grant_names_the_statement(owners: Owners) -> None:
    tenant = owners.tenants["shop"]
    tenant.sql(f"REVOKE ALL ON sexton_live FROM {owners.reader('shop')}")

    report = owners.rig.round()

    assert_all_kept(owners, report, f"login {owners.reader('shop')} may not read the live view")
    [why] = kept_texts(report)
    tenant.sql(why.partition("owner run: ")[2])
    assert owners.rig.round().deleted == 1


def test_each_way_to_read_a_view_has_the_login_of_it(owners: Owners) -> None:
    rig, stores = owners.rig, stores_of(owners.rig.db)
    reader = owners.reader("shop")
    owners.run_code(f"IF session_user <> '{reader}' THEN RAISE EXCEPTION 'read as %', session_user; END IF")
    context = WhyContext(rig.policy, stores.insight, stores.owners, stores.audit)

    report, check = rig.round(), rig.check()
    texts = [event.text for told in story(rig.db, KEY, None, context) for event in told.events]

    assert (kept_texts(report), report.deleted, check.whole) == ({"live": 1}, 1, True)
    assert stores.owners.live_objects("shop") == 1
    assert texts.count(f"live: rowset r0, {KEY} in vault disk") == len(INSTANCES)
    assert list(stores.owners.record_ids("shop", "rowset", "", "")) == ["r0"]


def test_sessions_of_a_login_are_new_and_only_read(owners: Owners) -> None:
    query = text("SELECT session_user, pg_backend_pid(), current_setting('transaction_read_only')")
    users, pids, read_only = set(), set(), set()
    for instance in ("shop", "stock", "shop"):
        with owners.rig.db.live(instance).read() as c:
            user, pid, setting = c.execute(query).one()
        users.add(user)
        pids.add(pid)
        read_only.add(setting)

    assert users == {owners.reader(instance) for instance in INSTANCES}
    assert (len(pids), read_only) == (3, {"on"})


def test_login_that_is_cut_or_of_another_database_is_refused(
    postgres: Cluster, owners: Owners, database_url: str
) -> None:
    elsewhere = postgres.create_database()
    for url, suffix, reason in (
        (database_url, "x" * 60, "choose a shorter name"),
        (elsewhere, owners.suffix, "leads to another database"),
    ):
        wrong = Owned(database_url, live_url=url.replace("postgres@", f"{{instance}}_{suffix}@"))
        wrong.registry.set_live_view("shop", wrong.registry.instance("shop").live_view)

        assert_all_kept(owners, wrong.round(), reason)
        with pytest.raises(OwnerSilent, match=reason):
            wrong.live_side.as_of("shop", lambda: None)
        wrong.db.close()
