"""A PostgreSQL role with the owner's grants can do what the contract says, and nothing else."""

import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError

from sexton import contract
from sexton.contract import Collected, NewMark, NotFirst, Refused
from sexton.database import roles
from sexton.kernel.errors import BadInput
from tests.support.claims import claim, token
from tests.support.rig import Rig

MARK = "INSERT INTO sexton.mark (instance, kind, id, vault, prefix{}) VALUES ('shop', 'dropped', 'x', 'disk', 'x/'{})"
TABLES = ("clock", "instance", "instance_guard", "vault", "file_list", "lease", "plan", "round", "batch", "tally")


@pytest.fixture
def role(rig: Rig) -> str:
    name = f"shop_{secrets.token_hex(4)}"
    with rig.db.write() as c:
        c.execute(text(f"CREATE ROLE {name} LOGIN; CREATE SCHEMA AUTHORIZATION {name}"))
    roles.grant(rig.url, name)
    roles.grant_instance(rig.db, "shop", name)
    return name


@pytest.fixture
def owner(rig: Rig, role: str) -> Iterator[Connection]:
    """A connection as that role, with its own table ``visible``."""
    engine = create_engine(rig.url.replace("postgres@", f"{role}@"))
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE visible (id text)"))
        connection.commit()
        yield connection
    engine.dispose()


def test_the_owners_role_marks_prepares_commits_and_undrops(rig: Rig, owner: Connection) -> None:
    contract.prepare(owner, "shop", "load", ["r1", "r2"], "disk", ["r1/", "r2/"], 60)
    owner.commit()
    owner.execute(text("INSERT INTO visible VALUES ('r1')"))
    contract.commit(owner, "shop", ["r1"])
    contract.mark(
        owner, "shop", "compacted", [NewMark(id="r0", vault="disk", keys=("a", "b"), parent=("dropped", "t"))]
    )
    owner.commit()
    owner.execute(
        text(
            "INSERT INTO sexton.mark (instance, kind, id, vault, prefix) VALUES ('shop', 'dropped', 't', 'disk', 't/')"
        )
    )
    owner.commit()
    contract.undrop(owner, "shop", "dropped", ["t"])
    owner.commit()

    seen = owner.execute(text("SELECT kind, id, state FROM sexton.mark ORDER BY id")).all()
    assert [tuple(r) for r in seen] == [("compacted", "r0", "MARKED"), ("prepared", "r2", "MARKED")]
    assert owner.execute(text("SELECT sexton.now() - now() < '10 s'")).scalar_one() is True


def test_the_owners_role_sees_which_marks_were_collected(rig: Rig, owner: Connection) -> None:
    contract.prepare(owner, "shop", "load", ["r1"], "disk", ["r1/"], 60)
    owner.commit()
    claim(rig, token(rig, "prepared"), "prepared", "r1")

    owner.execute(text("INSERT INTO visible VALUES ('r1')"))
    with pytest.raises(Collected, match=r"r1 claimed in batch \d+ at .* \(its transaction expired at"):
        contract.commit(owner, "shop", ["r1"])
    owner.rollback()

    assert owner.execute(text("SELECT count(*) FROM visible")).scalar_one() == 0


DENIED = [
    "UPDATE sexton.mark SET bytes = 1",
    "DELETE FROM sexton.mark",
    "TRUNCATE sexton.mark",
    "SELECT * FROM sexton.mark FOR UPDATE",
    "ALTER TABLE sexton.mark DISABLE TRIGGER ALL",
    "DROP TABLE sexton.mark",
    "CREATE TABLE sexton.mine (x int)",
    "LOCK TABLE sexton.mark IN ACCESS EXCLUSIVE MODE",
    "SET session_replication_role = replica",
    "CREATE OR REPLACE FUNCTION sexton.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
    MARK.format("", "") + " ON CONFLICT (instance, kind, id) DO UPDATE SET bytes = 1",
    *(
        MARK.format(f", {column}", f", {value}")
        for column, value in {
            "state": "'CLAIMED'",
            "marked_at": "now()",
            "expires_at": "now()",
            "batch": "1",
            "claimed_at": "now()",
            "first_pass_at": "now()",
            "lease_epoch": "1",
            "next_try_at": "now()",
            "quarantined_reason": "'x'",
            "failures": "1",
        }.items()
    ),
    "UPDATE sexton.clock SET offset_seconds = 99",
    "INSERT INTO sexton.mark_history SELECT * FROM sexton.mark_history",
    "DELETE FROM sexton.mark_history",
    *(f"SELECT * FROM sexton.{t}" for t in (*TABLES, "alembic_version")),
    *(f"DELETE FROM sexton.{t}" for t in TABLES),
    *(f"INSERT INTO sexton.{t} DEFAULT VALUES" for t in TABLES),
]


def test_the_owners_role_can_do_nothing_else(rig: Rig, owner: Connection) -> None:
    owner.execute(text(MARK.format("", "").replace("'x', 'disk'", "'there', 'disk'")))
    owner.commit()

    let = []
    for statement in DENIED:
        try:
            owner.execute(text(statement))
            let.append(statement)
        except DBAPIError as e:
            if not isinstance(e.orig, errors.InsufficientPrivilege):
                let.append(f"{statement}: {e.orig}")
        owner.rollback()

    assert let == []
    assert rig.count("mark") == 1


def test_a_role_without_grants_reaches_nothing(rig: Rig, role: str) -> None:
    stranger = f"stranger_{secrets.token_hex(4)}"
    with rig.db.write() as c:
        c.execute(text(f"CREATE ROLE {stranger} LOGIN; GRANT USAGE ON SCHEMA sexton TO {stranger}"))

    with psycopg.connect(rig.url.replace("+psycopg", "").replace("postgres@", f"{stranger}@")) as c:
        for call in ("SELECT sexton.commit('shop', '{x}')", "SELECT sexton.undrop('shop', 'dropped', '{x}')"):
            with pytest.raises(errors.InsufficientPrivilege):
                c.execute(call.encode())
            c.rollback()


@pytest.mark.parametrize("role", ['x"; DROP SCHEMA sexton; --', "", "a b", "x\n"])
def test_a_role_name_must_be_a_valid_name(role: str) -> None:
    with pytest.raises(BadInput, match="is not a role name"):
        roles.grants(role)


def test_undrop_after_a_write_of_the_same_transaction_is_refused(rig: Rig, owner: Connection) -> None:
    rig.mark("dropped", NewMark(id="t", vault="disk", prefix="t/"))

    owner.execute(text("INSERT INTO visible VALUES ('t')"))
    with pytest.raises(NotFirst, match="SX002"):
        contract.undrop(owner, "shop", "dropped", ["t"])
    owner.rollback()
    owner.execute(text("SELECT count(*) FROM visible"))
    contract.undrop(owner, "shop", "dropped", ["t"])
    owner.execute(text("INSERT INTO visible VALUES ('t')"))
    owner.commit()

    assert rig.count("mark") == 0


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_claim_holds_at_every_isolation_level(rig: Rig, owner: Connection, level: str) -> None:
    rig.mark("dropped", *(NewMark(id=i, vault="disk", prefix=f"{i}/") for i in ("a", "b")))
    owner.rollback()
    owner.execution_options(isolation_level=level)
    assert owner.execute(text("SELECT count(*) FROM sexton.mark WHERE state = 'MARKED'")).scalar_one() == 2
    taken = token(rig)
    claim(rig, taken, "dropped", "a", "b")

    with pytest.raises(DBAPIError) as stale:  # its snapshot is older than the claim
        contract.undrop(owner, "shop", "dropped", ["a"])
    assert isinstance(stale.value.orig, errors.SerializationFailure)
    owner.rollback()
    with pytest.raises(Refused, match="a is claimed in batch"):
        contract.undrop(owner, "shop", "dropped", ["a"])
    owner.rollback()

    assert rig.count("mark", state="CLAIMED") == 2


def test_a_commit_with_an_old_snapshot_cannot_win_over_a_claim(rig: Rig, owner: Connection) -> None:
    contract.prepare(owner, "shop", "load", ["r"], "disk", ["r/"], 60)
    owner.commit()
    owner.execution_options(isolation_level="REPEATABLE READ")
    owner.execute(text("INSERT INTO visible VALUES ('r')"))
    claim(rig, token(rig, "prepared"), "prepared", "r")

    with pytest.raises(DBAPIError) as stale:
        contract.commit(owner, "shop", ["r"])
    owner.rollback()

    assert isinstance(stale.value.orig, errors.SerializationFailure)
    assert rig.count("mark", state="CLAIMED") == 1
