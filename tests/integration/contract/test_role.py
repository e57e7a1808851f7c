"""A PostgreSQL role with the owner's grants can do what the contract says, and nothing else."""

import secrets
from collections.abc import Iterator

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

MARK = "INSERT INTO sexton.mark (instance, kind, id, vault, prefix) VALUES ('shop', 'dropped', 'x', 'disk', 'x/')"
SEXTONS = ("state", "marked_at", "expires_at", "batch", "claimed_at", "first_pass_at", "lease_epoch", "next_try_at")
SEXTONS += ("quarantined_reason", "failures")
"""Columns of a mark that only Sexton sets."""
DENIED = (
    "SELECT * FROM sexton.mark FOR UPDATE",
    "ALTER TABLE sexton.mark DISABLE TRIGGER ALL",
    "DROP TABLE sexton.mark",
    "LOCK TABLE sexton.mark IN ACCESS EXCLUSIVE MODE",
    "SET session_replication_role = replica",
    "CREATE OR REPLACE FUNCTION sexton.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
    MARK + " ON CONFLICT (instance, kind, id) DO UPDATE SET bytes = 1",
    *(MARK.replace("prefix)", f"prefix, {column})").replace("'x/')", "'x/', NULL)") for column in SEXTONS),
)
"""What the rights that database/test_privilege_matrix.py compares do not permit, or do not name."""


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
    contract.prepare(owner, "shop", "load", ["r1", "r2", "r3"], "disk", ["r1/", "r2/", "r3/"], 60)
    owner.commit()
    claim(rig, token(rig, "prepared"), "prepared", "r3")
    owner.execute(text("INSERT INTO visible VALUES ('r3')"))
    with pytest.raises(Collected, match=r"r3 claimed in batch \d+ at .* \(its transaction expired at"):
        contract.commit(owner, "shop", ["r3"])
    owner.rollback()
    assert owner.execute(text("SELECT count(*) FROM visible")).scalar_one() == 0
    owner.rollback()
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
    assert [tuple(r) for r in seen] == [
        ("compacted", "r0", "MARKED"),
        ("prepared", "r2", "MARKED"),
        ("prepared", "r3", "CLAIMED"),
    ]
    assert owner.execute(text("SELECT sexton.now() - now() < '10 s'")).scalar_one() is True


def test_the_owners_role_can_do_nothing_else(rig: Rig, owner: Connection) -> None:
    owner.execute(text(MARK.replace("'x', 'disk'", "'existing', 'disk'")))
    owner.commit()

    for statement in DENIED:
        with pytest.raises(DBAPIError) as refused:
            owner.execute(text(statement))
        assert isinstance(refused.value.orig, errors.InsufficientPrivilege), statement
        owner.rollback()

    assert rig.count("mark") == 1


def test_a_role_name_must_be_a_valid_name() -> None:
    for role in ('x"; DROP SCHEMA sexton; --', "", "a b", "x\n"):
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


def test_a_claim_holds_at_every_isolation_level(rig: Rig, owner: Connection) -> None:
    levels = {"a": "REPEATABLE READ", "b": "SERIALIZABLE"}
    rig.mark("dropped", *(NewMark(id=i, vault="disk", prefix=f"{i}/") for i in levels))
    contract.prepare(owner, "shop", "load", list(levels), "disk", [f"{i}/" for i in levels], 60)
    owner.commit()
    changes = {"dropped": lambda i: contract.undrop(owner, "shop", "dropped", [i])}
    changes["prepared"] = lambda i: contract.commit(owner, "shop", [i])
    for number, (kind, id_) in enumerate((kind, id_) for kind in changes for id_ in levels):
        owner.execution_options(isolation_level=levels[id_])
        assert owner.execute(text("SELECT count(*) FROM sexton.mark")).scalar_one() == 4
        if kind == "prepared":
            owner.execute(text("INSERT INTO visible VALUES (:id)"), {"id": id_})
        claim(rig, token(rig, kind, number=number), kind, id_)

        with pytest.raises(DBAPIError) as stale:  # its snapshot is older than the claim
            changes[kind](id_)
        assert isinstance(stale.value.orig, errors.SerializationFailure)
        owner.rollback()
        with pytest.raises((Refused, Collected), match=f"{id_} (is )?claimed in batch"):
            changes[kind](id_)
        owner.rollback()

    assert rig.count("mark", state="CLAIMED") == 4
