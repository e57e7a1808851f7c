"""The contract works in an open transaction of the owner, whatever connection of psycopg 3 it is, and never ends it."""

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from sqlalchemy import create_engine

from sexton import contract
from sexton.contract import AlreadyMarked, Collected, NewMark, OwnerConnection, Refused
from sexton.kernel.errors import BadInput
from tests.support.claims import claim, token
from tests.support.rig import Rig


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
    contract.prepare(c, "shop", "load", ["r1", "r2"], "disk", ["r1/", "r2/"], 60)
    assert (owner.is_open, marks(rig)) == (True, [])
    c.commit()
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


def test_parents_of_prepared_rowsets_are_stored(rig: Rig, owner: Owner) -> None:
    contract.prepare(owner.connection, "shop", "load", ["r1"], "disk", ["r1/"], 60, ("table", ["t1"]))
    owner.connection.commit()

    row = rig.row("prepared", "r1")
    assert (row.parent_kind, row.parent_id) == ("table", "t1")


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
