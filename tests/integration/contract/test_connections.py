"""The contract works in an open transaction of any connection of psycopg 3; a superuser's session has no instance.

Automatic ANALYZE evaluates expressions of owners' indexes with the rights of the table's owner, but in a session of
the superuser, who is a member of every role.
"""

import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from sqlalchemy import create_engine

from sexton import contract
from sexton.contract import AlreadyMarked, Collected, NewMark, OwnerConnection, Refused
from sexton.database import roles, schema
from sexton.kernel.errors import BadInput
from tests.servers.postgres import DEPLOYMENT, Cluster
from tests.support.claims import claim, token
from tests.support.eventually import eventually
from tests.support.rig import Rig, listing, put


class Owner(NamedTuple):
    """A connection of the owner, and the driver's own one."""

    connection: OwnerConnection
    driver: psycopg.Connection[Any]

    def visible(self) -> list[Any]:
        """Return what the owner's transaction shows of its table."""
        return self.driver.execute("SELECT id FROM shop.visible").fetchall()

    @property
    def is_open(self) -> bool:
        """Return whether a transaction is open."""
        return self.driver.info.transaction_status != psycopg.pq.TransactionStatus.IDLE


@pytest.fixture(params=["psycopg", "SQLAlchemy"])
def owner(request: pytest.FixtureRequest, rig: Rig) -> Iterator[Owner]:
    with rig.db.write() as c:
        c.exec_driver_sql("DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop; CREATE TABLE shop.visible (id text)")
    if request.param == "psycopg":
        with psycopg.connect(rig.url.replace("+psycopg", "")) as c:
            yield Owner(c, c)
            c.rollback()
    else:
        engine = create_engine(rig.url)
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            yield Owner(connection, driver)
        engine.dispose()


def marks(rig: Rig) -> list[tuple[str, str]]:
    """Return what is committed."""
    mark = rig.db.t.mark
    with rig.db.read() as c:
        return sorted((row.id, row.state) for row in c.execute(mark.select()))


def test_the_contract_never_commits_by_itself(rig: Rig, owner: Owner) -> None:
    c = owner.connection
    contract.prepare(c, "shop", "load", ["r1", "r2"], "disk", ["r1/", "r2/"], 60, ("table", ["t1", "t2"]))
    assert (owner.is_open, marks(rig)) == (True, [])
    c.commit()
    assert (rig.row("prepared", "r1").parent_kind, rig.row("prepared", "r1").parent_id) == ("table", "t1")
    prepared = [("r1", "MARKED"), ("r2", "MARKED")]
    assert marks(rig) == prepared

    contract.commit(c, "shop", ["r1"])
    assert (owner.is_open, marks(rig)) == (True, prepared)
    c.rollback()
    new = [NewMark(id=id_, vault="disk", keys=("x",)) for id_ in ("t1", "t2")]
    assert contract.mark(c, "shop", "dropped", new) == 2
    assert (owner.is_open, marks(rig)) == (True, prepared)
    c.commit()
    assert contract.undrop(c, "shop", "dropped", ["t1", "t2"]) == 2
    assert (owner.is_open, len(marks(rig))) == (True, 4)
    c.commit()

    assert marks(rig) == prepared


def test_a_refusal_leaves_the_rollback_to_the_owner(rig: Rig, owner: Owner) -> None:
    contract.prepare(owner.connection, "shop", "load", ["r1", "r2"], "disk", ["r1/", "r2/"], 60)
    contract.mark(owner.connection, "shop", "dropped", [NewMark(id="t1", vault="disk", keys=("x",))])
    owner.connection.commit()
    claim(rig, token(rig, "prepared"), "prepared", "r2")

    owner.driver.execute("INSERT INTO shop.visible VALUES ('r1')")
    with pytest.raises(Collected, match="r2 claimed in batch"):
        contract.commit(owner.connection, "shop", ["r1", "r2"])
    assert owner.is_open
    owner.driver.rollback()
    with pytest.raises(AlreadyMarked):
        contract.mark(owner.connection, "shop", "dropped", [NewMark(id="t1", vault="disk", keys=("x",))])
    owner.driver.rollback()
    with pytest.raises(Refused, match="t9 is not marked"):
        contract.undrop(owner.connection, "shop", "dropped", ["t9"])
    owner.driver.rollback()

    assert owner.visible() == []
    assert marks(rig) == [("r1", "MARKED"), ("r2", "CLAIMED"), ("t1", "MARKED")]


def test_a_connection_of_another_driver_is_refused() -> None:
    lite: Any = sqlite3.connect(":memory:")
    with create_engine("sqlite://").connect() as over_lite:
        for connection in (lite, over_lite):
            with pytest.raises(BadInput, match="needs a connection of psycopg 3"):
                contract.commit(connection, "shop", ["r1"])
    lite.close()


TRAP = """
CREATE TABLE loot (what text);
CREATE FUNCTION work() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN
    IF session_user <> 'postgres' THEN RETURN 0; END IF;
    BEGIN
        {0};
        INSERT INTO {1}.loot VALUES ('done');
    EXCEPTION WHEN OTHERS THEN
        INSERT INTO {1}.loot VALUES (SQLSTATE);
    END;
    RETURN 1;
END $f$;
CREATE FUNCTION trap(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN
    IF n = 1 AND NOT EXISTS (SELECT FROM {1}.loot) THEN PERFORM {1}.work(); END IF;
    RETURN n;
END $f$;
CREATE TABLE bait (n int) WITH (autovacuum_enabled = {2}, autovacuum_analyze_threshold = 1);
CREATE INDEX ON bait (trap(n));
INSERT INTO bait SELECT generate_series(1, 100);
"""
MARK = (
    "INSERT INTO sexton.mark (instance, kind, id, vault, keys) VALUES ('bank', 'dropped', 'evil', 'disk', '[\"kept\"]')"
)
DEEDS = {
    "mark": MARK,
    "undrop": "PERFORM sexton.undrop('bank', 'dropped', ARRAY['t'])",
    "commit": "PERFORM sexton.commit('bank', ARRAY['p'])",
    "prepare": "PERFORM sexton.prepare('bank', 'load', ARRAY['r'], 'disk', ARRAY['r/'], interval '1 hour')",
    "read": "IF NOT EXISTS (SELECT FROM sexton.mark) THEN RAISE SQLSTATE 'SX004'; END IF",
}


class Town:
    """A deployment whose own role is no superuser, with one role of ``shop`` and one of ``bank``."""

    def __init__(self, cluster: Cluster, url: str, tmp_path: Path) -> None:
        self.cluster, self.name = cluster, url.rpartition("/")[2]
        self.roles = [f"{name}_{secrets.token_hex(4)}" for name in ("own", "shop", "bank")]
        self.own, self.shop, bank = self.roles
        self.sql(";".join(f"CREATE ROLE {role} LOGIN" for role in self.roles), "postgres")
        self.sql(f'GRANT CREATE ON DATABASE "{self.name}" TO {self.own}', "postgres")
        self.sql(f"CREATE SCHEMA {self.shop} AUTHORIZATION {self.shop}", "postgres")
        own_url = url.replace("postgres@", f"{self.own}@")
        schema.init(own_url, DEPLOYMENT)
        self.rig = Rig(own_url).instance("shop").instance("bank")
        for instance, role in (("shop", self.shop), ("bank", bank)):
            roles.grant(self.rig.url, role)
            roles.grant_instance(self.rig.db, instance, role)
        self.root = self.rig.local(tmp_path / "bank", instance="bank")
        self.rig.mark("dropped", NewMark(id="t", vault="disk", prefix="t/"), instance="bank")
        self.sql("SELECT sexton.prepare('bank', 'load', ARRAY['p'], 'disk', ARRAY['p/'], interval '9 h')", self.own)
        put(self.root, "kept")

    def sql(self, statements: str, role: str) -> list[tuple[object, ...]]:
        url = self.cluster.url(self.name).replace("+psycopg", "").replace("postgres@", f"{role}@")
        with psycopg.connect(url, autocommit=True, options=f"-c search_path={role},public") as c:
            done = c.execute(statements.encode())
            return done.fetchall() if done.description else []

    def set_trap(self, deed: str, *, automatic: bool) -> None:
        self.sql(TRAP.format(DEEDS[deed], self.shop, "on" if automatic else "off"), self.shop)

    def clear_trap(self) -> None:
        self.sql("DROP TABLE bait, loot CASCADE; DROP FUNCTION trap, work", self.shop)

    def loot(self) -> list[tuple[object, ...]]:
        """Wait until the trap ran; return what it noted."""
        return eventually("the trap ran", lambda: self.sql("SELECT what FROM loot", self.shop))

    def marks(self) -> list[tuple[object, ...]]:
        return self.sql("SELECT id FROM sexton.mark WHERE instance = 'bank' ORDER BY id", self.own)


@pytest.fixture(scope="module")
def town(postgres: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    url = postgres.create_database()
    town = Town(postgres, url, tmp_path_factory.mktemp("town"))
    yield town
    town.rig.db.close()
    postgres.drop_database(url)
    with psycopg.connect(postgres.url().replace("+psycopg", ""), autocommit=True) as c:
        for role in town.roles:
            c.execute(f"DROP ROLE {role}".encode())


def test_analyze_of_a_superuser_gives_an_owner_no_instance(town: Town) -> None:
    for deed in DEEDS:
        town.set_trap(deed, automatic=False)
        town.sql("ANALYZE", "postgres")

        assert (town.loot(), town.marks()) == ([("SX004",)], [("p",), ("t",)]), deed
        town.clear_trap()


def test_superuser_owns_the_schema_or_has_no_instance(town: Town) -> None:
    with pytest.raises(psycopg.Error, match="SX004 instance bank is not granted to role postgres"):
        town.sql("SELECT sexton.verify_granted('bank')", "postgres")
    with pytest.raises(BadInput, match="role postgres is a superuser, whose sessions have no instance"):
        roles.grant_instance(town.rig.db, "bank", "postgres")
    town.sql("SELECT sexton.verify_granted('bank')", town.own)


def test_automatic_analyze_deletes_no_file_of_another(town: Town, postgres: Cluster) -> None:
    town.rig.registry.set_live_view("bank", "none")
    town.sql("ALTER SYSTEM SET autovacuum_naptime = '1s'", "postgres")
    town.sql("SELECT pg_reload_conf()", "postgres")
    try:
        town.set_trap("mark", automatic=True)
        noted = town.loot()
    finally:
        town.sql("ALTER SYSTEM RESET autovacuum_naptime", "postgres")
        town.sql("SELECT pg_reload_conf()", "postgres")
    town.rig.round("bank", after=10_801)

    assert (noted, set(listing(town.root))) == ([("SX004",)], {"kept"})
