"""Each owner's live view is read with a login of its own, so an owner's code reads nothing of another owner."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from config.engine_settings import EngineSettings
from sexton.check.sql import peers
from sexton.contract import NewMark
from sexton.insight.why.context import WhyContext
from sexton.insight.why.story import story
from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.interfaces.cli.doctor.roles import examine_roles
from sexton.owners.sql import live_code
from sexton.runtime.stores import DeploymentStores
from tests.integration.check.conftest import Owned, file_keys
from tests.support.kept import kept_texts
from tests.support.rig import DEPLOYMENT, stores_of
from tests.support.tenant import Tenant

KEY = file_keys(1)[0]
INSTANCES = ("shop", "stock")
ROW = f"SELECT text 'rowset' AS kind, id, text 'disk' AS vault, text '{KEY}' AS key, bigint '10' AS bytes FROM file"
FILE = "CREATE TABLE file (id text); INSERT INTO file VALUES ('r0')"
CODE = """
CREATE FUNCTION f() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
    IF current_user <> '{owner}' THEN
        RAISE EXCEPTION '% reads % rows', current_user, (SELECT count(*) FROM {other}.sexton_live);
    END IF;
    RETURN true;
END $$;
CREATE INDEX planted ON file (id) WHERE f()
"""


class Owners:
    """Two instances, each of a role with a schema, a view with one row, and a login that reads the view."""

    def __init__(self, url: str, login: str, root: Path) -> None:
        self.suffix = secrets.token_hex(4)
        user = {"each": f"{{instance}}_{self.suffix}", "one": f"shop_{self.suffix}", "own": "postgres"}[login]
        self.rig = Owned(url, live_url="" if login == "own" else url.replace("postgres@", f"{user}@"))
        self.tenants = {instance: Tenant(self.rig) for instance in INSTANCES}
        for instance, tenant in self.tenants.items():
            reader = self.reader(instance if login == "each" else "shop")
            self.rig.sql(f"CREATE ROLE {self.reader(instance)} LOGIN")
            tenant.show(FILE, ROW)
            tenant.sql(f"GRANT USAGE ON SCHEMA {tenant.name} TO {reader}; GRANT SELECT ON sexton_live TO {reader}")
            self.rig.instance(instance).local(root / instance, instance=instance)
            self.rig.registry.set_live_view(instance, f"{tenant.name}.sexton_live")
            self.rig.sql("INSERT INTO {}instance_role VALUES (:i, :r, 0)", i=instance, r=tenant.name)
        self.rig.root = root / "shop"

    def reader(self, instance: str) -> str:
        return f"{instance}_{self.suffix}"

    def close(self) -> None:
        self.rig.db.close()
        for instance, tenant in self.tenants.items():
            for role in (tenant.name, self.reader(instance)):
                self.rig.sql(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
        self.rig.db.close()

    def doctor(self) -> DoctorFinding:
        stores = DeploymentStores(self.rig.db, EngineSettings(DEPLOYMENT))
        return {finding.about: finding for finding in examine_roles(stores)}["live login"]


@pytest.fixture
def open_owners(database_url: str, tmp_path: Path) -> Iterator[Callable[[str], Owners]]:
    opened: list[Owners] = []

    def open_(login: str) -> Owners:
        opened.append(Owners(database_url, login, tmp_path))
        return opened[-1]

    yield open_
    for owners in opened:
        owners.close()


@pytest.mark.parametrize(("login", "seen"), [("each", "permission denied for schema"), ("one", "reads 1 rows")])
def test_code_planted_while_a_view_is_read_sees_no_other(
    open_owners: Callable[[str], Owners], login: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = open_owners(login)
    shop, stock, require_plain = owners.tenants["shop"], owners.tenants["stock"], live_code.require_plain

    def plant_when_checked(*arguments: Any) -> None:
        require_plain(*arguments)
        monkeypatch.undo()
        shop.sql(CODE.format(owner=shop.name, other=stock.name))

    monkeypatch.setattr(live_code, "require_plain", plant_when_checked)
    owners.rig.mark("dropped", NewMark(id="m", vault="disk", keys=(KEY,)))
    owners.rig.later(10_801)
    report = owners.rig.round()

    assert report.claimed == 0
    assert [seen in why for why in kept_texts(report)] == [True]


def test_each_way_to_read_a_view_has_the_login_of_it(
    open_owners: Callable[[str], Owners], monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = open_owners("each")
    rig, stores = owners.rig, stores_of(owners.rig.db)
    monkeypatch.setattr(live_code, "require_plain", lambda *_: None)
    for instance, tenant in owners.tenants.items():
        reads = f"IF current_user <> '{tenant.name}' AND session_user <> '{owners.reader(instance)}'"
        body = f"BEGIN {reads} THEN RAISE EXCEPTION 'read as %', session_user; END IF; RETURN 'rowset'; END"
        tenant.sql(f"CREATE FUNCTION kind() RETURNS text LANGUAGE plpgsql AS $$ {body} $$")
        tenant.sql("CREATE OR REPLACE VIEW sexton_live AS " + ROW.replace("text 'rowset' AS", "kind() AS"))
    rig.write_old(KEY)
    rig.mark("dropped", NewMark(id="m", vault="disk", keys=(KEY,)))
    rig.later(10_801)
    context = WhyContext(rig.policy, stores.insight, stores.owners, stores.audit)

    report, check = rig.round(), rig.check()
    texts = [event.text for told in story(rig.db, KEY, None, context) for event in told.events]

    assert kept_texts(report) == {"live": 1}
    assert check.whole
    assert [stores.owners.live_objects(instance) for instance in INSTANCES] == [1, 1]
    assert texts.count(f"live: rowset r0, {KEY} in vault disk") == len(INSTANCES)
    for instance in INSTANCES:
        assert peers.compare(stores.owners, instance, "rowset", ["r0"], ("", "")).unknown == 0


def test_a_login_that_is_missing_keeps_its_own_marks_only(open_owners: Callable[[str], Owners]) -> None:
    owners = open_owners("each")
    owners.rig.sql(f"ALTER ROLE {owners.reader('shop')} NOLOGIN")
    for instance in INSTANCES:
        owners.rig.mark("dropped", NewMark(id="m", vault="disk", keys=("data/t1/gone.dat",)), instance=instance)
    owners.rig.later(10_801)

    kept, claimed = owners.rig.round(), owners.rig.round("stock")

    assert (kept.claimed, claimed.claimed) == (0, 1)
    assert ["is not permitted to log in" in why for why in kept_texts(kept)] == [True]


@pytest.mark.parametrize(("login", "state"), [("each", "OK"), ("one", "WARN"), ("own", "WARN")])
def test_doctor_warns_of_one_login_for_several_owners(
    open_owners: Callable[[str], Owners], login: str, state: str
) -> None:
    owners = open_owners(login)
    finding = owners.doctor()

    assert finding.state == state
    assert ("several owners" in finding.detail) is (login == "one")
    assert ("{instance}_reader" in finding.todo) is (login == "one")
    assert ([owners.reader(i) in finding.detail for i in INSTANCES] == [True, True]) is (login == "each")


def test_doctor_names_the_instance_whose_login_is_wrong(open_owners: Callable[[str], Owners]) -> None:
    owners = open_owners("each")
    owners.rig.sql(
        f"ALTER ROLE {owners.reader('stock')} NOLOGIN; GRANT UPDATE ON sexton.mark TO {owners.reader('shop')}"
    )
    finding = owners.doctor()

    assert finding.state == "FAIL"
    assert "the live view of stock cannot be read" in finding.detail
    assert f"{owners.reader('shop')} has UPDATE on sexton.mark" in finding.detail


def test_two_owners_use_separate_sessions(open_owners: Callable[[str], Owners]) -> None:
    db = open_owners("each").rig.db

    assert db.live("shop") is db.live("shop")
    with db.live("shop").read() as shop, db.live("stock").read() as stock:
        users = [str(c.execute(text("SELECT session_user")).scalar_one()).split("_")[0] for c in (shop, stock)]
    assert users == ["shop", "stock"]
