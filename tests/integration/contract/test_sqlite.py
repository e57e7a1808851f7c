"""The contract works in a transaction of the owner's own ``sqlite3.Connection``, and never ends it."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton import contract
from sexton.contract import Collected, NewMark, Refused
from sexton.kernel.errors import BadInput
from tests.support.claims import claim, token
from tests.support.rig import Rig

MARKS = "SELECT kind, id, state FROM sexton_mark ORDER BY 1, 2"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(f"sqlite:///{tmp_path / 'shop.db'}").instance()


@pytest.fixture(params=["", None], ids=["legacy", "autocommit"])
def owner(request: pytest.FixtureRequest, rig: Rig, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The owner's connection, as Python opens it by default and with ``isolation_level=None``."""
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=request.param)
    contract.attach(connection)
    connection.execute("CREATE TABLE visible (id text PRIMARY KEY)")
    connection.commit()
    yield connection
    connection.close()


@pytest.fixture
def other(rig: Rig, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A second connection, to see what is committed."""
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    yield connection
    connection.close()


def test_the_contract_never_commits_by_itself(owner: sqlite3.Connection, other: sqlite3.Connection) -> None:
    contract.prepare(owner, "shop", "load", ["r1", "r2"], "disk", ["r1/", "r2/"], 60)
    assert (owner.in_transaction, other.execute(MARKS).fetchall()) == (True, [])
    owner.commit()
    prepared = [("prepared", "r1", "MARKED"), ("prepared", "r2", "MARKED")]
    assert other.execute(MARKS).fetchall() == prepared

    contract.commit(owner, "shop", ["r1"])
    assert (owner.in_transaction, other.execute(MARKS).fetchall()) == (True, prepared)
    owner.rollback()
    contract.mark(owner, "shop", "dropped", [NewMark(id="t1", vault="disk", keys=("x",))])
    assert (owner.in_transaction, other.execute(MARKS).fetchall()) == (True, prepared)
    owner.commit()
    contract.undrop(owner, "shop", "dropped", ["t1"])

    assert (owner.in_transaction, len(other.execute(MARKS).fetchall())) == (True, 3)
    owner.commit()
    assert other.execute(MARKS).fetchall() == prepared


def test_the_contract_joins_a_transaction_of_the_owner(owner: sqlite3.Connection, other: sqlite3.Connection) -> None:
    contract.prepare(owner, "shop", "load", ["r1"], "disk", ["r1/"], 60)
    owner.commit()

    owner.execute("BEGIN")
    owner.execute("INSERT INTO visible VALUES ('r1')")
    contract.commit(owner, "shop", ["r1"])
    contract.mark(owner, "shop", "compacted", [NewMark(id="r0", vault="disk", keys=("x",))])
    assert other.execute("SELECT * FROM visible").fetchall() == []
    owner.commit()

    assert other.execute("SELECT * FROM visible").fetchall() == [("r1",)]
    assert other.execute(MARKS).fetchall() == [("compacted", "r0", "MARKED")]


def test_a_refusal_leaves_the_rollback_to_the_owner(
    rig: Rig, owner: sqlite3.Connection, other: sqlite3.Connection
) -> None:
    contract.prepare(owner, "shop", "load", ["r1", "r2"], "disk", ["r1/", "r2/"], 60)
    owner.commit()
    claim(rig, token(rig, "prepared"), "prepared", "r2")

    owner.execute("BEGIN")
    owner.execute("INSERT INTO visible VALUES ('r1')")
    with pytest.raises(Collected, match="r2 claimed in batch"):
        contract.commit(owner, "shop", ["r1", "r2"])
    assert (owner.in_transaction, other.execute("SELECT * FROM visible").fetchall()) == (True, [])
    assert owner.execute(MARKS).fetchall() == [("prepared", "r1", "MARKED"), ("prepared", "r2", "CLAIMED")]
    owner.rollback()

    assert other.execute("SELECT * FROM visible").fetchall() == []


def test_attach_registers_the_clock_of_the_database(rig: Rig, owner: sqlite3.Connection) -> None:
    for offset in (0, 86_400):
        rig.later(offset)
        began = time.time() * 1000

        now_ms = owner.execute("SELECT sexton_now()").fetchone()[0]

        with rig.db.read() as c:
            assert 0 <= rig.db.now(c) - now_ms <= 50
        assert abs(now_ms - offset * 1000 - began) < 100


def test_attach_refuses_a_file_without_sexton(tmp_path: Path) -> None:
    stranger = sqlite3.connect(tmp_path / "stranger.db")

    with pytest.raises(BadInput, match="run: sexton init"):
        contract.attach(stranger)

    stranger.close()


@pytest.mark.parametrize(
    "mistake",
    [
        "UPDATE sexton_mark SET state = 'MARKED'",
        "UPDATE sexton_mark SET prefix = 'other/', keys = NULL",
        "UPDATE sexton_mark SET vault = 'other'",
        "UPDATE sexton_mark SET id = 'other'",
        "DELETE FROM sexton_mark",
        "INSERT INTO sexton_mark (instance, kind, id, keys, vault) VALUES ('shop', 'dropped', 't1', '[\"x\"]', 'disk') "
        "ON CONFLICT DO UPDATE SET state = 'MARKED'",
    ],
)
def test_a_mistaken_statement_does_not_unclaim(
    rig: Rig, owner: sqlite3.Connection, other: sqlite3.Connection, mistake: str
) -> None:
    rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("x",)))
    claim(rig, token(rig), "dropped", "t1")

    with pytest.raises(sqlite3.IntegrityError):
        owner.execute(mistake)
    owner.rollback()

    assert other.execute(MARKS).fetchall() == [("dropped", "t1", "CLAIMED")]
    with pytest.raises(Refused, match="t1 is claimed"):
        contract.undrop(owner, "shop", "dropped", ["t1"])


@pytest.mark.parametrize(
    ("column", "value"),
    [("state", "'CLAIMED'"), ("batch", "1"), ("claimed_at", "1"), ("marked_at", "1"), ("expires_at", "1")],
)
def test_an_owner_sets_no_state_or_time_of_a_mark(owner: sqlite3.Connection, column: str, value: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="SX006"):
        owner.execute(
            f"INSERT INTO sexton_mark (instance, kind, id, vault, prefix, {column}) "
            f"VALUES ('shop', 'dropped', 't1', 'disk', 'a/', {value})"
        )


@pytest.mark.parametrize("days", [-1, 0, 366.0001, 1e9])
def test_a_prepared_mark_expires_within_366_days(owner: sqlite3.Connection, days: float) -> None:
    expires_at = int((time.time() + days * 86_400) * 1_000)
    insert = "INSERT INTO sexton_mark (instance, kind, id, vault, prefix, expires_at) VALUES (?, ?, ?, ?, ?, ?)"

    with pytest.raises(sqlite3.IntegrityError, match="SX006"):
        owner.execute(insert, ("shop", "prepared", "r1", "disk", "a/", expires_at))
    with pytest.raises(sqlite3.IntegrityError, match="SX006"):
        owner.execute(insert, ("shop", "prepared", "r1", "disk", "a/", int(time.time() + 60) * 1_000 + 0.5))
    owner.execute(insert, ("shop", "prepared", "r1", "disk", "a/", int((time.time() + 60) * 1_000)))
